"""The CUDA library's kernels, executed on the CPU, against the CPU's operators and the float64 reference.

What is executed is PTX, as nvcc made it: the wheel's, and that for older architectures. What executes it (tests/simt)
makes an error of each access outside of memory, race and divergence. Those of single Gaussians are in
test_gradients_projection.py.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from disc_reference import disc_arguments, operands
from operator_arguments import (
    CASES,
    GEOMETRY,
    OPS,
    PARAMETERS,
    Arguments,
    gaussians,
    intersect_arguments,
    pack_arguments,
    random_v,
    spoiled_arguments,
)
from parts import require_all_parts
from rasterize_reference import assert_near, by_reference
from ray_reference import ray_arguments, ray_operands
from scenes import random_scene
from torch import Tensor

require_all_parts()

M_PERTURB = -6  # malloc.h


class Executed:
    """The operators of the CUDA library; the fixture simt says what is executed."""

    name = ""

    def __getattr__(self, operator: str) -> Any:
        return getattr(getattr(torch.ops, self.name), operator)


SIMT = Executed()


@pytest.fixture
def simt(simt_ptx: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that executes the kernels. New memory is full of garbage, so what counts on 0 has to set it."""
    monkeypatch.setattr(Executed, "name", simt_ptx.__name__)
    libc = ctypes.CDLL(None)
    assert libc.mallopt(M_PERTURB, 0x44) == 1
    yield simt_ptx
    libc.mallopt(M_PERTURB, 0)


