"""The CPU rasterizer beside OpenSplat's, which is compiled from a checkout of it where it lies.

A call of ours is `rasterization`, one of theirs what OpenSplat's `Model::forward` calls: projection by torch's
operators, sort and picture in rasterizer/gsplat-cpu. Both begin with the Gaussians' means, quaternions, scales,
opacities and colours (no spherical harmonics) and end with the picture, or with the gradients of all five.

Two things are evened out. The principal point is in the middle of the picture, as OpenSplat ignores it. Its depths are
made contiguous: it reads them as if they were, which with torch 2.11 to 2.13 they are not, and sorts by other numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kernelwheel
import torch
from measure import table
from torch import Tensor

import splat

SIZES, RUNS = ((1920, 1080), (480, 270)), 5
LEAVES = ("means", "quats", "scales", "opacities", "colors")
FLAGS = ("-O3", "-DNDEBUG")  # what OpenSplat's CMake makes of its default, Release
NEAR, FAR = 0.001, 1000.0  # OpenSplat's, for its depths
BINDING = """
#include "gsplat_cpu.cpp"
using torch::Tensor;
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("project", &project_gaussians_forward_tensor_cpu);
  m.def("rasterize", [](int width, int height, const Tensor &xys, const Tensor &conics, const Tensor &colors,
      const Tensor &opacities, const Tensor &background, const Tensor &cov2d, const Tensor &depths) {
    auto [image, left, lists] = rasterize_forward_tensor_cpu(
        width, height, xys, conics, colors, opacities, background, cov2d, depths);
    return py::make_tuple(image, left, py::capsule(lists, [](void *p) {
      delete[] static_cast<std::vector<int32_t> *>(p);
    }));
  });
  m.def("differentiate", [](int width, int height, const Tensor &xys, const Tensor &conics, const Tensor &colors,
      const Tensor &opacities, const Tensor &background, const Tensor &cov2d, const Tensor &depths,
      const Tensor &left, py::capsule lists, const Tensor &image_gradient, const Tensor &alpha_gradient) {
    return rasterize_backward_tensor_cpu(height, width, xys, conics, colors, opacities, background, cov2d, depths,
        left, lists.get_pointer<std::vector<int32_t>>(), image_gradient, alpha_gradient);
  });
}
"""
Leaves = Mapping[str, Any]  # tensors; `rasterization` has other parameters too
Draw = Callable[[Leaves], Tensor]


class Rasterize(torch.autograd.Function):
    """Their rasterizer, with its own gradients."""

    @staticmethod
    def forward(ctx: Any, module: Any, size: tuple[int, int], *tensors: Tensor) -> Tensor:
        """The picture."""
        image, left, ctx.lists = module.rasterize(*size, *tensors)
        ctx.module, ctx.size = module, size
        ctx.save_for_backward(*tensors, left)
        return image  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Of centres, conics, colours and opacities."""
        left = ctx.saved_tensors[-1]
        found = ctx.module.differentiate(*ctx.size, *ctx.saved_tensors, ctx.lists, gradient, torch.zeros_like(left))
        return None, None, *found, None, None, None


def compare(checkout: Path, scene: Mapping[str, Any]) -> None:
    """Print what the first camera's picture takes in several sizes, on one thread."""
    folder = [str(checkout / "rasterizer" / "gsplat-cpu")]
    module = kernelwheel.load_inline("opensplat_cpu", BINDING, extra_cflags=FLAGS, extra_include_paths=folder)
    torch.set_num_threads(1)
    leaves = {name: scene[name] for name in LEAVES}
    rows = []
    for size in SIZES:
        viewmats, Ks = scene["viewmats"][:1], scene["Ks"][:1].clone()
        Ks[:, :2] *= torch.tensor([[size[0] / scene["width"]], [size[1] / scene["height"]]])
        Ks[:, :2, 2] = torch.tensor(size) / 2
        draws = ours(viewmats, Ks, size), theirs(module, viewmats[0], Ks[0], size)
        rows.append([f"{size[0]}x{size[1]}", *difference(*(draw(leaves) for draw in draws)), *seconds(draws, leaves)])
    print(f"splat and OpenSplat, compiled with {' '.join(FLAGS)}: CPU-seconds on one thread, the least of {RUNS} runs")
    times = [f"{what}: {whose}" for what in ("forward", "both") for whose in ("OpenSplat", "splat", "ratio")]
    table(["image", "PSNR between both", "largest difference", *times], rows)


def ours(viewmats: Tensor, Ks: Tensor, size: tuple[int, int]) -> Draw:
    """A call of splat."""

    def draw(leaves: Leaves) -> Tensor:
        return splat.rasterization(**leaves, viewmats=viewmats, Ks=Ks, width=size[0], height=size[1])[0][0]

    return draw


def theirs(module: Any, viewmat: Tensor, K: Tensor, size: tuple[int, int]) -> Draw:
    """A call of OpenSplat for the same camera."""
    width, height = size
    fx, fy, cx, cy = (float(value) for value in (K[0, 0], K[1, 1], K[0, 2], K[1, 2]))
    depth = (FAR + NEAR) / (FAR - NEAR), -FAR * NEAR / (FAR - NEAR)
    rows = [2 * fx / width, 0, 0, 0], [0, 2 * fy / height, 0, 0], [0, 0, *depth], [0, 0, 1, 0]
    projection = torch.tensor(rows) @ viewmat

    def draw(leaves: Leaves) -> Tensor:
        quats = leaves["quats"] / leaves["quats"].norm(dim=-1, keepdim=True)
        gaussians = leaves["means"], leaves["scales"], 1.0, quats
        camera = viewmat, projection, fx, fy, cx, cy, height, width, 0.01
        xys, _, conics, cov2d, depths = module.project(len(quats), *gaussians, *camera)
        drawn = leaves["colors"], leaves["opacities"][:, None], torch.zeros(3), cov2d, depths.contiguous()
        return Rasterize.apply(module, size, xys, conics, *drawn)  # type: ignore[no-any-return]

    return draw


def difference(image: Tensor, other: Tensor) -> list[str]:
    """How far apart both pictures are."""
    error = image - other
    return [f"{-10 * error.square().mean().log10():.1f} dB", f"{error.abs().max():.3f}"]


def seconds(draws: tuple[Draw, Draw], leaves: Leaves) -> list[str]:
    """Of pictures without gradients, and of pictures with the gradients: theirs, ours and the ratio."""
    variables = {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}

    def both(draw: Draw) -> None:
        image = draw(variables)
        torch.autograd.grad(image, list(variables.values()), torch.ones_like(image))

    cells = []
    for call in (torch.no_grad()(lambda draw: draw(leaves)), both):
        runs = [[cpu(call, draw) for draw in draws] for _ in range(RUNS)]  # in turn
        our, their = map(min, zip(*runs, strict=True))
        cells += [f"{their:.3f}", f"{our:.3f}", f"{their / our:.1f}"]
    return cells


def cpu(call: Callable[[Draw], object], draw: Draw) -> float:
    """Seconds of one call, to the end of which what it made is kept."""
    start = time.process_time()
    made = call(draw)
    end = time.process_time()
    del made
    return end - start
