"""What only a GPU can show: the CUDA operators, held against the CPU's; streams, graphs and determinism.

Skipped without one; ci/gpu runs this file, and the others whose fixture `device` then includes CUDA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blending_checks
import pytest
import scenes
import torch
from operator_arguments import (
    CASES,
    PARAMETERS,
    Arguments,
    gaussians,
    image_loss_and_gradient,
    image_loss_arguments,
    intersect_arguments,
    pack_arguments,
    random_v,
)
from parts import require_all_parts
from rasterize_reference import assert_near, by_reference
from ray_reference import LEAVES, blend_along_rays, ray_arguments
from scenes import Scene, random_scene
from torch import Tensor

import splat
from splat.ops.intersection import intersection_keys
from splat.ops.pixels_rays import rasterize_along_rays

DEVICE = "cuda"

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
OPS = torch.ops.splat


@pytest.fixture(autouse=True)
def loaded() -> None:
    for device in ("cpu", DEVICE):
        require_all_parts(device)


def on(device: str, arguments: Arguments) -> Arguments:
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in arguments.items()}


def cpu(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor.cpu() for tensor in tensors)


def backward_arguments(arguments: Arguments, v: tuple[Tensor, Tensor], absgrad: bool = True) -> Arguments:
    """Arguments of rasterize_backward, on the device of those of rasterize."""
    device = str(arguments["means2d"].device)
    _, alphas, last_ids = OPS.rasterize(**arguments)
    outputs = {"alphas": alphas, "last_ids": last_ids, "v_colors": v[0].to(device), "v_alphas": v[1].to(device)}
    return arguments | outputs | {"absgrad": absgrad}


# The operators


def pairs(lists: tuple[Tensor, ...]) -> set[tuple[int, int]]:
    """Tile (with its image) and Gaussian of each entry."""
    counts, flatten_ids, offsets = lists
    keys = intersection_keys(torch.zeros(counts.shape), flatten_ids, offsets)
    return set(zip((keys >> 32).tolist(), flatten_ids.tolist(), strict=True))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("size", "tile_size"), [("mixed", 16), ("huge", 3), ("tiny", 32), ("small", 1)])
def test_lists_are_those_of_the_cpu(size: str, tile_size: int, packed: bool) -> None:
    arguments = intersect_arguments(1, size, tile_size, packed, gaussians=2000)
    found = cpu(OPS.intersect(**on(DEVICE, arguments)))
    expected = OPS.intersect(**arguments)
    # The two logarithms differ by roundings, and may decide otherwise on a tile that the ellipse grazes.
    differing = pairs(found) ^ pairs(expected)
    assert len(differing) <= 1e-3 * len(expected[1])
    counts, flatten_ids, offsets = found
    keys = intersection_keys(arguments["depths"], flatten_ids, offsets)
    assert int(counts.sum()) == len(flatten_ids)
    assert (keys[1:] >= keys[:-1]).all()
    same = keys[1:] == keys[:-1]
    assert (flatten_ids[1:] > flatten_ids[:-1])[same].all()
    assert torch.equal(counts.flatten(), torch.bincount(flatten_ids, minlength=counts.numel()).int())
    bits = (arguments["tile_width"] * arguments["tile_height"]).bit_length()
    image, row, column = torch.ones_like(offsets).nonzero().T
    first = ((image << bits) | (row * arguments["tile_width"] + column)) << 32
    assert torch.equal(offsets.flatten().long(), torch.searchsorted(keys, first))


@pytest.mark.parametrize("sets", [1, 2])
def test_packed_rows_and_their_gradients_are_those_of_the_cpu(sets: int) -> None:
    arguments = pack_arguments(sets, 3, gaussians=20000)
    found, expected = cpu(OPS.pack(**on(DEVICE, arguments))), OPS.pack(**arguments)
    for one, other in zip(found[:9], expected[:9], strict=True):
        assert torch.equal(one, other)
    assert len(pairs(found[9:]) ^ pairs(expected[9:])) <= 1e-3 * len(expected[10])
    backward = (arguments["radii"], expected[8], sets, *expected[3:8])
    gradients = cpu(OPS.pack_backward(*(one.to(DEVICE) if isinstance(one, Tensor) else one for one in backward)))
    for one, other in zip(gradients, OPS.pack_backward(*backward), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", CASES)
def test_images_and_gradients_are_those_of_the_reference(name: str) -> None:
    arguments = gaussians(3, **CASES[name])
    case = by_reference(arguments)
    moved = on(DEVICE, arguments)
    colors, alphas, _ = cpu(OPS.rasterize(**moved))
    for found, expected in ((colors, case.colors), (alphas, case.alphas)):
        assert ((found - expected).abs()[case.compared] <= 1e-4).all()
    for deterministic in (False, True):
        backward = backward_arguments(moved, (case.v_colors, case.v_alphas)) | {"deterministic": deterministic}
        means2d, means2d_abs, *others = cpu(OPS.rasterize_backward(**backward))
        for parameter, found in zip(PARAMETERS, (means2d, *others), strict=True):
            if arguments[parameter] is not None:
                expected, absolute = getattr(case.gradients, parameter), getattr(case.absolute, parameter)
                assert_near(found, expected, absolute, parameter)
        assert_near(means2d_abs, case.absolute.means2d, case.absolute.means2d, "absgrad")


@pytest.mark.parametrize("shown", [{}, {"channels": 7, "distance_channel": 3, "normal_channel": 4}])
@pytest.mark.parametrize("rays", ["pinhole", "lens", "rolling"])
def test_images_along_rays_and_their_gradients_are_those_of_the_reference(rays: str, shown: dict[str, int]) -> None:
    given = ray_arguments(1, rays=rays, **shown)
    *expected, doubtful = blend_along_rays(given)
    v = blending_checks.random_v(expected, doubtful)
    moved = on(DEVICE, given)
    for found, wanted in zip(cpu(rasterize_along_rays(**moved)), expected, strict=True):
        assert ((found - wanted).abs() * ~doubtful[..., None] <= 1e-4).all()
    drawn = blending_checks.gradients(
        lambda given: rasterize_along_rays(**given), moved, LEAVES, [each.to(DEVICE) for each in v]
    )
    wanted = blending_checks.gradients(lambda given: blend_along_rays(given)[:2], given, LEAVES, v)
    for name, gradient in wanted.items():
        blending_checks.assert_close(drawn[name].cpu(), gradient, name, 1e-3)


def test_indices_out_of_range_are_survived() -> None:
    arguments = on(DEVICE, gaussians(2))
    arguments["flatten_ids"][::3] = torch.tensor(2**31 - 1, dtype=torch.int32)
    arguments["flatten_ids"][1::3] = -1
    colors, _, _ = OPS.rasterize(**arguments)
    assert colors.isfinite().all()
    gradients = OPS.rasterize_backward(**backward_arguments(arguments, random_v(arguments)))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_nan_among_ratios_ends_no_program() -> None:
    """As an index it was an assertion in a kernel, after which nothing works on the GPU."""
    ones = torch.ones(3, device=DEVICE)
    ratios = torch.tensor([1.0, torch.nan, 2.0], device=DEVICE)
    with pytest.raises(ValueError, match="ratios must be numbers, found 1 NaN of 3"):
        splat.compute_relocation(0.5 * ones, torch.ones(3, 3, device=DEVICE), ratios, torch.ones(4, 4, device=DEVICE))
    assert ones.sum().item() == 3


def test_many_sets_of_nothing_are_no_work() -> None:
    value, index = torch.zeros((), device=DEVICE), torch.zeros((), dtype=torch.int32, device=DEVICE)
    rows = value.expand(0, 2), value.expand(0), value.expand(0, 3), value.expand(0)
    with pytest.raises(RuntimeError, match=r"sets of .* Gaussians are more than"):
        OPS.pack_backward(index.expand(0, 1, 2), index.expand(0, 1), 2**33, *rows, None)
    assert OPS.pack_backward(index.expand(0, 1, 2), index.expand(0, 1), 2**31 - 1, *rows, None)[0].numel() == 0


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(1, 5, 3, 1), (2, 300, 411, 3)])
def test_the_loss_of_images_has_the_bits_of_the_cpu(shape: tuple[int, ...], masked: bool) -> None:
    """As its PTX has them that is executed: all that it rounds is rounded as IEEE 754 says."""
    arguments = image_loss_arguments(shape, masked)
    found = cpu(image_loss_and_gradient(OPS, on(DEVICE, arguments)))
    for one, other in zip(found, image_loss_and_gradient(OPS, arguments), strict=True):
        assert torch.equal(one, other)


# Streams and graphs


def test_work_is_put_on_the_current_stream() -> None:
    arguments = on(DEVICE, gaussians(4, images=2, count=60))
    expected = OPS.rasterize(**arguments)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # Whoever does not wait for this sees the colours as they were.
        torch.cuda._sleep(50_000_000)
        moved = arguments | {"colors": arguments["colors"] * 2}
        found = OPS.rasterize(**moved)
    stream.synchronize()
    background = expected[0] - OPS.rasterize(**arguments | {"backgrounds": None})[0]
    torch.testing.assert_close(found[0] - background, 2 * (expected[0] - background), rtol=1e-5, atol=1e-5)


def test_rendering_and_its_gradients_can_be_captured_in_a_graph() -> None:
    """So nothing in either waits for the GPU."""
    arguments = on(DEVICE, gaussians(5, count=80, width=70, height=50))
    v = tuple(part.to(DEVICE) for part in random_v(arguments))

    def run() -> tuple[Tensor, ...]:
        images = OPS.rasterize(**arguments)
        return images + OPS.rasterize_backward(**backward_arguments(arguments, (v[0], v[1])))

    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for seed in (6, 7):
        other = on(DEVICE, gaussians(seed, count=80, width=70, height=50))
        for name in ("colors", "opacities", "backgrounds"):
            arguments[name].copy_(other[name])
        graph.replay()
        for found, expected in zip(captured, run(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_training_step_can_be_captured_in_a_graph() -> None:
    """With a capacity, also the lists, whose length is the size of a tensor otherwise."""
    scene = random_scene(5, gaussians=500, width=70, height=50, size="mixed")
    arguments = {name: v.to(DEVICE) if isinstance(v, Tensor) else v for name, v in scene.arguments.items()}
    arguments["means"].requires_grad_()

    def step(capacity: int | None) -> tuple[Tensor, ...]:
        images, alphas, meta = splat.rasterization(**arguments, packed=False, capacity=capacity)
        (gradient,) = torch.autograd.grad(images.square().mean() + alphas.mean(), arguments["means"])
        return images.detach(), gradient, meta["n_pairs"]

    most = 2 * int(step(None)[2])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(most)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(most)
    for seed in (6, 7):
        with torch.no_grad():
            arguments["means"].copy_(random_scene(seed, gaussians=500, width=70, height=50, size="mixed").means)
        graph.replay()
        expected = step(None)
        assert captured[2] == expected[2] <= most
        for one, other in zip(captured[:2], expected[:2], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


# The whole of it


def whole(device: str, scene: Scene, **options: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """The images, and the gradients of all parameters."""
    leaves = {
        name: getattr(scene, name).to(device).requires_grad_()
        for name in ("means", "quats", "scales", "opacities", "colors", "viewmats")
    }
    rest = {"Ks": scene.Ks.to(device), "width": scene.width, "height": scene.height}
    colors, alphas, _ = splat.rasterization(**leaves, **rest, **options)
    generator = torch.Generator().manual_seed(0)
    v_colors, v_alphas = (torch.randn(part.shape, generator=generator).to(device) for part in (colors, alphas))
    found = torch.autograd.grad((colors, alphas), list(leaves.values()), (v_colors, v_alphas))
    return colors.detach().cpu(), dict(zip(leaves, cpu(found), strict=True))


SCENES: dict[str, Callable[[], Scene]] = {
    "small": lambda: random_scene(1, gaussians=3000, width=131, height=77, size="small", views=("front", "close")),
    "mixed": lambda: random_scene(2, gaussians=800, width=131, height=77, size="mixed", views=("front", "inside")),
    "garden": lambda: scenes.garden(4),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", SCENES)
def test_scenes_are_rendered_and_differentiated_as_on_the_cpu(name: str, packed: bool) -> None:
    scene = SCENES[name]()
    colors, gradients = whole(DEVICE, scene, packed=packed)
    expected_colors, expected_gradients = whole("cpu", scene, packed=packed)
    # Where a decision (which Gaussian ends a ray) falls otherwise, a pixel jumps.
    assert ((colors - expected_colors).abs() <= 1e-4).double().mean() > 0.999
    for parameter, expected in expected_gradients.items():
        off = (gradients[parameter] - expected).norm() / expected.norm()
        assert off <= 1e-2, f"{parameter}: off by {off:.2g} of its norm"


@pytest.mark.usefixtures("deterministic")
def test_gradients_are_the_same_every_time_when_deterministic() -> None:
    scene = random_scene(3, gaussians=20000, width=300, height=200, size="small", views=("front", "close"))
    first = whole(DEVICE, scene)
    for _ in range(3):
        again = whole(DEVICE, scene)
        assert torch.equal(again[0], first[0])
        for name, gradient in again[1].items():
            assert torch.equal(gradient, first[1][name]), name


def test_a_million_gaussians() -> None:
    scene = random_scene(4, gaussians=1_000_000, width=1920, height=1080, size="tiny")
    colors, gradients = whole(DEVICE, scene)
    assert colors.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert (colors > 0).double().mean() > 0.05
