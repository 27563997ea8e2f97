"""The gradients of the operator `rasterize`, on the CPU: against autograd of the float64 reference, the same for any
number of threads and any instruction set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from operator_arguments import OPS, PARAMETERS, Arguments, gaussians, random_v
from rasterize_reference import Case, assert_near, by_reference, tiles
from torch import Tensor, library

from splat import _kernels
from splat.ops.rasterize_gradient import rasterize_with_absgrad

_kernels.require(torch.device("cpu"))

KINDS = ("any", "edges", "clamped", "saturated", "thin", "huge", "beside")


def backward(arguments: Arguments, v_colors: Tensor, v_alphas: Tensor, absgrad: bool = False) -> tuple[Tensor, ...]:
    """The outputs of rasterize_backward after rasterize."""
    _, alphas, last_ids = OPS.rasterize(**arguments)
    found: tuple[Tensor, ...] = OPS.rasterize_backward(
        **arguments, alphas=alphas, last_ids=last_ids, v_colors=v_colors, v_alphas=v_alphas, absgrad=absgrad
    )
    return found


def check(arguments: Arguments, seed: int = 0) -> Case:
    """Compare images and gradients with the reference."""
    case = by_reference(arguments, seed)
    colors, alphas, _ = OPS.rasterize(**arguments)
    for found, expected in ((colors, case.colors), (alphas, case.alphas)):
        assert ((found - expected).abs()[case.compared] <= 1e-4).all()
    means2d, means2d_abs, *others = backward(arguments, case.v_colors, case.v_alphas, absgrad=True)
    if arguments["backgrounds"] is None:
        assert others.pop().shape == (0,)
        others.append(case.gradients.backgrounds)
    for (name, expected), (_, absolute), found in zip(
        case.gradients.items(), case.absolute.items(), (means2d, *others), strict=True
    ):
        assert_near(found, expected, absolute, name)
    assert_near(means2d_abs, case.absolute.means2d, case.absolute.means2d, "absgrad")
    assert (means2d_abs * (1 + 1e-4) >= means2d.abs()).all()
    return case


# Against the reference


def test_random_gaussians_agree_with_the_reference() -> None:
    pixels = compared = 0

    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.integers(0, 2**32 - 1),
        kind=st.sampled_from(KINDS),
        images=st.integers(1, 3),
        count=st.integers(0, 30),
        width=st.one_of(st.just(1), st.integers(1, 40)),
        height=st.one_of(st.just(1), st.integers(1, 40)),
        channels=st.sampled_from([1, 3, 4, 5, 32, 40]),
        tile_size=st.sampled_from([16, 16, 8, 20, 32]),
        packed=st.booleans(),
        has_background=st.booleans(),
        has_masks=st.booleans(),
        max_alpha=st.sampled_from([0.999, 0.99, 0.6]),
    )
    def run(**drawn: Any) -> None:
        nonlocal pixels, compared
        case = check(gaussians(**drawn))
        pixels += case.compared.numel()
        compared += int(case.compared.sum())

    run()
    assert compared > 0.95 * pixels > 1000


@pytest.mark.parametrize(
    ("kind", "channels"), [*((kind, 3) for kind in KINDS), *(("any", channels) for channels in (1, 4, 5, 32, 40))]
)
def test_every_kind_and_number_of_channels(kind: str, channels: int) -> None:
    case = check(gaussians(3, kind, channels=channels, images=2))
    assert case.compared.double().mean() > 0.95
    if kind == "saturated":
        assert (case.alphas > 0.999).any()


def test_thousands_of_gaussians_in_one_tile() -> None:
    arguments = gaussians(4, count=3000, width=16, height=16)
    arguments["opacities"] *= 0.03
    _, flatten_ids, offsets = OPS.intersect(
        arguments["means2d"],
        torch.full((1, 3000, 2), 1000, dtype=torch.int32),
        torch.rand(1, 3000, generator=torch.Generator().manual_seed(1)),
        arguments["conics"],
        arguments["opacities"],
        None,
        1,
        16,
        1,
        1,
    )
    assert len(flatten_ids) > 2000
    check(arguments | {"flatten_ids": flatten_ids, "isect_offsets": offsets})


# Through autograd


def torch_gradients(arguments: Arguments, v_colors: Tensor, v_alphas: Tensor) -> tuple[Tensor, ...]:
    """What `backward` leaves for the parameters that there are."""
    leaves = {name: arguments[name].clone().requires_grad_() for name in PARAMETERS if arguments[name] is not None}
    colors, alphas, last_ids = OPS.rasterize(**arguments | leaves)
    assert not last_ids.requires_grad
    return torch.autograd.grad((colors, alphas), list(leaves.values()), (v_colors, v_alphas))


@pytest.mark.parametrize("has_background", [False, True])
def test_autograd_calls_the_operator(has_background: bool) -> None:
    arguments = gaussians(1, images=2, has_background=has_background, has_masks=True)
    means2d, _, *others = backward(arguments, *random_v(arguments))
    found = torch_gradients(arguments, *random_v(arguments))
    for one, other in zip(found, [means2d, *others][: 4 + has_background], strict=True):
        assert torch.equal(one, other)


def test_gradients_of_a_sum_arrive_expanded() -> None:
    arguments = gaussians(1)
    leaf = arguments["means2d"].clone().requires_grad_()
    colors, _, _ = OPS.rasterize(**arguments | {"means2d": leaf})
    colors.sum().backward()
    zeros = torch.zeros_like(colors[..., :1])
    assert torch.equal(leaf.grad, backward(arguments, torch.ones_like(colors), zeros)[0])


def test_torch_finds_the_operators_well_made() -> None:
    """Packed, with masks and without a background; those of test_ops.py have it otherwise."""
    arguments = gaussians(1, images=2, packed=True, has_masks=True, has_background=False)
    leaves = {name: arguments[name].clone().requires_grad_() for name in PARAMETERS if arguments[name] is not None}
    library.opcheck(OPS.rasterize.default, (), arguments | leaves)
    _, alphas, last_ids = OPS.rasterize(**arguments)
    v_colors, v_alphas = random_v(arguments)
    rest = {"alphas": alphas, "last_ids": last_ids, "v_colors": v_colors, "v_alphas": v_alphas, "absgrad": False}
    library.opcheck(OPS.rasterize_backward.default, (), arguments | rest)


# absgrad


def rendered_loss(means2d: Tensor, arguments: Arguments, absgrad: bool) -> Tensor:
    inputs = arguments | {"means2d": means2d}
    colors, alphas, _ = rasterize_with_absgrad(means2d, *inputs.values()) if absgrad else OPS.rasterize(**inputs)
    loss: Tensor = colors.square().sum() + alphas.sum()
    return loss


@pytest.mark.parametrize("is_leaf", [True, False])
def test_absgrad_is_an_attribute_of_means2d(is_leaf: bool) -> None:
    arguments = gaussians(2, images=2)
    leaf = arguments["means2d"].clone().requires_grad_()
    means2d = leaf if is_leaf else leaf * 1.0
    means2d.retain_grad()
    rendered_loss(means2d, arguments, absgrad=True).backward()
    without = arguments["means2d"].clone().requires_grad_()
    rendered_loss(without, arguments, absgrad=False).backward()
    assert torch.equal(leaf.grad, without.grad)
    assert not hasattr(without, "absgrad")
    colors, _, _ = OPS.rasterize(**arguments)
    expected = backward(arguments, 2 * colors, torch.ones_like(colors[..., :1]), absgrad=True)[1]
    assert torch.equal(means2d.absgrad, expected)


def test_rendering_compiles_with_its_gradients_into_one_graph() -> None:
    arguments = gaussians(2)
    results = []
    compiled = torch.compile(rendered_loss, fullgraph=True, backend="aot_eager")
    for function in (rendered_loss, compiled):
        leaf = arguments["means2d"].clone().requires_grad_()
        function(leaf, arguments, False).backward()
        results.append(leaf.grad)
    assert torch.equal(*results)


def test_absgrad_leaves_a_compiled_graph_and_says_so() -> None:
    arguments = gaussians(2)
    expected, found = (arguments["means2d"].clone().requires_grad_() for _ in range(2))
    rendered_loss(expected, arguments, absgrad=True).backward()
    torch.compile(rendered_loss, backend="aot_eager")(found, arguments, True).backward()
    assert torch.equal(found.grad, expected.grad)
    assert torch.equal(found.absgrad, expected.absgrad)
    torch.compiler.reset()
    with pytest.raises(RuntimeError, match="absgrad=True sets an attribute"):
        torch.compile(rendered_loss, fullgraph=True, backend="aot_eager")(found, arguments, True)


# Masks


@pytest.mark.parametrize("tile_size", [8, 16, 20])
def test_a_masked_tile_is_background_and_has_no_gradients(tile_size: int) -> None:
    arguments = gaussians(5, images=2, tile_size=tile_size, has_masks=True)
    everywhere = OPS.rasterize(**arguments | {"masks": None})
    found = OPS.rasterize(**arguments)
    v_colors, v_alphas = random_v(arguments)
    shown = torch.zeros(found[2].shape, dtype=torch.bool)
    for image, rows, columns, _, rendered in tiles(arguments):
        shown[image, rows, columns] = rendered
    assert 0 < shown.sum() < shown.numel()
    empty = (arguments["backgrounds"][:, None, None], torch.zeros(1), torch.zeros(1, dtype=torch.int32))
    for one, other, nothing in zip(found, everywhere, empty, strict=True):
        mask = shown if one.dim() == 3 else shown[..., None]
        assert torch.equal(one, torch.where(mask, other, nothing))
    seen = (v_colors * shown[..., None], v_alphas * shown[..., None])
    *gradients, v_backgrounds = backward(arguments, v_colors, v_alphas, absgrad=True)
    *expected, _ = backward(arguments | {"masks": None}, *seen, absgrad=True)
    for one, other in zip(gradients, expected, strict=True):
        assert torch.equal(one, other)
    left = 1 - found[1]
    torch.testing.assert_close(v_backgrounds, (left * v_colors).sum((1, 2)), rtol=1e-4, atol=1e-4)


# The same bits, and nothing but what belongs to a Gaussian


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


BUSY: Arguments = {"images": 3, "count": 300, "width": 101, "height": 77}


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 40])
@pytest.mark.parametrize("tile_size", [16, 20])
def test_threads_do_not_matter(channels: int, tile_size: int, threads: Callable[[int], None]) -> None:
    arguments = gaussians(6, channels=channels, tile_size=tile_size, **BUSY)
    threads(1)
    expected = backward(arguments, *random_v(arguments), absgrad=True)
    for count in (2, 3, 7):
        threads(count)
        found = backward(arguments, *random_v(arguments), absgrad=True)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_many_gaussians_are_summed_by_many_threads(threads: Callable[[int], None]) -> None:
    arguments = gaussians(6, count=20000, width=50, height=50)
    threads(1)
    expected = backward(arguments, *random_v(arguments))
    threads(4)
    found = backward(arguments, *random_v(arguments))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 40])
@pytest.mark.parametrize("absgrad", [False, True])
def test_instruction_sets_do_not_matter(channels: int, absgrad: bool, instruction_set: Callable[[str], str]) -> None:
    """But for rounding, where there are no fused operations."""
    arguments = gaussians(6, "thin", channels=channels, **BUSY)
    found = {}
    for name in ("baseline", "avx2", "avx512"):
        try:
            instruction_set(name)
        except RuntimeError as error:
            pytest.skip(str(error))
        found[name] = backward(arguments, *random_v(arguments), absgrad=absgrad)
    assert all(torch.equal(one, other) for one, other in zip(found["avx512"], found["avx2"], strict=True))
    for one, other in zip(found["baseline"], found["avx2"], strict=True):
        largest = float(other.abs().max()) if other.numel() else 0.0
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * largest)


@pytest.mark.parametrize("name", ["baseline", "avx2", "avx512"])
def test_a_gradient_that_is_not_a_number_reaches_only_what_its_pixel_shows(
    name: str, instruction_set: Callable[[str], str]
) -> None:
    try:
        instruction_set(name)
    except RuntimeError as error:
        pytest.skip(str(error))
    arguments = gaussians(6, count=40)
    v_colors, v_alphas = random_v(arguments)
    clean = backward(arguments, v_colors, v_alphas, absgrad=True)
    only = torch.zeros_like(v_colors)
    only[0, 11, 20] = 1
    shown = (backward(arguments, only, torch.zeros_like(v_alphas))[2] != 0).any(-1)
    assert 0 < shown.sum() < shown.numel() / 2
    v_colors[0, 11, 20] = torch.nan
    for found, expected in zip(backward(arguments, v_colors, v_alphas, absgrad=True)[:5], clean[:5], strict=True):
        assert torch.equal(found[~shown], expected[~shown])
        assert found[shown].isnan().reshape(int(shown.sum()), -1).any(1).all()


def test_what_nobody_sees_has_no_gradient() -> None:
    arguments = gaussians(6, count=40)
    arguments["conics"][0, 3] = torch.inf
    arguments["opacities"][0, 4] = 0.0
    arguments["means2d"][0, 5] = torch.nan
    for found in backward(arguments, *random_v(arguments), absgrad=True)[:5]:
        assert not found[0, 3:6].any()
        assert torch.isfinite(found).all()
