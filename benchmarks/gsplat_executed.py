"""How far our kernels are from gsplat 1.5.3's own on the garden, in a small picture; nothing is timed.

Both packages' kernels are executed on the CPU as the PTX that nvcc made (tests/simt): ours by their operators, gsplat's
by its Python code. Beside them, splat's operators for the CPU. And how much memory a training step of each keeps.

Usage: gsplat_executed.py FOLDER [REDUCTION] [LIBRARY], run by a Python that has splat, gsplat 1.5.3, a torch with CUDA,
pip's nvcc and pyelftools; it needs no GPU. The folder keeps what is compiled. The picture is full HD by the reduction.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, NamedTuple

import gpu_scenes
import gsplat_sources
import step_memory
import torch
from kernel_resources import find_cuobjdump, installed_libraries
from measure import table
from torch import Tensor

import splat
from splat import _kernels
from splat.ops.defaults import MAX_ALPHA

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from simt.compile_simt import PTX, build, newest_ptx
from simt.gsplat_kernels import CompiledModule, build_gsplat, in_place_of

TILE, DEGREE, PINHOLE = 16, 3, 0
EPS2D, NEAR, FAR = 0.3, 0.01, 1e10
LEAVES = ("means", "quats", "scales", "opacities", "colors", "viewmats")
CLOSE = 1e-5  # of a pixel's colour
RIVALS = ("splat's PTX", "splat's CPU operators")


class Drawn(NamedTuple):
    """What came of the scene."""

    values: dict[str, Tensor]
    gradients: dict[str, Tensor]
    radii: Tensor
    ids: Tensor  # of the pairs
    offsets: Tensor  # where each tile's pairs begin

    @property
    def seen(self) -> Tensor:
        """Which Gaussians."""
        return (self.radii > 0).all(-1)

    def pairs(self) -> set[int]:
        """Each as one number."""
        counts = self.offsets.flatten().diff(append=torch.tensor([len(self.ids)]))
        tiles = torch.arange(len(counts)).repeat_interleave(counts)
        return set((tiles * self.radii[..., 0].numel() + self.ids).tolist())


def main(folder: Path, reduction: int, libraries: Path) -> None:
    """Print the tables."""
    arguments = scene(reduction)
    weights = weights_of(arguments)
    ptx = gsplat_sources.compile_ptx(folder).read_text(encoding="utf-8")
    compiled = build_gsplat(folder / "gsplat", ptx)
    theirs = draw_gsplat(compiled, arguments, weights)
    build(folder / "splat", PTX, newest_ptx(libraries, find_cuobjdump()))
    _kernels.require(torch.device("cpu"))
    ours = {
        name: draw_splat(operators, arguments, weights)
        for name, operators in zip(RIVALS, (getattr(torch.ops, PTX), torch.ops.splat), strict=True)
    }
    print(f"garden, {arguments['width']}x{arguments['height']}, {len(arguments['means'])} Gaussians, degree {DEGREE}")
    print_lists(theirs, ours)
    print_values(theirs, ours)
    print()
    with in_place_of(compiled):
        rivals = {"splat": splat.rasterization, "gsplat 1.5.3": importlib.import_module("gsplat").rasterization}
        step_memory.print_memory(rivals)


def scene(reduction: int) -> gpu_scenes.Arguments:
    """The garden with coefficients of all degrees, in a small picture."""
    arguments = gpu_scenes.smaller(gpu_scenes.garden("cpu"), reduction)
    generator = torch.Generator().manual_seed(0)
    colors = arguments["colors"].clone()
    colors[:, 1:] = 0.1 * torch.randn(colors[:, 1:].shape, generator=generator)
    return arguments | {"colors": colors}


def weights_of(arguments: gpu_scenes.Arguments) -> tuple[Tensor, Tensor]:
    """Random gradients of the picture and of its alphas."""
    generator = torch.Generator().manual_seed(1)
    shape = (1, arguments["height"], arguments["width"])
    return torch.randn(*shape, 3, generator=generator), torch.randn(*shape, 1, generator=generator)


def draw_gsplat(compiled: CompiledModule, arguments: gpu_scenes.Arguments, weights: tuple[Tensor, Tensor]) -> Drawn:
    """By gsplat's `rasterization`."""
    leaves = {name: arguments[name].clone().requires_grad_() for name in LEAVES}
    with in_place_of(compiled):
        picture, alphas, meta = importlib.import_module("gsplat").rasterization(**arguments | leaves)
        torch.autograd.backward([picture, alphas], weights)
    values = {"picture": picture, "alphas": alphas} | {name: meta[name] for name in ("means2d", "depths", "conics")}
    return Drawn(
        {name: value.detach() for name, value in values.items()},
        {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None},
        meta["radii"],
        meta["flatten_ids"],
        meta["isect_offsets"],
    )


