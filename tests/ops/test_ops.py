"""The operators themselves, on the CPU: shapes, order, exactness, and what they refuse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operator_arguments import (
    GEOMETRY,
    HEIGHT,
    TILE,
    WIDTH,
    Arguments,
    covariance_arguments,
    image_loss_arguments,
    project_arguments,
    shaded_arguments,
    spoiled_arguments,
)
from parts import require_all_parts
from processes import RunPython
from public_calls import public_calls
from reference_rasterizer import sh_basis
from scenes import random_scene
from torch import Tensor, library
from torch.utils._pytree import tree_leaves

import splat
from splat.ops.autocast import in_float32
from splat.ops.defaults import MAX_ALPHA
from splat.ops.intersection import intersection_keys

require_all_parts()
OPS = torch.ops.splat

ALPHA_MIN = 1 / 255


def harmonics_arguments(degree: int = 3) -> Arguments:
    generator = torch.Generator().manual_seed(1)
    return {
        "degree": degree,
        "directions": torch.randn(2, 50, 3, generator=generator),
        "coeffs": torch.randn(1, 50, 25, 3, generator=generator),
        "mask": torch.rand(2, 50, generator=generator) > 0.3,
    }


def random_like(tensor: Tensor, seed: int = 7) -> Tensor:
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed))


def project_backward_arguments() -> Arguments:
    arguments = shaded_arguments() | {"antialiased": True}
    radii, means2d, depths, conics, compensations, colors, _ = OPS.project(**arguments)
    del arguments["direct"]
    return arguments | {
        "radii": radii,
        "conics": conics,
        "compensations": compensations,
        "colors": colors,
        "v_means2d": random_like(means2d),
        "v_depths": random_like(depths),
        "v_conics": random_like(conics),
        "v_compensations": random_like(compensations),
        "v_colors": random_like(colors),
    }


def harmonics_backward_arguments() -> Arguments:
    arguments = harmonics_arguments()
    return arguments | {"v_colors": random_like(arguments["directions"])}


def intersect_arguments(tile_size: int = TILE, **changes: Any) -> Arguments:
    projected = project_arguments(**changes)
    radii, means2d, depths, conics, *_ = OPS.project(**projected)
    images = len(projected["viewmats"])
    return {
        "means2d": means2d,
        "radii": radii,
        "depths": depths,
        "conics": conics,
        "opacities": projected["opacities"].expand(images, -1).contiguous(),
        "image_ids": None,
        "images": images,
        "tile_size": tile_size,
        "tile_width": -(-WIDTH // tile_size),
        "tile_height": -(-HEIGHT // tile_size),
    }


def pack_arguments(sets: int = 2, channels: int = 5, **changes: Any) -> Arguments:
    lists = intersect_arguments(**changes)
    generator = torch.Generator().manual_seed(5)
    colors = torch.rand(sets, lists["depths"].shape[1], channels, generator=generator)
    return {name: value for name, value in lists.items() if name not in ("image_ids", "images")} | {"colors": colors}


def pack_backward_arguments(sets: int = 2) -> Arguments:
    arguments = pack_arguments(sets)
    names = ("means2d", "depths", "conics", "opacities", "colors")
    _, _, _, *packed, places, _, _, _ = OPS.pack(**arguments)
    gradients = {f"v_{name}": random_like(one) for name, one in zip(names, packed, strict=True)}
    return {"radii": arguments["radii"], "places": places, "sets": sets} | gradients


def rasterize_arguments(channels: int = 3, tile_size: int = TILE, **changes: Any) -> Arguments:
    lists = intersect_arguments(tile_size, **changes)
    _, flatten_ids, offsets = OPS.intersect(**lists)
    images, gaussians = lists["depths"].shape
    generator = torch.Generator().manual_seed(2)
    return {
        "means2d": lists["means2d"],
        "conics": lists["conics"],
        "colors": torch.rand(images, gaussians, channels, generator=generator),
        "opacities": lists["opacities"],
        "backgrounds": torch.rand(images, channels, generator=generator),
        "masks": None,
        "width": WIDTH,
        "height": HEIGHT,
        "tile_size": tile_size,
        "isect_offsets": offsets,
        "flatten_ids": flatten_ids,
        "max_alpha": MAX_ALPHA,
    }


def rasterize_backward_arguments(channels: int = 3, **changes: Any) -> Arguments:
    arguments = rasterize_arguments(channels, **changes)
    colors, alphas, last_ids = OPS.rasterize(**arguments)
    return arguments | {
        "alphas": alphas,
        "last_ids": last_ids,
        "v_colors": random_like(colors),
        "v_alphas": random_like(alphas),
        "absgrad": True,
    }


def packed(arguments: Arguments, keep: Tensor, *names: str) -> Arguments:
    """The named tensors with their first two dimensions, image and Gaussian, reduced to the rows to keep."""
    return arguments | {name: arguments[name][keep] for name in names}


def image_loss_backward_arguments() -> Arguments:
    arguments = image_loss_arguments((2, 45, 37, 3), masked=True)
    _, weights, partials = OPS.image_loss(**arguments)
    pictures = {name: arguments[name] for name in ("image", "target", "mask")}
    return pictures | {"weights": weights, "partials": partials, "v_value": torch.tensor(2.0)}


EXAMPLES: dict[str, Callable[[], Arguments]] = {
    "project": project_arguments,
    "project_backward": project_backward_arguments,
    "spherical_harmonics": harmonics_arguments,
    "spherical_harmonics_backward": harmonics_backward_arguments,
    "intersect": intersect_arguments,
    "pack": pack_arguments,
    "pack_backward": pack_backward_arguments,
    "rasterize": rasterize_arguments,
    "rasterize_backward": rasterize_backward_arguments,
    "image_loss": lambda: image_loss_arguments((2, 45, 37, 3), masked=True),
    "image_loss_backward": image_loss_backward_arguments,
}


def outputs(name: str, arguments: Arguments) -> tuple[Tensor, ...]:
    result = getattr(OPS, name)(**arguments)
    return (result,) if isinstance(result, Tensor) else tuple(result)


def assert_same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def instruction_set() -> Iterator[Callable[[str], str]]:
    before = OPS.instruction_set("")
    yield OPS.instruction_set
    OPS.instruction_set(before)


@pytest.mark.parametrize("name", EXAMPLES)
def test_torch_finds_the_operator_well_made(name: str) -> None:
    library.opcheck(getattr(OPS, name).default, (), EXAMPLES[name]())


DIFFERENTIABLE: list[tuple[str, Callable[[], Arguments]]] = [
    ("project", project_arguments),
    ("project", covariance_arguments),
    ("project", shaded_arguments),
    ("spherical_harmonics", harmonics_arguments),
    ("pack", pack_arguments),
    ("pack", lambda: pack_arguments(sets=1)),
]


@pytest.mark.parametrize(("name", "example"), DIFFERENTIABLE)
def test_torch_finds_the_gradients_well_made(name: str, example: Callable[[], Arguments]) -> None:
    # opcheck's own compiled backward pass adds outputs up from the first on, and cannot if that one is of integers.
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    library.opcheck(getattr(OPS, name).default, (), requiring_gradients(example()), test_utils=tests)


@pytest.mark.parametrize(
    ("name", "example"),
    [("project", covariance_arguments), ("spherical_harmonics", harmonics_arguments), ("pack", pack_arguments)],
)
def test_gradients_compile_into_one_graph_for_any_size(name: str, example: Callable[[], Arguments]) -> None:
    def loss(arguments: Arguments) -> Tensor:
        floats = [output for output in outputs(name, arguments) if output.is_floating_point()]
        return sum((output * output.cos()).sum() for output in floats)  # type: ignore[return-value]

    torch.compiler.reset()
    gradients = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=True)):
        arguments = requiring_gradients(example())
        function(arguments).backward()
        gradients.append([value.grad for value in arguments.values() if isinstance(value, Tensor)])
    assert sum(gradient is not None for gradient in gradients[0]) >= 2
    torch.testing.assert_close(gradients[1], gradients[0])


def test_operators_compile_into_one_graph() -> None:
    arguments = project_arguments()
    means = arguments.pop("means")

    def render(means: Tensor) -> Tensor:
        radii, means2d, depths, conics, *_ = OPS.project(means, **arguments)
        opacities = arguments["opacities"].expand(2, -1)
        _, flatten_ids, offsets = OPS.intersect(
            means2d, radii, depths, conics, opacities, None, 2, TILE, -(-WIDTH // TILE), -(-HEIGHT // TILE)
        )
        colors = torch.ones(2, len(means), 3)
        image: Tensor = OPS.rasterize(
            means2d, conics, colors, opacities, None, None, WIDTH, HEIGHT, TILE, offsets, flatten_ids, MAX_ALPHA
        )[0]
        return image

    compiled = torch.compile(render, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(means), render(means), rtol=0, atol=0)


def requiring_gradients(arguments: Arguments) -> Arguments:
    return {
        key: value.clone().requires_grad_() if isinstance(value, Tensor) and value.is_floating_point() else value
        for key, value in arguments.items()
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_strides_do_not_matter(name: str) -> None:
    arguments = EXAMPLES[name]()
    strided = {
        key: value.transpose(0, -1).contiguous().transpose(0, -1) if isinstance(value, Tensor) else value
        for key, value in arguments.items()
    }
    assert any(isinstance(value, Tensor) and not value.is_contiguous() for value in strided.values())
    assert_same(outputs(name, strided), outputs(name, arguments))


@pytest.mark.parametrize("name", EXAMPLES)
def test_threads_do_not_matter(name: str, threads: Callable[[int], None]) -> None:
    arguments = EXAMPLES[name]()
    results = []
    for count in (1, 2, 5):
        threads(count)
        results.append(outputs(name, arguments))
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


# Projection.


def test_project_of_a_gaussian_on_the_axis() -> None:
    arguments = project_arguments() | {
        "means": torch.tensor([[0.0, 0.0, 4.0]]),
        "quats": torch.tensor([[2.0, 0.0, 0.0, 0.0]]),
        "scales": torch.tensor([[0.4, 0.2, 0.1]]),
        "opacities": None,
        "viewmats": torch.eye(4)[None],
        "Ks": torch.tensor([[[100.0, 0.0, 30.0], [0.0, 50.0, 20.0], [0.0, 0.0, 1.0]]]),
        "antialiased": True,
    }
    radii, means2d, depths, conics, compensations, *_ = OPS.project(**arguments)
    # Standard deviations on the image are 100 * 0.4 / 4 = 10 and 50 * 0.2 / 4 = 2.5 pixels.
    variances = torch.tensor([100.0, 6.25])
    blurred = variances + 0.3
    torch.testing.assert_close(means2d, torch.tensor([[[30.0, 20.0]]]))
    torch.testing.assert_close(depths, torch.tensor([[4.0]]))
    torch.testing.assert_close(conics, torch.tensor([[[1 / blurred[0], 0.0, 1 / blurred[1]]]]))
    torch.testing.assert_close(compensations, (variances.prod() / blurred.prod()).sqrt().reshape(1, 1))
    torch.testing.assert_close(radii, torch.ceil(3.33 * blurred.sqrt()).int().reshape(1, 1, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"means": torch.tensor([[0.0, 0.0, -1.0]])},
        {"means": torch.tensor([[0.0, 0.0, 0.005]])},
        {"means": torch.tensor([[50.0, 0.0, 4.0]])},
        {"means": torch.tensor([[torch.nan, 0.0, 4.0]])},
        {"scales": torch.tensor([[torch.inf, 0.1, 0.1]])},
        {"quats": torch.zeros(1, 4)},
        {"opacities": torch.tensor([0.0039])},
        {"opacities": torch.tensor([torch.nan])},
        {"far_plane": 3.0},
        {"radius_clip": 1000.0},
    ],
)
def test_project_culls_to_zeros(change: Arguments) -> None:
    arguments = project_arguments() | {
        "means": torch.tensor([[0.0, 0.0, 4.0]]),
        "quats": torch.tensor([[1.0, 0.0, 0.0, 0.0]]),
        "scales": torch.tensor([[0.1, 0.1, 0.1]]),
        "opacities": torch.ones(1),
        "viewmats": torch.eye(4)[None],
        "Ks": torch.tensor([[[50.0, 0.0, 35.0], [0.0, 50.0, 22.0], [0.0, 0.0, 1.0]]]),
    }
    assert OPS.project(**arguments)[0].all()
    for output in OPS.project(**arguments | change)[:-1]:
        assert not output.any()


def test_project_without_opacities_reaches_furthest() -> None:
    arguments = project_arguments()
    with_opacities = OPS.project(**arguments)[0]
    without = OPS.project(**arguments | {"opacities": None})[0]
    assert (without >= with_opacities).all()
    assert (without > with_opacities).any()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize("name", [*GEOMETRY, "coeffs", "direct"])
def test_project_leaves_out_and_counts_what_is_not_finite(name: str, sets: int, value: float) -> None:
    """Where it would be shown; of parameters, wherever the centre is neither too near nor too far."""
    *expected, none = OPS.project(**spoiled_arguments(name, 0.02, sets))
    *found, invalid = OPS.project(**spoiled_arguments(name, value, sets))
    shown = (expected[0] > 0).all(-1)[:, ::7]
    assert shown.any()
    assert none == 0
    if name in GEOMETRY:
        arguments = spoiled_arguments(name, value, sets)
        depths = (arguments["viewmats"][:, 2:3, :3] @ arguments["means"].T + arguments["viewmats"][:, 2:3, 3:])[:, 0]
        shown = (~depths.isfinite() | (depths >= arguments["near_plane"]))[:, ::7]
    assert invalid == shown.sum()
    for before, after in zip(expected, found, strict=True):
        if len(before):
            before[:, ::7] = 0
        torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_project_takes_colours_once_for_all_images_or_for_each() -> None:
    arguments = spoiled_arguments("direct", 0.5)
    with pytest.raises(RuntimeError, match="either coeffs or direct can be given; found both"):
        OPS.project(**arguments | {"coeffs": torch.zeros(1, 300, 1, 3)})
    with pytest.raises(RuntimeError, match="1 set of colours or one for each of the 2 images; found 3"):
        OPS.project(**spoiled_arguments("direct", sets=3))
    with pytest.raises(RuntimeError, match="direct must"):
        OPS.project(**arguments | {"direct": torch.zeros(1, 299, 5)})


# Spherical harmonics.


@pytest.mark.parametrize("degree", range(5))
def test_spherical_harmonics_are_those_of_the_definition(degree: int) -> None:
    arguments = harmonics_arguments(degree) | {"mask": None}
    directions, coeffs = arguments["directions"].double(), arguments["coeffs"][0].double()
    bases = (degree + 1) ** 2
    for image, found in zip(directions, OPS.spherical_harmonics(**arguments), strict=True):
        expected = (sh_basis(image, degree)[..., None] * coeffs[:, :bases]).sum(1)
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)


def test_spherical_harmonics_mask_and_coefficients_per_image() -> None:
    arguments = harmonics_arguments()
    mask = arguments["mask"]
    found = OPS.spherical_harmonics(**arguments)
    unmasked = OPS.spherical_harmonics(**arguments | {"mask": None})
    torch.testing.assert_close(found, torch.where(mask[..., None], unmasked, 0.0), rtol=0, atol=0)
    per_image = arguments | {"coeffs": arguments["coeffs"].expand(2, -1, -1, -1)}
    torch.testing.assert_close(OPS.spherical_harmonics(**per_image), found, rtol=0, atol=0)


def test_spherical_harmonics_of_no_direction_are_finite() -> None:
    arguments = harmonics_arguments() | {"directions": torch.zeros(2, 50, 3)}
    assert torch.isfinite(OPS.spherical_harmonics(**arguments)).all()


# Intersection.


def rectangle_lists(arguments: Arguments) -> list[tuple[int, int, int, int]]:
    """(image, tile, depth bits, index) of every tile that the rectangle mean +- radius of a Gaussian touches."""
    size, columns, rows = (arguments[name] for name in ("tile_size", "tile_width", "tile_height"))
    means, radii = arguments["means2d"].reshape(-1, 2) / size, arguments["radii"].reshape(-1, 2) / size
    limit = torch.tensor([columns, rows])
    first = torch.minimum((means - radii).floor().clamp(min=0).int(), limit)
    last = torch.minimum((means + radii).ceil().clamp(min=0).int(), limit)
    bits = arguments["depths"].flatten().view(torch.int32).tolist()
    gaussians = arguments["depths"].shape[-1]
    return sorted(
        (index // gaussians, row * columns + column, bits[index], index)
        for index in (radii > 0).all(1).nonzero().flatten().tolist()
        for row in range(first[index, 1], last[index, 1])
        for column in range(first[index, 0], last[index, 0])
    )


def kept_pairs(arguments: Arguments) -> list[tuple[int, int, int, int]]:
    """The same, of the pairs that the operator keeps, read from their keys."""
    _, indices, offsets = OPS.intersect(**arguments)
    keys = intersection_keys(arguments["depths"], indices, offsets)
    tile_bits = (arguments["tile_width"] * arguments["tile_height"]).bit_length()
    return [
        (key >> 32 + tile_bits, (key >> 32) & ((1 << tile_bits) - 1), key & 0xFFFFFFFF, index)
        for key, index in zip(keys.tolist(), indices.tolist(), strict=True)
    ]


@pytest.mark.parametrize("tile_size", [5, 16, 32])
def test_intersect_orders_by_image_tile_depth_index(tile_size: int) -> None:
    arguments = intersect_arguments(tile_size)
    # Equal depths are ordered by index.
    arguments["depths"] = (arguments["depths"] * 4).round() / 4
    pairs = kept_pairs(arguments)
    assert pairs == sorted(pairs)
    assert len(set(pairs)) == len(pairs) > 100
    assert set(pairs) <= set(rectangle_lists(arguments))


def test_intersect_counts_and_offsets() -> None:
    arguments = intersect_arguments()
    pairs = kept_pairs(arguments)
    tiles_per_gauss, _, offsets = OPS.intersect(**arguments)
    indices = torch.tensor([index for *_, index in pairs])
    torch.testing.assert_close(
        tiles_per_gauss.flatten(), torch.bincount(indices, minlength=tiles_per_gauss.numel()).int()
    )
    per_image = arguments["tile_width"] * arguments["tile_height"]
    tiles = torch.tensor([image * per_image + tile for image, tile, *_ in pairs])
    starts = torch.searchsorted(tiles, torch.arange(2 * per_image))
    torch.testing.assert_close(offsets.flatten(), starts.int())


def conics_of_kind(kind: str, count: int, generator: torch.Generator) -> Tensor:
    """Random conics, inverses of covariances: long up to far beyond the image, or thinner than rendering makes them."""
    long_scale, short_scale = {
        "round": (1.0, 1.0),
        "long": (30.0, 1.0),
        "needle": (3e3, 1.0),
        "hair": (3e6, 1.0),
        "thread": (30.0, 1e-5),
    }[kind]
    angle = torch.rand(count, generator=generator) * torch.pi
    long = (torch.rand(count, generator=generator) * 3).exp() * long_scale
    short = (torch.rand(count, generator=generator) * 3 + 0.3) * short_scale
    u, v = torch.stack([angle.cos(), angle.sin()], 1), torch.stack([-angle.sin(), angle.cos()], 1)
    matrices = (u[:, :, None] * u[:, None] / long[:, None, None]) + (v[:, :, None] * v[:, None] / short[:, None, None])
    return torch.stack([matrices[:, 0, 0], matrices[:, 0, 1], matrices[:, 1, 1]], dim=1)


def single_gaussians(kind: str, tile_size: int = TILE, count: int = 2000) -> Arguments:
    """Arguments of intersect: `count` images with one random Gaussian each, its rectangle the whole image."""
    generator = torch.Generator().manual_seed(len(kind) + tile_size)
    corner = torch.tensor([WIDTH, HEIGHT])
    return {
        "means2d": (torch.rand(count, 1, 2, generator=generator) * 1.6 - 0.3) * corner,
        "radii": torch.full((count, 1, 2), 200, dtype=torch.int32),
        "depths": torch.ones(count, 1),
        "conics": conics_of_kind(kind, count, generator)[:, None],
        "opacities": torch.rand(count, 1, generator=generator),
        "image_ids": None,
        "images": count,
        "tile_size": tile_size,
        "tile_width": -(-WIDTH // tile_size),
        "tile_height": -(-HEIGHT // tile_size),
    }


def alphas_by_definition(arguments: Arguments) -> tuple[Tensor, Tensor]:
    """Alphas [I, H, W] of one Gaussian per image, and where the rounding of an exponential decides whether it is seen.

    The exponent is computed as csrc/math/blend.h says, rounded to float32 after each operation: for a needle another
    order gives another picture.
    """
    x, y = torch.arange(WIDTH) + 0.5, torch.arange(HEIGHT) + 0.5
    mean = arguments["means2d"][:, 0, :, None, None]
    dx, dy = mean[:, 0] - x, mean[:, 1] - y[:, None]
    log2_e = torch.tensor(1.44269504088896341)
    a, b, c = arguments["conics"][:, 0, :, None, None].unbind(1)
    half_a, b, half_c = 0.5 * log2_e * a, log2_e * b, 0.5 * log2_e * c
    exponent = (half_a * dx + b * dy) * dx + half_c * dy * dy
    alpha = arguments["opacities"][:, :, None].double() * torch.exp2(-exponent.double())
    doubtful = (alpha / ALPHA_MIN - 1).abs() <= 1e-6
    return torch.where((exponent >= 0) & (alpha >= ALPHA_MIN), alpha.clamp(max=0.999), 0.0), doubtful


def rasterize_singles(arguments: Arguments, flatten_ids: Tensor, offsets: Tensor) -> Tensor:
    """Alphas [I, H, W] of lists for the Gaussians of `single_gaussians`."""
    alphas: Tensor = OPS.rasterize(
        arguments["means2d"],
        arguments["conics"],
        torch.ones(arguments["images"], 1, 1),
        arguments["opacities"],
        None,
        None,
        WIDTH,
        HEIGHT,
        arguments["tile_size"],
        offsets,
        flatten_ids,
        MAX_ALPHA,
    )[1]
    return alphas[..., 0]


@pytest.mark.parametrize(
    ("kind", "tile_size"),
    [("round", 16), ("long", 7), ("long", 16), ("long", 32), ("needle", 16), ("hair", 16), ("thread", 16)],
)
def test_intersect_drops_no_pair_that_contributes(kind: str, tile_size: int) -> None:
    arguments = single_gaussians(kind, tile_size)
    tiles_per_gauss, flatten_ids, offsets = OPS.intersect(**arguments)
    everywhere = arguments["tile_width"] * arguments["tile_height"]
    # Ellipses as thin as the last two are not trusted, so that the rectangle counts, which here is the whole image.
    assert kind in ("hair", "thread") or tiles_per_gauss.sum() < 0.8 * everywhere * arguments["images"]
    # The same with each Gaussian in all tiles of its image.
    all_ids = torch.arange(arguments["images"], dtype=torch.int32).repeat_interleave(everywhere)
    all_offsets = torch.arange(len(all_ids), dtype=torch.int32).reshape(offsets.shape)
    kept = rasterize_singles(arguments, flatten_ids, offsets)
    torch.testing.assert_close(kept, rasterize_singles(arguments, all_ids, all_offsets), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["round", "long"])
def test_intersect_keeps_few_pairs_that_do_not_contribute(kind: str) -> None:
    arguments = single_gaussians(kind)
    tiles_per_gauss = OPS.intersect(**arguments)[0]
    alphas, _ = alphas_by_definition(arguments)
    padded = torch.nn.functional.pad(alphas, (0, -WIDTH % TILE, 0, -HEIGHT % TILE))
    contributing = torch.nn.functional.max_pool2d(padded[:, None], TILE) > 0
    # A tile can be touched between its pixels, and one at the border beyond the image.
    assert tiles_per_gauss.sum() < 1.15 * contributing.sum()


def test_intersect_keeps_what_is_not_an_ellipse() -> None:
    arguments = single_gaussians("round", count=1)
    everywhere = arguments["tile_width"] * arguments["tile_height"]
    for conic in ([0.1, 0.2, 0.1], [0.0, 0.0, 0.0], [-0.1, 0.0, 0.1], [torch.nan, 0.0, 0.1]):
        changed = arguments | {
            "means2d": torch.tensor([[[WIDTH / 2, HEIGHT / 2]]]),
            "conics": torch.tensor([[conic]]),
            "opacities": torch.ones(1, 1),
        }
        assert OPS.intersect(**changed)[0].item() == everywhere


@pytest.mark.parametrize("opacity", [0.0, 0.0039, torch.nan, -1.0])
def test_intersect_drops_what_nobody_sees(opacity: float) -> None:
    arguments = single_gaussians("round", count=3) | {"opacities": torch.full((3, 1), opacity)}
    tiles_per_gauss, flatten_ids, offsets = OPS.intersect(**arguments)
    assert not tiles_per_gauss.any()
    assert len(flatten_ids) == 0
    assert not offsets.any()


# Rasterization.


@pytest.mark.parametrize("kind", ["round", "long", "needle", "hair", "thread"])
@pytest.mark.parametrize("name", ["baseline", "avx2", "avx512"])
def test_rasterize_one_gaussian(kind: str, name: str, instruction_set: Callable[[str], str]) -> None:
    select_or_skip(instruction_set, name)
    arguments = single_gaussians(kind, count=500)
    _, flatten_ids, offsets = OPS.intersect(**arguments)
    found = rasterize_singles(arguments, flatten_ids, offsets).double()
    expected, doubtful = alphas_by_definition(arguments)
    assert (expected > 0).any()
    assert doubtful.double().mean() < 1e-5
    assert (((found - expected).abs() <= 3e-7) | doubtful).all()


def test_rasterize_without_background_and_without_gaussians() -> None:
    arguments = rasterize_arguments()
    over_black = OPS.rasterize(**arguments | {"backgrounds": torch.zeros(2, 3)})
    assert_same(OPS.rasterize(**arguments | {"backgrounds": None}), over_black)
    nothing = arguments | {
        "flatten_ids": torch.empty(0, dtype=torch.int32),
        "isect_offsets": torch.zeros_like(arguments["isect_offsets"]),
    }
    colors, alphas, last_ids = OPS.rasterize(**nothing)
    assert (colors == arguments["backgrounds"][:, None, None]).all()
    assert not alphas.any()
    assert not last_ids.any()


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 16, 17, 40])
def test_rasterize_channels_are_independent(channels: int) -> None:
    arguments = rasterize_arguments(channels)
    colors, alphas, last_ids = OPS.rasterize(**arguments)
    for channel in range(channels):
        single = arguments | {name: arguments[name][..., channel, None] for name in ("colors", "backgrounds")}
        assert_same(OPS.rasterize(**single), (colors[..., channel, None], alphas, last_ids))


def test_rasterize_stops_before_the_gaussian_that_makes_a_pixel_opaque() -> None:
    arguments = rasterize_arguments() | {
        "means2d": torch.tensor([[4.5, 4.5]]).repeat(4, 1),
        "conics": torch.tensor([[1e-6, 0.0, 1e-6]]).repeat(4, 1),
        "colors": torch.eye(4)[:, :3],
        "opacities": torch.tensor([0.5, 0.99, 0.99, 0.5]),
        "backgrounds": None,
        "width": 8,
        "height": 8,
        "isect_offsets": torch.zeros(1, 1, 1, dtype=torch.int32),
        "flatten_ids": torch.arange(4, dtype=torch.int32),
    }
    colors, alphas, last_ids = OPS.rasterize(**arguments)
    # 0.5 * 0.01 * 0.01 is under 1e-4: the third is not blended, nor is the fourth, although it alone would be.
    torch.testing.assert_close(colors[0, 4, 4], torch.tensor([0.5, 0.495, 0.0]), rtol=0, atol=1e-4)
    torch.testing.assert_close(alphas[0, 4, 4], torch.tensor([0.995]), rtol=0, atol=1e-5)
    assert (last_ids == 1).all()


@pytest.mark.parametrize("opacity", [torch.nan, torch.inf, 1e30, -1.0, 1.0])
def test_rasterize_survives_any_opacity(opacity: float) -> None:
    arguments = rasterize_arguments()
    arguments["opacities"] = torch.full_like(arguments["opacities"], opacity)
    colors, alphas, _ = OPS.rasterize(**arguments)
    assert torch.isfinite(colors).all()
    assert (alphas.max() > 0.9) == (opacity >= 1)
    assert (alphas < 1).all()


def select_or_skip(instruction_set: Callable[[str], str], name: str) -> None:
    try:
        assert instruction_set(name) == name
    except RuntimeError as error:
        if "this CPU does not have" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("channels", [1, 3, 4, 7])
def test_instruction_sets_with_fused_operations_give_the_same_picture(
    channels: int, instruction_set: Callable[[str], str]
) -> None:
    arguments = rasterize_arguments(channels)
    select_or_skip(instruction_set, "avx2")
    expected = OPS.rasterize(**arguments)
    select_or_skip(instruction_set, "avx512")
    assert_same(OPS.rasterize(**arguments), expected)


@pytest.mark.parametrize("channels", [1, 3, 4, 7])
def test_without_them_a_picture_differs_by_rounding(channels: int, instruction_set: Callable[[str], str]) -> None:
    arguments = rasterize_arguments(channels)
    select_or_skip(instruction_set, "avx2")
    *expected, expected_last = OPS.rasterize(**arguments)
    select_or_skip(instruction_set, "baseline")
    *found, found_last = OPS.rasterize(**arguments)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert (found_last != expected_last).double().mean() < 1e-4


@pytest.mark.parametrize("name", ["avx2", "avx512"])
@pytest.mark.parametrize("operator", ["project", "project_backward"])
def test_every_instruction_set_projects_to_the_same_bits(
    operator: str, name: str, instruction_set: Callable[[str], str]
) -> None:
    arguments = EXAMPLES[operator]()
    select_or_skip(instruction_set, "baseline")
    expected = getattr(OPS, operator)(**arguments)
    select_or_skip(instruction_set, name)
    assert_same(getattr(OPS, operator)(**arguments), expected)


def test_instruction_set_must_be_known(instruction_set: Callable[[str], str]) -> None:
    with pytest.raises(RuntimeError, match="must be baseline, avx2 or avx512; found avx"):
        instruction_set("avx")


# Layouts and sizes.


def test_packed_equals_dense() -> None:
    lists = intersect_arguments()
    keep = (lists["radii"] > 0).all(-1)
    image_ids = keep.nonzero()[:, 0]
    packed_lists = packed(lists, keep, "means2d", "radii", "depths", "conics", "opacities") | {"image_ids": image_ids}
    tiles, indices, offsets = OPS.intersect(**packed_lists)
    dense_tiles, dense_indices, dense_offsets = OPS.intersect(**lists)
    rows = keep.flatten().nonzero().flatten()
    assert_same((tiles, offsets), (dense_tiles[keep], dense_offsets))
    torch.testing.assert_close(rows[indices], dense_indices.long())

    arguments = rasterize_arguments()
    packed_arguments = packed(arguments, keep, "means2d", "conics", "colors", "opacities") | {"flatten_ids": indices}
    assert_same(OPS.rasterize(**packed_arguments), OPS.rasterize(**arguments))


PACKED = ("radii", "means2d", "depths", "conics", "opacities")
LISTS = ("tile_size", "tile_width", "tile_height")


@pytest.mark.parametrize("sets", [1, 2])
def test_packed_rows_are_the_visible_ones(sets: int) -> None:
    arguments = pack_arguments(sets)
    keep = (arguments["radii"] > 0).all(-1)
    assert 0 < keep.sum() < keep.numel()
    images, gaussians = keep.nonzero(as_tuple=True)
    *rows, colors, places, tiles, indices, offsets = OPS.pack(**arguments)
    assert_same(tuple(rows[:2]), (images, gaussians))
    assert_same(tuple(rows[2:]), tuple(arguments[name][keep] for name in PACKED))
    assert torch.equal(colors, arguments["colors"].expand(2, -1, -1)[keep])
    assert torch.equal(places[keep], torch.arange(len(images), dtype=torch.int32))
    given = {name: arguments[name][keep] for name in PACKED} | {name: arguments[name] for name in LISTS}
    assert_same((tiles, indices, offsets), OPS.intersect(**given, image_ids=images, images=2))

    without = OPS.pack(**arguments | {"colors": None} | dict.fromkeys(LISTS, 0))
    assert_same(without[:7], tuple(rows))
    assert [tuple(one.shape) for one in without[7:]] == [(len(images), 0), keep.shape, (0,), (0,), (2, 0, 0)]


@pytest.mark.parametrize("given", [("means2d", "depths", "conics", "opacities", "colors"), ("depths",), ("colors",)])
@pytest.mark.parametrize("sets", [1, 2])
def test_gradients_of_packed_rows_are_those_of_their_indices(sets: int, given: tuple[str, ...]) -> None:
    names = ("means2d", "depths", "conics", "opacities", "colors")
    arguments = pack_arguments(sets)
    keep = (arguments["radii"] > 0).all(-1)
    gradients = []
    for packs in (True, False):
        leaves = {name: arguments[name].clone().requires_grad_() for name in names}
        dense = leaves | {"colors": leaves["colors"].expand(2, -1, -1)}
        found = OPS.pack(**arguments | leaves)[3:8] if packs else [dense[name][keep] for name in names]
        outputs = [one for name, one in zip(names, found, strict=True) if name in given]
        torch.autograd.backward(outputs, [random_like(one) for one in outputs])
        gradients.append([leaf.grad for leaf in leaves.values()])
    for name, one, other in zip(names, *gradients, strict=True):
        if name in given:
            assert torch.equal(one, other), name
        else:
            assert one is None


def test_packing_differentiates_only_what_is_asked_for() -> None:
    arguments = pack_arguments()
    leaf = arguments["depths"].requires_grad_()
    _, _, _, _, depths, conics, *_ = OPS.pack(**arguments)
    assert torch.autograd.grad(depths.sum() + conics.sum(), leaf)[0].sum() == len(depths)


def test_nothing_is_packed_of_what_nobody_sees() -> None:
    arguments = pack_arguments()
    arguments["radii"] = torch.zeros_like(arguments["radii"])
    arguments["depths"].requires_grad_()
    *rows, _, tiles, indices, offsets = OPS.pack(**arguments)
    assert [len(one) for one in (*rows, tiles, indices)] == [0] * 10
    assert not offsets.any()
    rows[4].sum().backward()
    assert not arguments["depths"].grad.any()


@pytest.mark.parametrize(("sets", "images"), [(3, 2), (0, 2), (3, 1)])
def test_sets_of_colors_must_be_for_equally_many_images(sets: int, images: int) -> None:
    arguments = pack_arguments()
    arguments |= {name: arguments[name][:images] for name in PACKED}
    with pytest.raises(RuntimeError, match=f"for equally many of the {images} images; found {sets}"):
        OPS.pack(**arguments | {"colors": torch.zeros(sets, 300, 3)})


@pytest.mark.parametrize(("images", "gaussians"), [(0, 5), (2, 0), (0, 0)])
def test_nothing_to_do(images: int, gaussians: int) -> None:
    arguments = project_arguments(gaussians=5)
    arguments |= {name: arguments[name][:gaussians] for name in ("means", "quats", "scales", "opacities")}
    arguments |= {name: arguments[name][:images] for name in ("viewmats", "Ks")}
    radii, means2d, depths, conics, compensations, *_ = OPS.project(**arguments)
    assert [t.shape[:2] for t in (radii, means2d, depths, conics, compensations)] == [(images, gaussians)] * 5
    coeffs, opacities = torch.zeros(1, gaussians, 4, 3), torch.zeros(images, gaussians)
    assert OPS.spherical_harmonics(1, torch.zeros(images, gaussians, 3), coeffs, None).shape == (images, gaussians, 3)
    for shape, image_ids in (((images, gaussians), None), ((0,), torch.empty(0, dtype=torch.int64))):
        tiles, indices, offsets = OPS.intersect(
            means2d.reshape(*shape, 2),
            radii.reshape(*shape, 2),
            depths.reshape(shape),
            conics.reshape(*shape, 3),
            opacities.reshape(shape),
            image_ids,
            images,
            TILE,
            5,
            3,
        )
        assert (tiles.shape, len(indices)) == (shape, 0)
        assert torch.equal(offsets, torch.zeros(images, 3, 5, dtype=torch.int32))
        colors, alphas, last_ids = OPS.rasterize(
            means2d.reshape(*shape, 2),
            conics.reshape(*shape, 3),
            torch.zeros(*shape, 3),
            opacities.reshape(shape),
            None,
            None,
            WIDTH,
            HEIGHT,
            TILE,
            offsets,
            indices,
            MAX_ALPHA,
        )
        assert colors.shape == (images, HEIGHT, WIDTH, 3)
        assert not any(output.any() for output in (colors, alphas, last_ids))


# Refusals. Each must be an error, and never a read or write out of bounds.


def replaced(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Arguments], Arguments]:
    return lambda arguments: arguments | {name: change(arguments[name])}


def given(**changes: Any) -> Callable[[Arguments], Arguments]:
    return lambda arguments: arguments | changes


REFUSALS: list[tuple[str, Callable[[Arguments], Arguments], str]] = [
    ("project", replaced("means", Tensor.double), "means must have dtype Float; found Double"),
    ("project", replaced("means", Tensor.flatten), "means must have 2 dimensions; found 1"),
    ("project", replaced("quats", lambda t: t[:, :3]), r"quats must have shape \[300, 4\]; found \[300, 3\]"),
    ("project", replaced("scales", lambda t: t[1:]), r"scales must have shape \[300, 3\]; found \[299, 3\]"),
    ("project", replaced("opacities", lambda t: t[:, None]), r"opacities must have shape \[300\]"),
    ("project", replaced("viewmats", lambda t: t[:, :3]), r"viewmats must have shape \[2, 4, 4\]"),
    ("project", replaced("Ks", lambda t: t[:1]), r"Ks must have shape \[2, 3, 3\]"),
    ("project", given(width=0), "width must be between 1 and"),
    ("project", given(height=1 << 40), "height must be between 1 and"),
    ("project", given(eps2d=-0.1), "eps2d must not be negative"),
    ("spherical_harmonics", given(degree=5), "degree must be between 0 and 4; found 5"),
    ("spherical_harmonics", given(degree=-1), "degree must be between 0 and 4; found -1"),
    ("spherical_harmonics", replaced("coeffs", lambda t: t[:, :, :15]), "needs 16 coefficients .* holds 15"),
    ("spherical_harmonics", replaced("coeffs", lambda t: t.expand(3, -1, -1, -1)), "one for each of the 2 images"),
    ("spherical_harmonics", replaced("mask", lambda t: t.float()), "mask must have dtype Bool"),
    ("spherical_harmonics", replaced("mask", lambda t: t[:1]), r"mask must have shape \[2, 50\]"),
    ("intersect", replaced("radii", Tensor.long), "radii must have dtype Int"),
    ("intersect", replaced("depths", lambda t: t[:, :-1]), r"depths must have shape \[2, 300\]"),
    ("intersect", replaced("conics", lambda t: t[..., :2]), r"conics must have shape \[2, 300, 3\]"),
    ("intersect", given(images=3), r"means2d must have shape \[3, 300, 2\]"),
    ("intersect", given(images=-1), "images must be between 0 and"),
    ("intersect", given(tile_size=0), "tile_size must be between 1 and 32"),
    ("intersect", given(tile_size=33), "tile_size must be between 1 and 32"),
    ("intersect", given(tile_width=1 << 20, tile_height=1 << 20), "more than the 32 bits"),
    ("intersect", given(images=3, tile_width=(1 << 15) - 1, tile_height=1 << 15), r"more than 2\^31 - 1 tiles"),
    ("intersect", given(image_ids=torch.zeros(600, dtype=torch.int64)), "packed, because image_ids is given"),
    ("rasterize", replaced("colors", lambda t: t[..., :0]), "channels of colors must be between 1 and"),
    ("rasterize", replaced("colors", lambda t: t[0]), "colors must have 3 dimensions; found 2"),
    ("rasterize", replaced("backgrounds", lambda t: t[..., :2]), r"backgrounds must have shape \[2, 3\]"),
    ("rasterize", replaced("isect_offsets", lambda t: t[..., 1:]), r"isect_offsets must have shape \[2, 3, 5\]"),
    ("rasterize", replaced("flatten_ids", lambda t: t + 300), r"flatten_ids\[\d+\] is 6\d\d, but there are 600"),
    ("rasterize", replaced("flatten_ids", lambda t: t - 400), r"flatten_ids\[0\] is -\d+"),
    ("rasterize", replaced("flatten_ids", lambda t: t[:5]), "isect_offsets must ascend from 0 to the 5 entries"),
    ("rasterize", replaced("isect_offsets", lambda t: t.flip(-1)), "isect_offsets must ascend"),
    ("rasterize", replaced("isect_offsets", lambda t: t - 1), "isect_offsets must ascend"),
    ("rasterize", given(tile_size=64), "tile_size must be between 1 and 32"),
    ("rasterize", given(width=WIDTH + TILE), r"isect_offsets must have shape \[2, 3, 6\]"),
    ("rasterize", given(masks=torch.ones(2, 3, 4, dtype=torch.bool)), r"masks must have shape \[2, 3, 5\]"),
    ("rasterize", given(masks=torch.ones(2, 3, 5)), "masks must have dtype Bool; found Float"),
    ("rasterize_backward", replaced("alphas", lambda t: t[..., 0]), r"alphas must have shape \[2, 45, 70, 1\]"),
    ("rasterize_backward", replaced("last_ids", Tensor.long), "last_ids must have dtype Int"),
    ("rasterize_backward", replaced("v_colors", lambda t: t[..., :2]), r"v_colors must have shape \[2, 45, 70, 3\]"),
    ("rasterize_backward", replaced("v_alphas", Tensor.double), "v_alphas must have dtype Float"),
    ("rasterize_backward", replaced("flatten_ids", lambda t: t + 300), "but there are 600"),
    ("rasterize_backward", replaced("isect_offsets", lambda t: t - 1), "isect_offsets must ascend"),
]


@pytest.mark.parametrize(("name", "change", "message"), REFUSALS)
def test_wrong_arguments_are_refused(name: str, change: Callable[[Arguments], Arguments], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        outputs(name, change(EXAMPLES[name]()))


@pytest.mark.parametrize("image_id", [-1, 2, 1 << 40])
def test_image_ids_must_exist(image_id: int) -> None:
    lists = intersect_arguments()
    keep = torch.ones(2, 300, dtype=torch.bool)
    arguments = packed(lists, keep, "means2d", "radii", "depths", "conics", "opacities")
    image_ids = torch.zeros(600, dtype=torch.int64)
    image_ids[-1] = image_id
    with pytest.raises(RuntimeError, match=rf"image_ids\[599\] is {image_id}, but there are 2 images"):
        OPS.intersect(**arguments | {"image_ids": image_ids})


@pytest.mark.parametrize("last", [-(1 << 31), -1, (1 << 31) - 1])
def test_last_ids_are_not_believed(last: int) -> None:
    arguments = rasterize_backward_arguments()
    changed = arguments | {"last_ids": torch.full_like(arguments["last_ids"], last)}
    found = outputs("rasterize_backward", changed)
    if last < 0:
        assert not any(gradient.any() for gradient in found[:5])
    else:
        # The same as if each pixel went to the end of its own tile's list.
        ends = torch.cat([arguments["isect_offsets"].flatten()[1:], torch.tensor([len(arguments["flatten_ids"])])])
        per_pixel = ends.reshape(2, 3, 5).repeat_interleave(TILE, 1).repeat_interleave(TILE, 2) - 1
        exact = arguments | {"last_ids": per_pixel[:, :HEIGHT, :WIDTH].int()}
        assert_same(found, outputs("rasterize_backward", exact))


@pytest.mark.parametrize("name", EXAMPLES)
def test_any_values_are_survived(name: str) -> None:
    """Tensors of the right shape with any floats in them: no error, no crash."""
    generator = torch.Generator().manual_seed(3)
    special = torch.tensor([0.0, -0.0, torch.nan, torch.inf, -torch.inf, 1e38, -1e38, 1e-45, 1.0, -1.0])
    for _ in range(20):
        arguments = {
            key: special[torch.randint(len(special), value.shape, generator=generator)]
            if isinstance(value, Tensor) and value.is_floating_point()
            else value
            for key, value in EXAMPLES[name]().items()
        }
        if name == "intersect":
            low, high = -(1 << 31), (1 << 31) - 1
            shape = arguments["radii"].shape
            arguments["radii"] = torch.randint(low, high, shape, dtype=torch.int32, generator=generator)
        outputs(name, arguments)


@pytest.mark.parametrize("name", ["means", "colors", "viewmats"])
def test_a_forward_mode_tangent_is_refused(name: str) -> None:
    scene = random_scene(3)

    def render(tensor: Tensor) -> Tensor:
        return splat.rasterization(**scene.arguments | {name: tensor})[0].sum()

    tensor = scene.arguments[name]
    with pytest.raises(NotImplementedError, match=f"{name} has a forward-mode tangent"):
        torch.func.jvp(render, (tensor,), (torch.ones_like(tensor),))
    with pytest.raises(
        NotImplementedError, match=rf"{name} is being differentiated by torch\.func .*; use torch\.autograd\.grad"
    ):
        torch.func.grad(render)(tensor)


def test_a_forward_mode_tangent_is_refused_in_a_graph() -> None:
    scene = random_scene(3)

    def tangent(means: Tensor) -> Any:
        return torch.func.jvp(
            lambda means: splat.rasterization(**scene.arguments | {"means": means})[0],
            (means,), (torch.ones_like(means),),
        )  # fmt: skip

    found = "an argument of splat::project has a forward-mode tangent"
    with pytest.raises(torch._dynamo.exc.Unsupported, match=found):  # type: ignore[attr-defined]
        torch.compile(tangent, fullgraph=True, backend="eager")(scene.means)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_widens_what_a_network_gives(dtype: torch.dtype) -> None:
    scene = random_scene(3)
    narrow = {name: getattr(scene, name).to(dtype).requires_grad_() for name in ("colors", "opacities")}
    expected = splat.rasterization(**scene.arguments | {name: each.float() for name, each in narrow.items()})[0]

    with torch.autocast("cpu", dtype=torch.bfloat16):
        images = splat.rasterization(**scene.arguments | narrow)[0]
    images.sum().backward()

    assert torch.equal(images, expected)
    for each in narrow.values():
        assert each.grad is not None
        assert each.grad.dtype == dtype
        assert each.grad.any()


def test_every_function_of_floats_takes_autocast() -> None:
    """All but those that have none, change them in place, or write a file."""
    functions = {name: function for name in splat.__all__ if inspect.isfunction(function := getattr(splat, name))}
    without = {"adam", "build_info", "export_splats", "inject_noise_to_position", "isect_offset_encode"}

    def takes(function: Any) -> bool:
        return function.__code__ is in_float32(function).__code__ or (
            hasattr(function, "__wrapped__") and takes(function.__wrapped__)
        )

    assert {name for name, each in functions.items() if takes(each)} == set(functions) - without


def test_within_autocast_nothing_is_narrowed() -> None:
    """torch.matmul, by itself, would compute in bfloat16."""
    scene = random_scene(3)
    covars, _ = splat.quat_scale_to_covar_preci(scene.quats, scene.scales)
    expected = splat.world_to_cam(scene.means, covars, scene.viewmats)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = splat.world_to_cam(scene.means, covars, scene.viewmats)

    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_without_autocast_another_dtype_stays_an_error() -> None:
    scene = random_scene(3)

    with pytest.raises(TypeError, match=r"^colors must be float32, found torch\.bfloat16; pass colors\.to\("):
        splat.rasterization(**scene.arguments | {"colors": scene.colors.bfloat16()})


@pytest.mark.parametrize("default", [torch.float64, torch.device("meta")], ids=["dtype", "device"])
def test_what_torch_makes_by_default_does_not_matter(default: torch.dtype | torch.device) -> None:
    """As in a program that computes in float64, or on another device, beside splat."""
    found = []
    for way in (None, default):
        calls = public_calls()
        calls["ortho"] = splat.proj, calls["proj"][1] | {"camera_model": "ortho"}
        try:
            torch.set_default_dtype(way if isinstance(way, torch.dtype) else torch.float32)
            torch.set_default_device(way if isinstance(way, torch.device) else None)
            leaves = {name: tree_leaves([function(**given), given]) for name, (function, given) in calls.items()}
        finally:
            torch.set_default_dtype(torch.float32)
            torch.set_default_device(None)
        found.append({name: [each for each in of if isinstance(each, Tensor)] for name, of in leaves.items()})
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0, equal_nan=True)


THREADS = """
import sys, threading, warnings
import torch, splat
warnings.simplefilter("error")
sys.setswitchinterval(1e-6)
start, failures = threading.Barrier(8), []
def call():
    start.wait()
    try:
        splat.spherical_harmonics(0, torch.ones(5, 3), torch.ones(5, 1, 3))
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=call) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
"""


def test_first_calls_of_several_threads_register_once(run_with_torch: RunPython) -> None:
    run_with_torch(THREADS)
