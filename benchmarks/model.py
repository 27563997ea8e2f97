"""What our kernels and gsplat 1.5.3's cost on a GPU by counting, for docs/kernels.md's two scenes. Nothing is timed.

The trips of a warp through each part of the rasterizers' loops (model_counts.py) times the SASS instructions of that
part (model_rasterizers.py), the same for the loops that list pairs (model_lists.py), bytes and atomics
(model_bytes.py), launches and waits (model_launches.py). Kernels without loops, a thread for each Gaussian, are counted
by their bytes, which take longer.

Usage: model.py FOLDER [LIBRARY], run by a Python that has splat, gsplat 1.5.3, a torch with CUDA and pip's nvcc; it
needs no GPU. The folder keeps gsplat's compiled kernels. The library is ours, by default that of the installed splat.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import gpu_time
import model_bytes
import model_counts
import model_launches
import model_lists
from gsplat_sources import ARCHITECTURE, compile_cubin
from kernel_resources import installed_library
from measure import table
from model_rasterizers import Shape, instructions
from model_sass import LEFT_OUT, disassemble

COPY_RATE = 3.0e12  # bytes per second that an H100 copies
ISSUE_RATE = 132 * 4 * 1.755e9  # warp instructions per second: one for each scheduler and clock
WIDTH, HEIGHT = 1920, 1080
OUR_KERNELS = {"forward": "9rasterizeILi3E", "backward": "13differentiateILi3ELb0ELb0E"}
GSPLAT_KERNELS = {
    "forward": ("RasterizeToPixels3DGSFwd.cu", "rasterize_to_pixels_3dgs_fwd_kernelILj3E"),
    "backward": ("RasterizeToPixels3DGSBwd.cu", "rasterize_to_pixels_3dgs_bwd_kernelILj3E"),
}
PACKAGES = ("splat", "gsplat")
RATIO = "splat / gsplat"
DIRECTIONS = ("forward", "backward")
OUR_LISTS = {"count": "11count_tiles", "list": "10emit_pairs"}
GSPLAT_LISTS = ("IntersectTile.cu", "intersect_tile_kernelIfE")
PARTS = ("warps", "batches", "stagings", "tests", "steps", "exponentials", "visible", "blending")


class Code(NamedTuple):
    """Instructions of each part, by pass."""

    splat: dict[str, Counter[str]]
    gsplat: dict[str, Counter[str]]
    lists: dict[str, Counter[str]]  # by package and what a kernel does


class Cost(NamedTuple):
    """Of one part of a pass."""

    trips: int
    instructions: int  # of one trip

    @property
    def total(self) -> int:
        """Warp instructions."""
        return self.trips * self.instructions


def main(folder: Path, library: Path) -> None:
    """Print the tables."""
    print(f"a model: nothing here was timed; {ARCHITECTURE}, {COPY_RATE / 1e12:.1f} TB/s, {WIDTH}x{HEIGHT}")
    follower = model_counts.build(folder)
    counted = {}
    try:
        counted["garden"] = model_counts.count(gpu_time.garden("cpu"), follower)
    except FileNotFoundError as error:
        print(f"without garden: {error}")
    counted["synthetic 1M"] = model_counts.count(gpu_time.synthetic(10**6, WIDTH, HEIGHT, "cpu"), follower)
    code = Code(read_ours(library), read_gsplat(folder), read_lists(library, folder))
    print_scenes(counted)
    for name, scene in counted.items():
        print_instructions(name, scene, code)
    print_passes(counted, code)
    print_lists({name: model_lists.follow_lists(scene.meta, follower) for name, scene in counted.items()}, code.lists)
    for name, scene in counted.items():
        print_bytes(name, scene)
    print_launches()


def read_ours(library: Path) -> dict[str, Counter[str]]:
    """Of splat's library."""
    found = disassemble(library, ARCHITECTURE, list(OUR_KERNELS.values()))
    return {name: instructions(found[word], Shape(name == "backward", True)) for name, word in OUR_KERNELS.items()}


def read_gsplat(folder: Path) -> dict[str, Counter[str]]:
    """Of gsplat's sources, compiled by its own options."""
    found = {}
    for name, (source, word) in GSPLAT_KERNELS.items():
        code = disassemble(compile_cubin(source, folder), ARCHITECTURE, [word])[word]
        found[name] = instructions(code, Shape(name == "backward", False))
    return found


def read_lists(library: Path, folder: Path) -> dict[str, Counter[str]]:
    """Of both packages' kernels that count and list pairs; gsplat's are one kernel in two passes."""
    ours = disassemble(library, ARCHITECTURE, list(OUR_LISTS.values()))
    source, word = GSPLAT_LISTS
    theirs = disassemble(compile_cubin(source, folder), ARCHITECTURE, [word])[word]
    return {
        "splat count": model_lists.counting_instructions(ours[OUR_LISTS["count"]]),
        "splat list": model_lists.listing_instructions(ours[OUR_LISTS["list"]]),
        "gsplat count": model_lists.first_pass_instructions(theirs),
        "gsplat list": model_lists.listing_instructions(theirs),
    }


