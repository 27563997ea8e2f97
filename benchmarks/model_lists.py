"""How often a warp goes through each part of the loops that list pairs, and the SASS instructions of each part.

Both packages have a kernel that counts and one that lists. The kernels' code is told apart by these rules:

- `quads`: an inner loop that writes (STG), four columns of a row at a time, as nvcc unrolls it; `remainders`: the
  branch beside it that writes up to three columns; `rows`: the loop around both;
- `listing`: the branch around those; `large` and what follows it: the same once more, for Gaussians with so many tiles
  that a warp lists them together;
- of a kernel that only counts, `rows` is the loop that computes square roots (MUFU.RSQ), two for each row;
- `warps`: the rest. Branches with a call are left out, and what repeats an unrolled loop for a last row.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any

import torch
from model_counts import TILE_SIZE
from model_sass import LEFT_OUT, Kernel, Part, Span, largest, one, smallest
from torch import Tensor

MANY = 64  # emit_pairs lists Gaussians with as many tiles by whole warps
NEVER = 2**62
PAIR_WRITES = 2  # a key and the number of a Gaussian
UNROLLED = 4
ROOTS = 2  # of a row


PARTS = (
    "warps",
    "listing",
    "rows",
    "remainders",
    "quads",
    "large",
    "large_rows",
    "large_remainders",
    "large_quads",
)


class ListTrips(ctypes.Structure):
    """Sums over the warps of an image; see above."""

    _fields_ = tuple((name, ctypes.c_int64) for name in PARTS)

    def of(self, name: str) -> int:
        """One of the counts."""
        return int(getattr(self, name))


def follow_lists(meta: dict[str, Any], library: ctypes.CDLL) -> dict[str, ListTrips]:
    """By kernel, for a dense result of `rasterization` with one camera."""
    tiles, depths = meta["tiles_per_gauss"][0], meta["depths"][0]
    n = len(depths)
    in_memory = torch.arange(n)
    # Gaussians without tiles come last.
    by_depth = torch.where(tiles > 0, depths, torch.inf).argsort(stable=True)
    conics, opacities = meta["conics"][0], meta["opacities"][0].contiguous()
    # Without an ellipse, all tiles of the rectangle.
    no_conics, solid = torch.zeros_like(conics), torch.ones_like(opacities)

    def follow(conics: Tensor, opacities: Tensor, order: Tensor, many: int) -> ListTrips:
        trips = ListTrips()
        arrays = (meta["means2d"][0], conics, opacities, meta["radii"][0], order)
        library.follow_lists(
            *(ctypes.c_void_p(array.data_ptr()) for array in arrays),
            ctypes.c_int64(n),
            meta["width"],
            meta["height"],
            TILE_SIZE,
            ctypes.c_int64(many),
            ctypes.byref(trips),
        )
        return trips

    return {
        "splat count": follow(conics, opacities, in_memory, NEVER),
        "splat list": follow(conics, opacities, by_depth, MANY),
        "gsplat count": follow(no_conics, solid, in_memory, NEVER),
        "gsplat list": follow(no_conics, solid, in_memory, NEVER),
    }


def warp_instructions(trips: ListTrips, code: Counter[str]) -> int:
    """Of all warps."""
    return sum(trips.of(part) * code[part] for part in PARTS)


def counting_instructions(kernel: Kernel) -> Counter[str]:
    """Of a kernel that counts tiles row by row."""
    rows = one("rows", kernel.those_with("MUFU.RSQ", kernel.loops), smallest)
    last = [branch for branch in kernel.those_with("MUFU.RSQ", kernel.branches) if branch.begin > rows.end]
    found = kernel.instructions([(rows, "rows"), *((branch, LEFT_OUT) for branch in last), *kernel.calls()])
    found["rows"] //= max(1, kernel.number(rows, "MUFU.RSQ") // ROOTS)
    return found


def listing_instructions(kernel: Kernel) -> Counter[str]:
    """Of a kernel that lists pairs."""
    writing = kernel.those_with("STG", kernel.loops)
    inner = sorted(loop for loop in writing if not any(loop.holds(other) for other in writing))
    parts: list[Part] = []
    outer: list[Span] = []
    if {kernel.number(loop, "STG") for loop in inner} != {UNROLLED * PAIR_WRITES}:
        raise SystemExit("the model's rules do not fit the kernel's code: its inner loops do not write four pairs")
    for prefix, quads in zip(("", "large_"), inner, strict=False):
        rows = one(f"{prefix}rows", [loop for loop in kernel.loops if loop.holds(quads)], smallest)
        branches = [branch for branch in kernel.branches if rows.holds(branch) and not branch.holds(quads)]
        remainders = one(f"{prefix}remainders", kernel.those_with("STG", branches), largest)
        parts += [(quads, f"{prefix}quads"), (remainders, f"{prefix}remainders"), (rows, f"{prefix}rows")]
        outer.append(rows)
    if len(outer) > 1:
        listing = [branch for branch in kernel.branches if branch.holds(outer[0]) and not branch.holds(outer[1])]
        parts.append((one("listing", listing, largest), "listing"))
        parts.append((one("large", [loop for loop in kernel.loops if loop.holds(outer[1])], smallest), "large"))
    return kernel.instructions([*parts, *kernel.calls()])


def first_pass_instructions(kernel: Kernel) -> Counter[str]:
    """Of gsplat's kernel when it counts: up to the last branch that leads behind the loops."""
    end = kernel.code[-1].address
    leaving = [i.address for i in kernel.code if i.target is not None and i.target > end]
    if not leaving:
        raise SystemExit("the model's rules do not fit the kernel's code: no branch leads to gsplat's first pass")
    return Counter(warps=sum(i.address <= leaving[-1] for i in kernel.code))
