"""Gaussians along rays, against a float64 reference, on the CPU and as PTX."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from blending_checks import assert_close, assert_same_everywhere, gradients, random_v
from parts import require_all_parts
from ray_reference import LEAVES, Arguments, blend_along_rays, ray_arguments, ray_operands
from torch import Tensor, library

from splat.ops.pixels_rays import rasterize_along_rays

require_all_parts()

CASES: dict[str, Arguments] = {
    "plain": {},
    "lens": {"rays": "lens", "tile_size": 8},
    "rolling shutter": {"rays": "rolling"},
    "masked": {"has_masks": True, "tile_size": 8, "has_background": False},
    "tiny": {"kind": "tiny"},
    "huge": {"kind": "huge", "count": 20},
    "near": {"kind": "near", "count": 20},
    "near, rolling shutter": {"kind": "near", "count": 20, "rays": "rolling"},
    "needles": {"kind": "needle"},
    "opaque": {"kind": "opaque", "count": 150},
    "clamped": {"kind": "clamped", "count": 10, "channels": 1},
    "odd tiles": {"tile_size": 5, "width": 13, "height": 8},
    "large tiles": {"tile_size": 32, "channels": 2},
    "channels in chunks": {"channels": 19, "count": 20, "width": 17, "height": 16},
    "alphas that end early": {"kind": "opaque", "max_alpha": 0.7},
    "distances": {"channels": 4, "distance_channel": 3},
    "distances to what is around": {"kind": "near", "count": 20, "rays": "rolling", "distance_channel": 0},
    "normals": {"channels": 6, "normal_channel": 3, "rays": "lens"},
    "distances and normals": {"channels": 19, "count": 30, "distance_channel": 6, "normal_channel": 14},
    "one": {"count": 1, "width": 1, "height": 1},
}
# At hundreds of standard deviations, what rounding makes of a direction is more.
FAR = ("tiny",)
# Where almost no light passes: the walk backwards begins with 1 - alpha, of which few digits are left.
DARK = ("huge", "near", "near, rolling shutter", "distances to what is around")


@pytest.mark.parametrize("case", CASES)
def test_images_and_gradients_along_rays_are_those_of_the_reference(case: str) -> None:
    arguments = ray_arguments(**CASES[case])
    exact = {
        name: each.double() if isinstance(each, Tensor) and each.is_floating_point() else each
        for name, each in arguments.items()
    }
    images, (*expected, doubtful) = rasterize_along_rays(**arguments), blend_along_rays(exact)
    compared = ~doubtful[..., None]
    assert compared.double().mean() > 0.98
    assert case == "one" or images[1].max() > 0.7
    for name, found, wanted in zip(("colors", "alphas"), images, expected, strict=True):
        assert_close(found * compared, wanted * compared, name, 3e-5 if case in FAR else 1e-5)
    v = random_v(images, doubtful)
    found = gradients(lambda given: rasterize_along_rays(**given), arguments, LEAVES, v)
    wanted = gradients(lambda given: blend_along_rays(given)[:2], exact, LEAVES, v)
    for name, gradient in wanted.items():
        assert_close(found[name], gradient, name, 3e-4 if case in DARK else 1e-4)


def test_only_the_line_of_a_ray_matters() -> None:
    """Its origin moved along it, which takes the form for rays without a common origin, and its length."""
    arguments = ray_arguments(3)
    origins, directions = arguments["rays"].split(3, -1)
    by, length = (0.5 + torch.rand(2, 29, 41, 1, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    moved = {**arguments, "rays": torch.cat([origins + by * directions, length * directions], -1)}
    runs, v = [], random_v(rasterize_along_rays(**arguments), torch.zeros(2, 29, 41, dtype=torch.bool))
    for given in (arguments, moved):
        found = gradients(lambda given: rasterize_along_rays(**given), given, LEAVES, v)
        runs.append([*rasterize_along_rays(**given), *found.values()])
    for one, other in zip(*runs, strict=True):
        assert_close(one, other, "the same", 1e-4)


def test_without_a_ray_there_is_the_background_and_no_gradient() -> None:
    arguments = ray_arguments(count=30)
    arguments["rays"][..., :20, :] = 0
    means = arguments["means"].requires_grad_()
    colors, alphas = rasterize_along_rays(**arguments)
    expected = arguments["backgrounds"][:, None, None].expand(2, 29, 20, 3)
    assert torch.equal(colors[..., :20, :], expected)
    assert torch.equal(alphas[..., :20, :], torch.zeros(2, 29, 20, 1))
    assert alphas[..., 20:, :].max() > 0.5
    (gradient,) = torch.autograd.grad(colors[..., :20, :].sum(), means)
    assert torch.equal(gradient, torch.zeros_like(means))


def test_sets_of_gaussians_are_drawn_as_each_alone() -> None:
    alone = [ray_arguments(seed) for seed in (0, 1)]
    whole = {
        name: torch.stack([each[name] for each in alone])
        for name in ("means", "frames", "colors", "opacities", "rays", "isect_offsets", "backgrounds")
    }
    whole["isect_offsets"][1] += len(alone[0]["flatten_ids"])
    ids = torch.cat([alone[0]["flatten_ids"], alone[1]["flatten_ids"] + 2 * 60])
    batch = {**alone[0], **whole, "flatten_ids": ids}
    images = rasterize_along_rays(**batch)
    assert [image.shape for image in images] == [(2, 2, 29, 41, 3), (2, 2, 29, 41, 1)]
    v = random_v(images, torch.zeros(2, 2, 29, 41, dtype=torch.bool))
    found = gradients(lambda given: rasterize_along_rays(**given), batch, LEAVES, v)
    for i, each in enumerate(alone):
        assert all(map(torch.equal, rasterize_along_rays(**each), (image[i] for image in images)))
        expected = gradients(lambda given: rasterize_along_rays(**given), each, LEAVES, [image[i] for image in v])
        assert all(torch.equal(found[name][i], expected[name]) for name in LEAVES)


@pytest.mark.parametrize(("sets", "cameras", "count"), [(0, 2, 5), (2, 0, 5), (2, 2, 0)])
def test_nothing_may_be_drawn(sets: int, cameras: int, count: int) -> None:
    means, frames = torch.rand(sets, count, 3), torch.rand(sets, count, 3, 3)
    colors, opacities = torch.rand(sets, cameras, count, 3), torch.rand(sets, cameras, count)
    leaves = [each.requires_grad_() for each in (means, frames, colors, opacities)]
    lists = torch.zeros(sets, cameras, 1, 1, dtype=torch.int32), torch.zeros(0, dtype=torch.int32)
    background = torch.rand(3)
    images = rasterize_along_rays(*leaves, torch.rand(sets, cameras, 4, 5, 6), 16, *lists, background)
    assert torch.equal(images[0], background.expand(sets, cameras, 4, 5, 3))
    found = torch.autograd.grad(images, leaves, [torch.ones_like(image) for image in images])
    assert all(map(torch.equal, found, (torch.zeros_like(leaf) for leaf in leaves)))


@pytest.mark.parametrize("rays", ["pinhole", "rolling"])
def test_every_instruction_set_and_number_of_threads_gives_the_same_bits(rays: str) -> None:
    arguments = ray_arguments(5, count=200, rays=rays)
    v = random_v(rasterize_along_rays(**arguments), torch.zeros(2, 29, 41, dtype=torch.bool))

    def draw() -> list[Tensor]:
        found = gradients(lambda given: rasterize_along_rays(**given), arguments, LEAVES, v)
        return [*rasterize_along_rays(**arguments), *found.values()]

    # Its exponents are fused, which SSE2 cannot.
    assert_same_everywhere(draw, images=2, decided=1e-3)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", ["means", "frames", "opacities"])
def test_a_gaussian_that_is_not_finite_is_left_out(name: str, value: float) -> None:
    arguments = ray_arguments(2)
    without = {**arguments, "opacities": arguments["opacities"].clone()}
    without["opacities"][:, 0] = 0
    if name == "opacities":
        value = torch.nan  # an infinite one is opaque
    arguments[name].view(-1, 60, *arguments[name].shape[1 + (name == "opacities") :])[:, 0] = value
    leaf = arguments[name].requires_grad_()
    images = rasterize_along_rays(**arguments)
    assert all(map(torch.equal, images, rasterize_along_rays(**without)))
    (gradient,) = torch.autograd.grad(images[0].sum(), leaf)
    assert gradient.isfinite().all()
    assert gradient.reshape(-1, 60, *gradient.shape[1 + (name == "opacities") :])[:, 0].abs().sum() == 0


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"means": torch.rand(60, 2)}, ValueError, "means must have shape"),
        ({"means": torch.rand(3)}, ValueError, "means must have shape"),
        ({"frames": torch.rand(60, 3)}, ValueError, "frames must have shape"),
        ({"frames": torch.rand(59, 3, 3)}, ValueError, "frames must have shape"),
        ({"colors": torch.rand(2, 59, 3)}, ValueError, "colors must have shape"),
        ({"opacities": torch.rand(60)}, ValueError, "opacities must have shape"),
        ({"opacities": torch.rand(2, 60).double()}, TypeError, "opacities must be float32"),
        ({"rays": torch.rand(2, 29, 41, 5)}, ValueError, "rays must have shape"),
        ({"rays": torch.rand(29, 41, 6)}, ValueError, "rays must have shape"),
        ({"rays": torch.rand(2, 29, 41, 6).requires_grad_()}, NotImplementedError, "no gradient by rays"),
        ({"tile_size": 33}, ValueError, "tile_size must be at most 32"),
        ({"tile_size": 8}, ValueError, "isect_offsets must have shape"),
        ({"masks": torch.ones(2, 1, 1, dtype=torch.bool)}, ValueError, "masks must have shape"),
        ({"backgrounds": torch.rand(2, 4)}, ValueError, "backgrounds must have shape"),
        ({"max_alpha": 1.0}, ValueError, "max_alpha must be from 1/255"),
        ({"max_alpha": "much"}, TypeError, "max_alpha must be a number"),
        ({"distance_channel": 3}, ValueError, "distance_channel must be 0 to 2"),
        ({"normal_channel": 1}, ValueError, "normal_channel must be 0 to 0"),
        ({"normal_channel": 0.5}, TypeError, "normal_channel must be an int"),
    ],
)
def test_wrong_arguments_are_refused(changed: Arguments, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        rasterize_along_rays(**ray_arguments() | changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"means": torch.rand(3, 60, 3)}, "must be a multiple of that of the sets"),
        ({"frames": torch.rand(1, 60, 3)}, "frames must have shape"),
        ({"rays": torch.rand(2, 29, 41, 5)}, "rays must have shape"),
        ({"colors": torch.rand(60, 3)}, "colors must have 3 dimensions"),
        ({"flatten_ids": torch.full((1,), 120, dtype=torch.int32)}, "there are 120 Gaussians"),
        ({"max_alpha": 1.0}, "max_alpha must be at least .* and below 1, found 1"),
        ({"distance_channel": 3}, "distance_channel must be one of 3 channels, and 0 must follow it; found 3"),
        ({"normal_channel": 1}, "normal_channel must be one of 3 channels, and 2 must follow it; found 1"),
    ],
)
def test_the_operator_trusts_nobody(changed: Arguments, words: str) -> None:
    given = ray_operands(ray_arguments())
    with pytest.raises(RuntimeError, match=words):
        torch.ops.splat.rasterize_along_rays(**given | changed)


def test_torch_finds_the_operators_well_made() -> None:
    given = ray_operands(ray_arguments(count=10))
    images = torch.ops.splat.rasterize_along_rays(**given)
    v = random_v(images[:2], torch.zeros(2, 29, 41, dtype=torch.bool))
    library.opcheck(torch.ops.splat.rasterize_along_rays.default, tuple(given.values()))
    library.opcheck(torch.ops.splat.rasterize_along_rays_backward.default, (*given.values(), *images[1:], *v))
    leaves = {name: given[name].clone().requires_grad_() for name in LEAVES}
    library.opcheck(torch.ops.splat.rasterize_along_rays.default, tuple((given | leaves).values()))


@pytest.mark.slow
def test_a_call_is_captured_in_one_graph() -> None:
    arguments = ray_arguments(count=10)
    v = random_v(rasterize_along_rays(**arguments), torch.zeros(2, 29, 41, dtype=torch.bool))
    compiled = torch.compile(rasterize_along_rays, backend="aot_eager", fullgraph=True)
    runs = [
        gradients(lambda given, draw=draw: draw(**given), arguments, LEAVES, v)
        for draw in (rasterize_along_rays, compiled)
    ]
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in LEAVES)


# Those that the kernels tell apart: what is as they are in numbers alone is compared on the CPU.
EXECUTED = (
    "lens", "masked", "clamped", "odd tiles", "large tiles", "alphas that end early", "distances to what is around",
    "distances and normals", "one", "left out",
)  # fmt: skip


@pytest.mark.parametrize("case", EXECUTED)
def test_executed_kernels_give_what_the_cpu_gives(simt_ptx: ModuleType, case: str) -> None:
    arguments = ray_arguments(**CASES.get(case, {}))
    if case == "left out":
        for row, name in enumerate(("means", "frames", "frames")):
            arguments[name][row] = (torch.nan, torch.nan, torch.inf)[row]
        arguments["opacities"][:, 3] = torch.nan
    given: Any = ray_operands(arguments)
    executed, ours = getattr(torch.ops, simt_ptx.__name__), torch.ops.splat
    images, expected = executed.rasterize_along_rays(**given), ours.rasterize_along_rays(**given)
    # Where a pixel has drawn nothing, its last Gaussian is the first of the lists on the CPU, and none on CUDA.
    same = (images[2] == expected[2]) | (expected[1][..., 0] == 0)
    assert same.double().mean() > 0.99
    for one, other in zip(images[:2], expected[:2], strict=True):
        assert_close(one * same[..., None], other * same[..., None], "image", 1e-5)
    v = random_v(expected[:2], ~same)
    runs = [
        each.rasterize_along_rays_backward(
            **given, alphas=expected[1], last_ids=expected[2], v_colors=v[0], v_alphas=v[1]
        )
        for each in (executed, ours)
    ]
    for one, other in zip(*runs, strict=True):
        assert_close(one, other, "gradient")