def draw_splat(operators: Any, arguments: gpu_scenes.Arguments, weights: tuple[Tensor, Tensor]) -> Drawn:
    """By our operators, in the order of `rasterization`."""
    means, quats, scales, opacities, coefficients, viewmats = (arguments[name] for name in LEAVES)
    coefficients = coefficients[None]  # the same for all images
    width, height = arguments["width"], arguments["height"]
    shared = (
        means, quats, scales, None, opacities, coefficients, viewmats, arguments["Ks"], width, height,
        EPS2D, NEAR, FAR, 0.0, False, PINHOLE, DEGREE,
    )  # fmt: skip
    radii, means2d, depths, conics, compensations, colors, _ = operators.project(*shared, None)
    per_image = opacities.expand(1, -1).contiguous()
    _, ids, offsets = operators.intersect(
        means2d, radii, depths, conics, per_image, None, 1, TILE, -(-width // TILE), -(-height // TILE)
    )
    lists = (means2d, conics, colors, per_image, None, None, width, height, TILE, offsets, ids, MAX_ALPHA)
    picture, alphas, last = operators.rasterize(*lists)
    v_means2d, _, v_conics, v_colors, v_opacities, _ = operators.rasterize_backward(
        *lists, alphas, last, *weights, False
    )
    v_means, v_quats, v_scales, _, v_coefficients, v_viewmats = operators.project_backward(
        *shared, radii, conics, compensations, colors, v_means2d, None, v_conics, None, v_colors
    )
    values = {"picture": picture, "alphas": alphas, "means2d": means2d, "depths": depths, "conics": conics}
    gradients = (v_means, v_quats, v_scales, v_opacities[0], v_coefficients[0], v_viewmats)
    return Drawn(values, dict(zip(LEAVES, gradients, strict=True)), radii, ids, offsets)


def print_lists(theirs: Drawn, ours: dict[str, Drawn]) -> None:
    """Who is seen, and where."""
    print()
    every, rows = theirs.pairs(), []
    for name, drawn in ours.items():
        pairs = drawn.pairs()
        numbers = (
            int(drawn.seen.sum()), int((drawn.radii != theirs.radii).any(-1).sum()), len(pairs),
            f"{len(pairs) / len(every):.3f}", len(pairs - every),
        )  # fmt: skip
        rows.append([name, *map(str, numbers)])
    rows.append(["gsplat's PTX", str(int(theirs.seen.sum())), "", str(len(every)), "", ""])
    table(["", "Gaussians seen", "with other radii", "pairs", "of gsplat's", "not in gsplat's lists"], rows)


def print_values(theirs: Drawn, ours: dict[str, Drawn]) -> None:
    """Differences, of what both see and of the picture."""
    print()
    rows = []
    for kind, expected in (("", theirs.values), ("gradient of ", theirs.gradients)):
        for name, value in expected.items():
            cells = []
            for drawn in ours.values():
                found = (drawn.gradients if kind else drawn.values)[name]
                cells += differences(*comparable(name, found, value, theirs.seen & drawn.seen))
            rows.append([f"{kind}{name}", f"{value[torch.isfinite(value)].abs().max():.3g}", *cells])
    header = [f"{name}: {what}" for name in ours for what in ("off by at most", "norm of that / norm")]
    table(["", "gsplat's largest", *header], rows)
    for name, drawn in ours.items():
        off = (drawn.values["picture"] - theirs.values["picture"]).abs().amax(-1)
        print(f"pixels of {name} that are off by more than {CLOSE}: {int((off > CLOSE).sum())} of {off.numel()}")


def comparable(name: str, found: Tensor, expected: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """What both packages define: of projected Gaussians those seen, of poses all but the last row."""
    if name in ("means2d", "depths", "conics"):
        return found[seen], expected[seen]
    return (found[:, :3], expected[:, :3]) if name == "viewmats" else (found, expected)


def differences(found: Tensor, expected: Tensor) -> list[str]:
    """The largest, and that of the whole."""
    off = found.double() - expected.double()
    return [f"{off.abs().max():.1e}", f"{off.norm() / expected.double().norm():.1e}"]


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else 16,
        Path(sys.argv[3]) if len(sys.argv) > 3 else installed_libraries(),
    )