def print_scenes(counted: dict[str, model_counts.Counted]) -> None:
    """What is drawn."""
    print()
    rows: list[tuple[str, Callable[[model_counts.Counted], int]]] = [
        ("Gaussians N", lambda c: c.gaussians),
        ("seen V", lambda c: c.seen),
        ("pairs of Gaussian and tile, n", lambda c: c.splat.pairs),
        ("up to the last one blended, n'", lambda c: c.splat.backward.of("gathered")),
        ("kept for a warp, s: steps backward", lambda c: c.splat.backward.of("steps")),
        ("blends", lambda c: c.splat.forward.of("pixel_blends")),
        ("gsplat: pairs of Gaussian and tile", lambda c: c.gsplat.pairs),
        ("gsplat: steps backward", lambda c: c.gsplat.backward.of("steps")),
    ]
    table(["", *counted], [[name, *(str(value(scene)) for scene in counted.values())] for name, value in rows])


def print_instructions(name: str, scene: model_counts.Counted, code: Code) -> None:
    """Trips, instructions of a trip, and their product, by part."""
    print()
    rows = []
    for direction in DIRECTIONS:
        for part in PARTS:
            costs = cost(part, direction, scene.splat, code.splat), cost(part, direction, scene.gsplat, code.gsplat)
            if any(each.total for each in costs):
                cells = [
                    [f"{each.trips / 1e6:.3f}", str(each.instructions), f"{each.total / 1e6:.2f}"] for each in costs
                ]
                rows.append([f"{name}, {direction}: {part}", *cells[0], *cells[1]])
    header = [f"{package}: {what}" for package in PACKAGES for what in ("M trips", "instructions", "M")]
    table(["warps", *header], rows)


def cost(part: str, direction: str, followed: model_counts.Followed, code: dict[str, Counter[str]]) -> Cost:
    """Of a part; nothing where the kernel has no such part."""
    each = code[direction][part]
    return Cost(followed.of(direction).of(part) if each else 0, each)


def print_passes(counted: dict[str, model_counts.Counted], code: Code) -> None:
    """Warp instructions and atomics of each pass, their floor, and the ratio."""
    print()
    rows = []
    for name, scene in counted.items():
        for direction in DIRECTIONS:
            totals, cells = [], []
            for followed, by_part in ((scene.splat, code.splat), (scene.gsplat, code.gsplat)):
                total = sum(cost(part, direction, followed, by_part).total for part in PARTS)
                atomics = model_bytes.ATOMICS * followed.backward.of("blending") if direction == "backward" else 0
                totals.append(total)
                cells += [f"{total / 1e6:.0f}", f"{1e3 * total / ISSUE_RATE:.2f}", f"{atomics / 1e6:.1f}"]
            rows.append([f"{name}, {direction}", *cells, f"{totals[0] / totals[1]:.2f}"])
    header = [f"{package}: {what}" for package in PACKAGES for what in ("M instructions", "ms", "M atomics")]
    table(["rasterizer", *header, RATIO], rows)
    left = [
        f"{package} {direction} {parts[LEFT_OUT]}"
        for package, by_direction in (("splat", code.splat), ("gsplat", code.gsplat))
        for direction, parts in by_direction.items()
    ]
    print(f"instructions left out, as these scenes do not execute them: {', '.join(left)}")


def print_lists(trips: dict[str, dict[str, model_lists.ListTrips]], code: dict[str, Counter[str]]) -> None:
    """Warp instructions of the kernels that count and list pairs, and their floor."""
    print()
    rows = []
    for scene, by_kernel in trips.items():
        for does in ("count", "list"):
            totals = [
                model_lists.warp_instructions(by_kernel[f"{package} {does}"], code[f"{package} {does}"])
                for package in PACKAGES
            ]
            cells = [cell for total in totals for cell in (f"{total / 1e6:.1f}", f"{1e3 * total / ISSUE_RATE:.3f}")]
            rows.append([f"{scene}, {does}", *cells, f"{totals[0] / totals[1]:.2f}"])
    header = [f"{package}: {what}" for package in PACKAGES for what in ("M instructions", "ms")]
    table(["pairs", *header, RATIO], rows)


def print_bytes(name: str, scene: model_counts.Counted) -> None:
    """By step, with the floor."""
    print()
    rows = []
    for direction, steps in (
        ("forward", model_bytes.forward(scene, WIDTH * HEIGHT)),
        ("backward", model_bytes.backward(scene, WIDTH * HEIGHT)),
    ):
        total = tuple(map(sum, zip(*steps.values(), strict=True)))
        for step, moved in [*steps.items(), ("all", total)]:
            ratio = f"{moved[0] / moved[1]:.2f}" if moved[1] else "-"
            cells = [cell for count in moved for cell in (f"{count / 1e6:.1f}", f"{1e3 * count / COPY_RATE:.3f}")]
            rows.append([f"{name}, {direction}: {step}", *cells, ratio])
    header = [f"{package}: {what}" for package in PACKAGES for what in ("MB", "ms")]
    table(["dense layout", *header, RATIO], rows)


def print_launches() -> None:
    """Of one call with the default arguments."""
    print()
    ours, theirs = model_launches.of_splat(), model_launches.of_gsplat()
    rows = [
        [direction, *map(str, (*getattr(ours, direction), *getattr(theirs, direction)))] for direction in DIRECTIONS
    ]
    header = [
        f"{package}: {what}" for package in PACKAGES for what in ("own launches", "torch's operations", "host waits")
    ]
    table(["default call", *header], rows)
    for package, found in (("splat", ours), ("gsplat", theirs)):
        words = ", ".join(f"{name} {count}" for name, count in found.operations.most_common())
        print(f"torch's operations of {package}: {words}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else installed_library())