@pytest.fixture(params=[0, 7], ids=["in-order", "shuffled"])
def any_order(simt: ModuleType, request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The kernels, with blocks and threads taking turns in two orders."""
    simt.set_seed(request.param)
    yield simt
    simt.set_seed(0)


def assert_same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


# Lists


@pytest.mark.parametrize(
    ("size", "tile_size", "packed"),
    [("mixed", 16, False), ("mixed", 16, True), ("huge", 3, False), ("tiny", 32, True), ("small", 1, False)],
)
def test_lists_are_those_of_the_cpu(any_order: ModuleType, size: str, tile_size: int, packed: bool) -> None:
    count = 60 if tile_size < 8 else 300
    arguments = intersect_arguments(1, size, tile_size, packed, count)
    found = SIMT.intersect(**arguments)
    if size == "huge":
        assert (found[0] >= 128).any()  # written by a whole warp
    assert len(found[1]) > 0
    assert_same(found, OPS.intersect(**arguments))


@pytest.mark.parametrize("more", [0, 1, 500])
def test_lists_with_a_capacity_end_with_nobody_and_nothing_is_waited_for(any_order: ModuleType, more: int) -> None:
    arguments = intersect_arguments(1)
    tiles_per_gauss, flatten_ids, offsets = OPS.intersect(**arguments)
    before = any_order.calls()
    found = SIMT.intersect(**arguments, capacity=len(flatten_ids) + more)
    assert_same(found, (tiles_per_gauss, torch.nn.functional.pad(flatten_ids, (0, more), value=-1), offsets))
    after = any_order.calls()
    assert {name for name in after if after[name] != before.get(name)} == {"cudaLaunchKernelEx", "cudaMemsetAsync"}


@pytest.mark.usefixtures("simt")
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_lists_without_room_for_all_have_the_nearest_gaussians(share: float) -> None:
    arguments = intersect_arguments(2)
    counts, flatten_ids, _ = OPS.intersect(**arguments)
    capacity = max(int(share * len(flatten_ids)), 1)
    order = arguments["depths"].flatten().where(counts.flatten() > 0, torch.inf).argsort(stable=True)
    fits = torch.zeros(counts.numel(), dtype=torch.bool)
    fits[order] = counts.flatten()[order].cumsum(0) <= capacity
    nearest = arguments | {"opacities": arguments["opacities"] * fits.view(counts.shape)}
    _, expected, offsets = OPS.intersect(**nearest)
    found = SIMT.intersect(**arguments, capacity=capacity)
    padding = (0, capacity - len(expected))
    assert_same(found, (counts, torch.nn.functional.pad(expected, padding, value=-1), offsets))


@pytest.mark.usefixtures("simt")
def test_lists_of_more_pairs_than_32_bits_count_begin_no_second_time() -> None:
    across, many, few = 2**18, 2**14, 10
    n = many + few
    assert many * across == 2**32, "which a sum of 32 bits takes for 0"
    radii = torch.tensor([[3 * across, 10]], dtype=torch.int32).repeat(n, 1)
    radii[many:] = 1
    arguments = {
        "means2d": torch.tensor([across / 2, 0.5]).repeat(1, n, 1),
        "radii": radii[None],
        "depths": torch.arange(1.0, n + 1)[None],
        "conics": torch.tensor([1e-14, 0.0, 1e-2]).repeat(1, n, 1),
        "opacities": torch.ones(1, n),
        "image_ids": None,
        "images": 1,
        "tile_size": 1,
        "tile_width": across,
        "tile_height": 1,
    }
    tiles_per_gauss, flatten_ids, _ = SIMT.intersect(**arguments, capacity=across // 2)
    assert tiles_per_gauss[0, :many].eq(across).all()
    assert tiles_per_gauss[0, many:].gt(0).all()
    assert flatten_ids.eq(-1).all()


@pytest.mark.usefixtures("simt")
@pytest.mark.parametrize("listed", [True, False])
def test_images_of_lists_with_more_room_are_the_same(listed: bool) -> None:
    arguments = gaussians(5, count=40, width=20, height=33)
    if not listed:
        nobody = {"isect_offsets": torch.zeros_like(arguments["isect_offsets"])}
        arguments |= nobody | {"flatten_ids": arguments["flatten_ids"][:0]}
    longer = arguments | {"flatten_ids": torch.nn.functional.pad(arguments["flatten_ids"], (0, 70), value=-1)}
    assert_same(SIMT.rasterize(**longer), SIMT.rasterize(**arguments))
    assert_same(OPS.rasterize(**longer), OPS.rasterize(**arguments))
    v = random_v(arguments)
    for deterministic, tolerance in ((True, 0.0), (False, 1e-5)):
        found, expected = (
            SIMT.rasterize_backward(**backward_arguments(each, v, deterministic=deterministic))
            for each in (longer, arguments)
        )
        assert_close(found, expected, tolerance)


@pytest.mark.usefixtures("simt")
def test_lists_of_nothing() -> None:
    arguments = intersect_arguments(gaussians=5)
    arguments["opacities"] = torch.zeros_like(arguments["opacities"])
    assert_same(SIMT.intersect(**arguments), OPS.intersect(**arguments))


@pytest.mark.usefixtures("simt")
def test_lists_of_parameters_that_are_not_finite() -> None:
    arguments = intersect_arguments(gaussians=40)
    for i, name in enumerate(("means2d", "depths", "conics", "opacities")):
        for j, value in enumerate((torch.nan, torch.inf, -torch.inf)):
            arguments[name][0, 3 * i + j] = value
    assert_same(SIMT.intersect(**arguments), OPS.intersect(**arguments))


@pytest.mark.usefixtures("simt")
def test_an_image_that_does_not_exist_is_reported() -> None:
    arguments = intersect_arguments(packed=True)
    for image in (-1, 2):
        arguments["image_ids"][5] = image
        with pytest.raises(RuntimeError, match=r"image_ids must be in \[0, 2\)"):
            SIMT.intersect(**arguments)


# Packing


@pytest.mark.parametrize(("sets", "channels"), [(1, 3), (2, 1), (2, 7)])
def test_packed_rows_and_their_gradients_are_those_of_the_cpu(any_order: ModuleType, sets: int, channels: int) -> None:
    arguments = pack_arguments(sets, channels)
    found = SIMT.pack(**arguments)
    assert 0 < len(found[0]) < arguments["depths"].numel()
    assert_same(found, OPS.pack(**arguments))
    without = arguments | {"colors": None, "tile_size": 0, "tile_width": 0, "tile_height": 0}
    assert_same(SIMT.pack(**without), OPS.pack(**without))

    generator = torch.Generator().manual_seed(6)
    gradients: list[Tensor | None] = [torch.randn(one.shape, generator=generator) for one in found[3:8]]
    backward = (arguments["radii"], found[8], sets)
    assert_same(SIMT.pack_backward(*backward, *gradients), OPS.pack_backward(*backward, *gradients))
    gradients[1] = gradients[4] = None
    assert_same(SIMT.pack_backward(*backward, *gradients), OPS.pack_backward(*backward, *gradients))


@pytest.mark.usefixtures("simt")
def test_places_out_of_range_are_survived() -> None:
    arguments = pack_arguments(2, 3)
    found = SIMT.pack(**arguments)
    for wrong in (-1, 10**6, 2**31 - 1):
        places = torch.full_like(found[8], wrong)
        for gradient in SIMT.pack_backward(arguments["radii"], places, 2, *found[3:8]):
            assert not gradient.any()


@pytest.mark.usefixtures("simt")
def test_packed_rows_of_nothing() -> None:
    arguments = pack_arguments(2, 3)
    arguments["radii"] = torch.zeros_like(arguments["radii"])
    found = SIMT.pack(**arguments)
    assert_same(found, OPS.pack(**arguments))
    for gradient in SIMT.pack_backward(arguments["radii"], found[8], 2, *found[3:8]):
        assert gradient.numel()
        assert not gradient.any()

    names = ("means2d", "radii", "depths", "conics", "opacities", "colors")
    for part in (np.s_[:, :0], np.s_[:0]):
        empty = arguments | {name: arguments[name][part] for name in names}
        found = SIMT.pack(**empty)
        assert_same(found, OPS.pack(**empty))
        backward = (empty["radii"], found[8], len(empty["colors"]), *found[3:8])
        assert_same(SIMT.pack_backward(*backward), OPS.pack_backward(*backward))


# Rasterization


def backward_arguments(arguments: Arguments, v: tuple[Tensor, Tensor], **flags: bool) -> Arguments:
    _, alphas, last_ids = SIMT.rasterize(**arguments)
    flags = {"absgrad": True, "deterministic": False} | flags
    return arguments | {"alphas": alphas, "last_ids": last_ids, "v_colors": v[0], "v_alphas": v[1]} | flags


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("simt")
def test_images_and_gradients_are_those_of_the_reference(name: str) -> None:
    arguments = gaussians(3, **CASES[name])
    if name == "several batches":
        arguments["opacities"] *= 0.02
        arguments = with_lists(arguments)
        assert len(arguments["flatten_ids"]) > 2 * 256
    case = by_reference(arguments)
    assert case.compared.double().mean() > 0.9
    colors, alphas, last_ids = SIMT.rasterize(**arguments)
    for found, expected in ((colors, case.colors), (alphas, case.alphas)):
        assert ((found - expected).abs()[case.compared] <= 1e-4).all()
    if name == "saturated":
        assert (alphas > 0.999).any()
    backward = backward_arguments(arguments, (case.v_colors, case.v_alphas))
    means2d, means2d_abs, *others = SIMT.rasterize_backward(**backward)
    if arguments["backgrounds"] is None:
        assert others.pop().shape == (0,)
    for parameter, found in zip(PARAMETERS, (means2d, *others), strict=False):
        expected, absolute = getattr(case.gradients, parameter), getattr(case.absolute, parameter)
        assert_near(found, expected, absolute, parameter)
    assert_near(means2d_abs, case.absolute.means2d, case.absolute.means2d, "absgrad")
    # And the CPU's decisions, on every pixel. The exponent is rounded another way, which shows where its terms cancel.
    assert_close((colors, alphas), OPS.rasterize(**arguments)[:2], 1e-4 if name == "thin" else 1e-6)
    assert torch.equal(last_ids, OPS.rasterize(**arguments)[2])


def with_lists(arguments: Arguments) -> Arguments:
    """With the lists that its opacities, changed since, give."""
    count, size = arguments["opacities"].shape[1], arguments["tile_size"]
    _, flatten_ids, offsets = OPS.intersect(
        arguments["means2d"], torch.full((1, count, 2), 1000, dtype=torch.int32), torch.ones(1, count),
        arguments["conics"], arguments["opacities"], None, 1, size,
        -(-arguments["width"] // size), -(-arguments["height"] // size),
    )  # fmt: skip
    return arguments | {"flatten_ids": flatten_ids, "isect_offsets": offsets}


def assert_close(found: tuple[Tensor, ...], expected: tuple[Tensor, ...], tolerance: float) -> None:
    """Within a tolerance relative to the largest entry."""
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        if other.numel():
            assert (one - other).abs().max() <= tolerance * max(1.0, float(other.abs().max()))


def test_gradients_do_not_depend_on_the_order_when_deterministic(simt: ModuleType) -> None:
    arguments = gaussians(5, count=40, width=20, height=33, channels=37)  # in two chunks
    backward = backward_arguments(arguments, random_v(arguments), deterministic=True)
    results = []
    for seed in (0, 1):
        simt.set_seed(seed)
        results.append(SIMT.rasterize_backward(**backward))
    simt.set_seed(0)
    assert_same(results[1], results[0])
    added_as_it_comes = SIMT.rasterize_backward(**(backward | {"deterministic": False}))
    assert_close(added_as_it_comes, results[0], 1e-5)
    assert any(not torch.equal(*pair) for pair in zip(added_as_it_comes, results[0], strict=True))


def test_gradients_agree_in_any_order(any_order: ModuleType) -> None:
    arguments = gaussians(6, count=70, images=2, has_masks=True, tile_size=8)
    backward = backward_arguments(arguments, random_v(arguments), absgrad=False)
    found = SIMT.rasterize_backward(**backward)
    expected = OPS.rasterize_backward(**backward)
    # The CPU starts from 1 - alpha, the kernels from the product: they differ where little is left.
    assert_close(found, expected, 1e-3)
    assert found[1].shape == (0,)


@pytest.mark.usefixtures("simt")
def test_a_gradient_of_alphas_that_does_not_come_is_zero() -> None:
    arguments = gaussians(3, tile_size=8)
    v_colors, v_alphas = random_v(arguments)
    backward = backward_arguments(arguments, (v_colors, torch.zeros_like(v_alphas)))
    for ops in (SIMT, OPS):
        assert_same(ops.rasterize_backward(**(backward | {"v_alphas": None})), ops.rasterize_backward(**backward))


@pytest.mark.usefixtures("simt")
def test_indices_out_of_range_are_survived() -> None:
    arguments = gaussians(2)
    count = arguments["opacities"].numel()
    expected = gaussians(2)
    for position, wrong in enumerate((-1, count, 2**31 - 1, -(2**31))):
        arguments["flatten_ids"][3 * position] = wrong
        # As if nobody saw the Gaussian.
        expected["flatten_ids"][3 * position] = count
    for name in PARAMETERS[:4]:
        expected[name] = torch.cat([expected[name], torch.zeros_like(expected[name][:, :1])], 1)
    expected["conics"][:, -1] = 1
    images = SIMT.rasterize(**arguments)
    assert_same(images, SIMT.rasterize(**expected))
    v = random_v(arguments)
    for deterministic in (False, True):
        found = SIMT.rasterize_backward(**backward_arguments(arguments, v, deterministic=deterministic))
        others = SIMT.rasterize_backward(**backward_arguments(expected, v, deterministic=deterministic))
        assert_same(tuple(one[:, :count] for one in found[:5]), tuple(other[:, :count] for other in others[:5]))


@pytest.mark.parametrize("how", ["again and again", "backwards", "anything"])
@pytest.mark.usefixtures("simt")
def test_offsets_that_do_not_ascend_are_survived(how: str) -> None:
    """The CPU refuses them; to look at them on a GPU would be to wait for it."""
    arguments = gaussians(11, count=150, width=40, height=33)
    offsets, count = arguments["isect_offsets"], len(arguments["flatten_ids"])
    backward = backward_arguments(arguments, random_v(arguments))
    backward["last_ids"] = torch.full_like(backward["last_ids"], count - 1)  # every tile is drawn to its end
    everywhere = torch.arange(offsets.numel(), dtype=torch.int32).reshape(offsets.shape)
    wrong = {
        "again and again": everywhere % 2 * count,
        "backwards": offsets.flip(-1),
        "anything": (everywhere.long() * 2654435761 % 2**32 - 2**31).int(),
    }[how]
    SIMT.rasterize(**(arguments | {"isect_offsets": wrong}))
    for gradient in SIMT.rasterize_backward(**(backward | {"isect_offsets": wrong})):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", ["means2d", "conics", "colors", "opacities"])
@pytest.mark.usefixtures("simt")
def test_any_values_are_survived(name: str) -> None:
    arguments = gaussians(8, count=40)
    for i, value in enumerate((torch.nan, torch.inf, -torch.inf, 1e38)):
        arguments[name][:, 5 * i] = value
    _, _, last_ids = SIMT.rasterize(**arguments)
    assert torch.equal(last_ids, OPS.rasterize(**arguments)[2])
    SIMT.rasterize_backward(**backward_arguments(arguments, random_v(arguments)))


@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize("name", [*GEOMETRY, "coeffs", "direct"])
@pytest.mark.usefixtures("simt")
def test_what_is_not_finite_is_left_out_and_counted_as_on_the_cpu(name: str, sets: int) -> None:
    arguments = spoiled_arguments(name, torch.inf, sets)
    found, expected = SIMT.project(**arguments), OPS.project(**arguments)
    assert_same(found, expected)
    assert 0 < expected[-1] < 100


# Errors of the driver

CALLS = [
    "cudaLaunchKernelEx", "cudaMemsetAsync", "cudaMemcpyAsync", "cudaEventCreateWithFlags", "cudaEventRecord",
    "cudaEventSynchronize",
]  # fmt: skip


WAITS = ("cudaEventSynchronize", "cudaStreamSynchronize")


@pytest.mark.parametrize("name", ["intersect", "pack"])
def test_an_operator_waits_once_for_the_sizes_of_its_results(simt: ModuleType, name: str) -> None:
    before = [simt.calls().get(wait, 0) for wait in WAITS]
    getattr(SIMT, name)(**(intersect_arguments() if name == "intersect" else pack_arguments(2, 3)))
    assert [simt.calls().get(wait, 0) for wait in WAITS] == [before[0] + 1, before[1]]


@pytest.mark.parametrize(("name", "call"), [*(("intersect", call) for call in CALLS), ("pack", "cudaEventSynchronize")])
def test_an_error_of_the_driver_is_reported_once(simt: ModuleType, call: str, name: str) -> None:
    """As a wait is refused while a graph is captured. The runtime would report it again, at the next launch."""
    operator = getattr(SIMT, name)
    arguments = intersect_arguments(gaussians=20) if name == "intersect" else pack_arguments(2, 3)
    expected = operator(**arguments)
    simt.fail(call)

    with pytest.raises(RuntimeError, match="CUDA error 999"):
        operator(**arguments)

    assert_same(operator(**arguments), expected)


# All of it


def single_gaussians() -> dict[str, Arguments]:
    """Arguments of the operators on single Gaussians."""
    scene = random_scene(0, gaussians=5)
    project = {
        "means": scene.means, "quats": scene.quats, "scales": scene.scales, "covars": None,
        "opacities": scene.opacities, "viewmats": scene.viewmats, "Ks": scene.Ks, "width": scene.width,
        "height": scene.height, "eps2d": 0.3, "near_plane": 0.01, "far_plane": 1e10, "radius_clip": 0.0,
        "antialiased": False, "camera_model": 0, "coeffs": torch.ones(1, 5, 4, 3), "degree": 1, "direct": None,
    }  # fmt: skip
    names = ("radii", "means2d", "depths", "conics", "compensations", "colors", "invalid")
    projected = dict(zip(names, OPS.project(**project), strict=True))
    known = projected | {name: value for name, value in project.items() if name != "direct"}
    gradients = {f"v_{name}": known.pop(name) for name in ("means2d", "depths")}
    gradients |= {f"v_{name}": known[name] for name in ("conics", "compensations", "colors")}
    del known["invalid"]
    harmonics = {"degree": 1, "directions": scene.means[None], "coeffs": torch.ones(1, 5, 4, 3), "mask": None}
    return {
        "project": project,
        "project_backward": known | gradients,
        "spherical_harmonics": harmonics,
        "spherical_harmonics_backward": harmonics | {"v_colors": torch.ones(1, 5, 3)},
    }


def test_every_kernel_is_executed(simt: ModuleType) -> None:
    """Each of a template's, too: by their mangled names."""
    packed = pack_arguments(1, 3)
    examples: dict[str, Arguments] = {
        "intersect": intersect_arguments(gaussians=5),
        "pack": packed,
        "pack_backward": {"radii": packed["radii"], "places": SIMT.pack(**packed)[8], "sets": 1}
        | dict.fromkeys(("v_means2d", "v_depths", "v_conics", "v_opacities", "v_colors")),
    } | single_gaussians()
    for name, arguments in examples.items():
        getattr(SIMT, name)(**arguments)
    SIMT.project_backward(**examples["project_backward"], poses=False)
    for channels in (3, 4, 8, 32, 40):
        rendered = gaussians(1, channels=channels)
        for deterministic, absgrad in itertools.product((False, True), repeat=2):
            flags = {"deterministic": deterministic, "absgrad": absgrad}
            SIMT.rasterize_backward(**backward_arguments(rendered, random_v(rendered), **flags))
    discs = operands(disc_arguments(count=5))
    images = SIMT.rasterize_2dgs(*discs, True)
    SIMT.rasterize_2dgs_backward(*discs, images[1], *images[4:], images[0], None, None, None, False)
    along = ray_operands(ray_arguments(count=5))
    colors, alphas, last_ids = SIMT.rasterize_along_rays(**along)
    SIMT.rasterize_along_rays_backward(*along.values(), alphas, last_ids, colors, None)
    pictures = torch.rand(2, 1, 5, 5, 1).unbind()
    _, weights, partials = SIMT.image_loss(*pictures, None, 0.0, 1.0, 0, True)
    SIMT.image_loss_backward(*pictures, None, weights, partials, torch.ones(()))

    assert simt.in_ptx <= simt.launched()
