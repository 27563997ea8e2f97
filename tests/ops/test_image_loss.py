"""`fused_ssim`, and the operator that it and the loss of `fit` are: against the float64 reference, bit by bit the same
for any number of threads, any width of vectors and the PTX of the CUDA library, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import reference_ssim as reference
import torch
from operator_arguments import OPS, Arguments, image_loss_and_gradient, image_loss_arguments
from parts import require_all_parts, select_instruction_set
from torch import Tensor, library

import splat

require_all_parts()

# Smaller than the window and than a register, as a tile and a strip, and just beyond; channels beside each other.
SHAPES = [(1, 1, 1, 1), (2, 12, 11, 1), (1, 32, 32, 2), (1, 33, 65, 3), (2, 75, 41, 3)]


def assert_same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


# Values and gradients


@pytest.mark.parametrize("margin", [0, 5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_loss_and_gradient_are_those_of_the_reference(shape: tuple[int, ...], masked: bool, margin: int) -> None:
    if 2 * margin >= min(shape[1:3]):
        margin = 0
    arguments = image_loss_arguments(shape, masked, margin)
    value, _, gradient = image_loss_and_gradient(OPS, arguments)
    image = arguments["image"].double().requires_grad_()
    expected = reference.image_loss(
        image, arguments["target"].double(), arguments["mask"], *list(arguments.values())[3:6]
    )
    (1.7 * expected).backward()
    assert image.grad is not None
    assert (value - expected).abs() <= 2e-6
    assert (gradient - image.grad).abs().max() <= 2e-5 * image.grad.abs().max() + 1e-7
    if masked:
        assert not gradient[~arguments["mask"]].any()


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_fused_ssim_is_the_mean_of_the_map(padding: Any, interleaved: bool) -> None:
    """That of the package fused-ssim, and its crop."""
    shape = (2, 30, 41, 3) if interleaved else (2, 3, 30, 41)
    img1, img2 = (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    if interleaved:
        img1, img2 = img1.permute(0, 3, 1, 2), img2.permute(0, 3, 1, 2)
    img1.requires_grad_()
    value = splat.fused_ssim(img1, img2, padding)
    (gradient,) = torch.autograd.grad(value, img1)

    exact = img1.detach().double().requires_grad_()
    similarity = reference.similarity_map(exact, img2.double())
    expected = (similarity[:, :, 5:-5, 5:-5] if padding == "valid" else similarity).mean()
    (v,) = torch.autograd.grad(expected, exact)
    assert value.shape == ()
    assert (value - expected).abs() <= 1e-6
    assert (gradient - v).abs().max() <= 2e-5 * v.abs().max()
    assert splat.fused_ssim(img1, img1.detach(), padding).item() == pytest.approx(1, abs=1e-6)


def test_both_layouts_of_memory_have_the_same_similarity() -> None:
    img1, img2 = (torch.rand(2, 3, 30, 41, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    interleaved = img1.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(splat.fused_ssim(interleaved, img2), splat.fused_ssim(img1, img2), rtol=1e-6, atol=0)


def test_without_training_there_is_no_gradient_and_nothing_is_kept() -> None:
    img1, img2 = torch.rand(1, 3, 20, 20, requires_grad=True), torch.rand(1, 3, 20, 20)
    value = splat.fused_ssim(img1, img2, train=False)
    assert not value.requires_grad
    assert torch.equal(value, splat.fused_ssim(img1, img2))
    arguments = image_loss_arguments((1, 20, 20, 3))
    assert OPS.image_loss(**arguments | {"gradient": False})[2].shape == (0,)


def test_autocast_widens_what_a_network_gives() -> None:
    img1, img2 = torch.rand(1, 3, 20, 20).bfloat16().requires_grad_(), torch.rand(1, 3, 20, 20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = splat.fused_ssim(img1, img2)
    assert torch.equal(value, splat.fused_ssim(img1.float(), img2))


def test_what_is_not_finite_shows() -> None:
    img1, img2 = torch.rand(1, 3, 20, 20), torch.rand(1, 3, 20, 20)
    img1[0, 1, 5, 5] = torch.nan
    assert splat.fused_ssim(img1, img2).isnan()


def test_what_a_mask_hides_may_be_anything() -> None:
    arguments = image_loss_arguments((1, 33, 65, 3), masked=True)
    expected = image_loss_and_gradient(OPS, arguments)
    hidden = arguments["image"].masked_fill(~arguments["mask"][..., None], torch.nan)
    assert_same(image_loss_and_gradient(OPS, arguments | {"image": hidden}), expected)


# The same bits


@pytest.fixture
def instruction_set() -> Iterator[Callable[[str], str]]:
    before = select_instruction_set("")
    yield select_instruction_set
    select_instruction_set(before)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_vectors_of_any_width_give_the_same_bits(
    shape: tuple[int, ...], masked: bool, instruction_set: Callable[[str], str]
) -> None:
    arguments = image_loss_arguments(shape, masked)
    found = {}
    for name in ("baseline", "avx2", "avx512"):
        try:
            instruction_set(name)
        except RuntimeError:
            continue
        found[name] = image_loss_and_gradient(OPS, arguments)
    if "avx512" in found:
        assert_same(found["avx512"], found["avx2"])
    for one, other in zip(found["baseline"], found.get("avx2", found["baseline"]), strict=True):  # which is not fused
        assert (one - other).abs().max() <= 2e-5 * other.abs().max() + 1e-7


@pytest.mark.parametrize(
    ("shape", "masked"), [(SHAPES[0], False), (SHAPES[1], False), (SHAPES[3], True), (SHAPES[4], False)]
)
def test_the_cuda_library_gives_the_bits_of_the_cpu(simt_ptx: ModuleType, shape: tuple[int, ...], masked: bool) -> None:
    if OPS.instruction_set("") == "baseline" and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("this CPU has no fused operations")
    executed = getattr(torch.ops, simt_ptx.__name__)
    arguments = image_loss_arguments(shape, masked, margin=5 if shape[1] > 30 else 0)
    expected = image_loss_and_gradient(OPS, arguments)
    for seed in (0, 7):  # orders of blocks and threads
        simt_ptx.set_seed(seed)
        assert_same(image_loss_and_gradient(executed, arguments), expected)
    simt_ptx.set_seed(0)
    without = executed.image_loss(**arguments | {"gradient": False})
    assert torch.equal(without[0], expected[0])


# torch


def test_torch_finds_the_operator_and_its_gradient_well_made() -> None:
    arguments = image_loss_arguments((1, 20, 17, 3), masked=True)
    arguments["image"].requires_grad_()
    library.opcheck(OPS.image_loss.default, (), arguments)
    library.opcheck(OPS.image_loss.default, (), arguments | {"gradient": False, "image": arguments["target"]})


def test_it_compiles_into_one_graph() -> None:
    img1, img2 = torch.rand(1, 3, 20, 30, requires_grad=True), torch.rand(1, 3, 20, 30)
    compiled = torch.compile(splat.fused_ssim, fullgraph=True, backend="aot_eager")
    found, expected = (function(img1, img2, "valid") for function in (compiled, splat.fused_ssim))
    assert torch.equal(found, expected)
    assert torch.equal(*(torch.autograd.grad(value, img1)[0] for value in (found, expected)))


# What is refused


IMAGES = torch.rand(1, 3, 20, 20)
REFUSED: list[tuple[Arguments, type[Exception], str]] = [
    ({"padding": "reflect"}, ValueError, "padding must be one of 'same', 'valid', found 'reflect'"),
    ({"img1": IMAGES.double()}, TypeError, r"img1 must be float32, found torch.float64; pass img1.to\(torch.float32\)"),
    ({"img2": IMAGES.byte()}, TypeError, "img2 must be float32, found torch.uint8"),
    ({"img2": [1.0]}, TypeError, "img2 must be a float32 torch.Tensor, found list"),
    ({"img2": IMAGES.to("meta")}, ValueError, "img2 must have values, found a tensor on the device meta"),
    ({"img1": IMAGES[0]}, ValueError, r"img1 must have shape \[B, C, H, W\] .* found \[3, 20, 20\]"),
    ({"img1": IMAGES[:0]}, ValueError, r"with at least one value, found \[0, 3, 20, 20\]"),
    ({"img2": IMAGES[:, :1]}, ValueError, r"img2 must have shape \[B, C, H, W\] = \[1, 3, 20, 20\], found \[1, 1, 20"),
    (
        {"img1": IMAGES[..., :10], "img2": IMAGES[..., :10], "padding": "valid"},
        ValueError,
        "11 to .* pixels a side with padding='valid', found 20 x 10",
    ),
    ({"img2": IMAGES.clone().requires_grad_()}, ValueError, r"img2 must not require a gradient.*img2.detach\(\)"),
]


@pytest.mark.parametrize(("changes", "error", "message"), REFUSED)
def test_what_it_cannot_compare_is_refused(changes: Arguments, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        splat.fused_ssim(**{"img1": IMAGES, "img2": IMAGES} | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": torch.rand(1, 20, 21, 3)}, "target must have shape"),
        ({"target": torch.rand(1, 20, 20, 3).double()}, "target must have dtype Float"),
        ({"mask": torch.ones(1, 20, 20)}, "mask must have dtype Bool"),
        ({"mask": torch.ones(1, 20, 20, 3).bool()}, "mask must have shape"),
        ({"image": torch.rand(20, 20, 3)}, "image must have 4 dimensions"),
        ({"image": torch.rand(1, 0, 20, 3)}, "the height of image must be between 1 and"),
        ({"margin": -1}, "margin must be between 0 and"),
    ],
)
def test_the_operator_checks_its_arguments(changes: Arguments, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        OPS.image_loss(**image_loss_arguments((1, 20, 20, 3)) | changes)


def test_a_gradient_needs_what_the_forward_pass_keeps() -> None:
    arguments = image_loss_arguments((1, 20, 20, 3)) | {"gradient": False}
    with pytest.raises(RuntimeError, match="partials must have shape"):
        image_loss_and_gradient(OPS, arguments)
