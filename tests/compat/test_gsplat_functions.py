"""The functions beside the renderer that programs for gsplat 1.5.3 call: camera space, lists of pixels, Adam, MCMC."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scenes import random_scene
from torch import Tensor

import splat
from splat.ops.camera_models import CAMERA_MODELS

gsplat = pytest.importorskip("gsplat", reason="gsplat is compared with; ci/test installs it")
from gsplat.cuda import _torch_impl as theirs  # noqa: E402

WIDTH, HEIGHT, TILE = 50, 37, 16


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


# Camera space


def in_the_world(batch: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Centres in front of three cameras, covariances, poses and intrinsics."""
    shape = (*batch, 40)
    means = torch.randn(*shape, 3, generator=generator())
    factors = torch.randn(*shape, 3, 3, generator=generator()) * 0.2
    viewmats = torch.eye(4) + 0.1 * torch.randn(*batch, 3, 4, 4, generator=generator())
    viewmats[..., 2, 3] += 5
    Ks = torch.tensor([[60.0, 0.0, 25.0], [0.0, 55.0, 18.0], [0.0, 0.0, 1.0]]).repeat(*batch, 3, 1, 1)
    return means, factors @ factors.mT, viewmats, Ks


@pytest.mark.parametrize("batch", [(), (2,), (1, 2)])
def test_world_to_cam_is_that_of_gsplat(batch: tuple[int, ...]) -> None:
    *tensors, _ = in_the_world(batch)
    leaves = [tensor.requires_grad_() for tensor in tensors]
    found, expected = splat.world_to_cam(*leaves), theirs._world_to_cam(*leaves)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad((a.sin().sum() + b.sin().sum()), leaves) for a, b in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("camera_model", ["pinhole", "ortho", "fisheye"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_proj_is_that_of_gsplat(batch: tuple[int, ...], camera_model: str) -> None:
    means, covars, viewmats, Ks = in_the_world(batch)
    leaves = [tensor.detach().requires_grad_() for tensor in splat.world_to_cam(means, covars, viewmats)]
    definition = {"pinhole": theirs._persp_proj, "ortho": theirs._ortho_proj, "fisheye": theirs._fisheye_proj}
    found = splat.proj(*leaves, Ks, WIDTH, HEIGHT, camera_model)
    expected = definition[camera_model](*leaves, Ks, WIDTH, HEIGHT)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-4)
    weights = [torch.rand(one.shape, generator=generator()) for one in found]
    gradients = [
        torch.autograd.grad(sum((a * w).sum() for a, w in zip(each, weights, strict=True)), leaves)
        for each in (found, expected)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


@pytest.mark.parametrize("camera_model", CAMERA_MODELS)
def test_the_steps_together_are_the_fused_projection(camera_model: str) -> None:
    means, covars, viewmats, Ks = in_the_world(())
    triangles = covars[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    radii, means2d, depths, conics, _ = splat.fully_fused_projection(
        means, triangles, None, None, viewmats, Ks, WIDTH, HEIGHT, camera_model=camera_model
    )
    centres, in_camera = splat.world_to_cam(means, covars, viewmats)
    found, covars2d = splat.proj(centres, in_camera, Ks, WIDTH, HEIGHT, camera_model)
    seen = (radii > 0).all(-1)
    assert seen.sum() > 20
    inverse = torch.linalg.inv(covars2d + 0.3 * torch.eye(2))[..., [0, 0, 1], [0, 1, 1]]
    for one, other in ((found, means2d), (centres[..., 2], depths), (inverse, conics)):
        torch.testing.assert_close(one[seen], other[seen], rtol=1e-3, atol=1e-4)


def test_a_fisheye_camera_keeps_its_digits_on_its_axis() -> None:
    means = torch.tensor([[[0.0, 0.0, 2.0], [1e-6, 0.0, 2.0], [0.0, -1e-3, 2.0]]]).requires_grad_()
    covars, Ks = torch.eye(3).expand(1, 3, 3, 3), torch.tensor([[[40.0, 0, 25], [0, 40.0, 18], [0, 0, 1.0]]])
    means2d, covars2d = splat.proj(means, covars, Ks, WIDTH, HEIGHT, "fisheye")
    # Near the axis it is a pinhole camera: 40 / 2 pixels per unit.
    torch.testing.assert_close(means2d[0], torch.tensor([[25.0, 18.0], [25 + 2e-5, 18.0], [25.0, 18 - 0.02]]))
    torch.testing.assert_close(covars2d[0], 400 * torch.eye(2).expand(3, 2, 2), rtol=1e-4, atol=1e-2)
    (gradient,) = torch.autograd.grad(means2d[..., 0].sum() + covars2d.sum(), means)
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient[0, :, 0], torch.full((3,), 20.0), rtol=1e-2, atol=0.5)


# Lists of pixels


def listed(seed: int = 4) -> dict[str, Any]:
    """What the two cameras of a scene see, with the tiles' lists, as arguments of `rasterize_to_pixels`."""
    scene = random_scene(seed, 80, WIDTH, HEIGHT, size="mixed", opacity="solid", views=("front", "inside"))
    *_, meta = splat.rasterization(**scene.arguments, packed=False)
    names = ("means2d", "conics", "opacities", "isect_offsets", "flatten_ids")
    return {
        "colors": scene.colors.expand(2, -1, -1),
        "image_width": WIDTH, "image_height": HEIGHT, "tile_size": TILE,
        **{name: meta[name] for name in names},
    }  # fmt: skip


def lists_in(arguments: dict[str, Any], start: int, end: int, left: Tensor | None = None) -> tuple[Tensor, ...]:
    rest = {name: value for name, value in arguments.items() if name != "colors"}
    left = torch.ones(2, HEIGHT, WIDTH) if left is None else left
    return splat.rasterize_to_indices_in_range(start, end, left, **rest)


def blended(arguments: dict[str, Any], ids: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    names = ("means2d", "conics", "opacities", "colors")
    return splat.accumulate(*(arguments[name] for name in names), *ids, WIDTH, HEIGHT)


def test_the_lists_accumulated_are_the_picture_and_its_gradients() -> None:
    arguments = listed()
    leaves = {name: arguments[name].detach().clone().requires_grad_() for name in ("means2d", "conics", "opacities")}
    leaves["colors"] = arguments["colors"].clone().requires_grad_()
    arguments |= leaves
    expected = splat.rasterize_to_pixels(**arguments)
    ids = lists_in(arguments, 0, 10**10)
    found = blended(arguments, ids)
    assert len(ids[0]) > 2000
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    weights = [torch.rand(one.shape, generator=generator()) for one in found]
    gradients = [
        torch.autograd.grad(sum((a * w).sum() for a, w in zip(each, weights, strict=True)), list(leaves.values()))
        for each in (found, expected)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


def test_lists_are_ordered_by_image_pixel_and_depth() -> None:
    arguments = listed()
    gaussian_ids, pixel_ids, image_ids = lists_in(arguments, 0, 1000)
    assert {ids.dtype for ids in (gaussian_ids, pixel_ids, image_ids)} == {torch.int64}
    rays = image_ids * WIDTH * HEIGHT + pixel_ids
    assert (rays.diff() >= 0).all()
    assert set(image_ids.tolist()) == {0, 1}
    # Within a pixel, the order is that of its tile's list.
    tile = pixel_ids // WIDTH // TILE * 4 + pixel_ids % WIDTH // TILE + 12 * image_ids
    offsets, flat = arguments["isect_offsets"].flatten().tolist(), arguments["flatten_ids"].tolist()
    places = {}
    for number, first in enumerate(offsets):
        last = (*offsets, len(flat))[number + 1]
        places |= {(number, flat[place]): place for place in range(first, last)}
    found = [places[pair] for pair in zip(tile.tolist(), (image_ids * 80 + gaussian_ids).tolist(), strict=True)]
    order = torch.tensor(found)
    assert (order.diff()[rays.diff() == 0] > 0).all()


def test_batches_one_after_the_other_are_the_whole() -> None:
    arguments = {**listed(), "tile_size": 4}  # 16 Gaussians to a batch
    columns, rows = -(-WIDTH // 4), -(-HEIGHT // 4)
    s = random_scene(4, 80, WIDTH, HEIGHT, size="mixed", opacity="solid", views=("front", "inside"))
    *_, meta = splat.rasterization(**s.arguments, packed=False, tile_size=4)
    arguments |= {"isect_offsets": meta["isect_offsets"], "flatten_ids": meta["flatten_ids"]}
    assert meta["isect_offsets"].shape == (2, rows, columns)
    whole, whole_alphas = blended(arguments, lists_in(arguments, 0, 100))
    picture, alphas = torch.zeros(2, HEIGHT, WIDTH, 3), torch.zeros(2, HEIGHT, WIDTH, 1)
    parts = 0
    for step in range(100):
        ids = lists_in(arguments, step, step + 1, 1 - alphas[..., 0])
        if not len(ids[0]):
            break
        colors, more = blended(arguments, ids)
        picture, alphas = picture + colors * (1 - alphas), alphas + more * (1 - alphas)
        parts += 1
    assert parts > 2
    # A pixel that ends in one batch goes on in the next, as in gsplat, with the transmittance that it has left.
    difference = (picture - whole).abs()
    assert (difference <= 1 - whole_alphas + 1e-5).all()
    assert (difference > 1e-5).float().mean() < 0.05


def test_no_lists_and_finished_pixels_are_empty() -> None:
    arguments = listed()
    empty = torch.zeros(2, HEIGHT, WIDTH)
    for ids in (lists_in(arguments, 0, 0), lists_in(arguments, 10**9, 10**10), lists_in(arguments, 0, 9, empty)):
        assert [len(each) for each in ids] == [0, 0, 0]
    colors, alphas = blended(arguments, ids)
    assert colors.shape == (2, HEIGHT, WIDTH, 3)
    assert not colors.any()
    assert not alphas.any()


def test_accumulate_takes_pairs_in_any_order_of_pixels() -> None:
    arguments = listed()
    ids = lists_in(arguments, 0, 9)
    backwards = (ids[2] * WIDTH * HEIGHT + ids[1]).neg().sort(stable=True).indices
    for one, other in zip(
        blended(arguments, ids), blended(arguments, tuple(each[backwards] for each in ids)), strict=True
    ):
        torch.testing.assert_close(one, other)


# Adam


@pytest.mark.parametrize("shape", [(30,), (30, 3), (30, 4, 3)])
def test_adam_steps_what_is_valid_and_leaves_the_rest(shape: tuple[int, ...]) -> None:
    start = [torch.randn(shape, generator=generator()) for _ in range(4)]
    start[3] = start[3].square()
    valid = torch.rand(30, generator=generator()) > 0.4
    lr, b1, b2, eps = 0.1, 0.9, 0.99, 1e-8
    param, gradient, average, average_sq = (each.clone() for each in start)
    like_opacities = valid[:, None] if len(shape) == 3 else valid  # which programs have as [N, 1], too
    splat.adam(param, gradient, average, average_sq, like_opacities, lr, b1, b2, eps)
    p, g, m, v = (each.double() for each in start)
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    p = p - lr * m / (v.sqrt() + eps)
    for found, exact, before in zip((param, average, average_sq), (p, m, v), (start[0], *start[2:]), strict=True):
        torch.testing.assert_close(found[valid], exact[valid].float())
        assert torch.equal(found[~valid], before[~valid])
    assert torch.equal(gradient, start[1])

    whole = [each.clone() for each in start]
    splat.adam(*whole, None, lr, b1, b2, eps)
    torch.testing.assert_close(whole[0], p.float())
    assert torch.equal(whole[0][valid], param[valid])


def test_selective_adam_is_gsplat_s_optimizer() -> None:
    values = {"means": torch.randn(20, 3, generator=generator()), "opacities": torch.randn(20, generator=generator())}
    params = [torch.nn.Parameter(value.clone()) for value in values.values()]
    optimizer = splat.SelectiveAdam([{"params": [each], "lr": 0.01} for each in params], eps=1e-15, betas=(0.9, 0.999))
    assert isinstance(optimizer, torch.optim.Adam)
    visible = torch.arange(20) < 12
    for _ in range(3):
        optimizer.zero_grad()
        sum(each.square().sum() for each in params).backward()  # type: ignore[union-attr]
        optimizer.step(visible)
    for each, start in zip(params, values.values(), strict=True):
        assert torch.equal(each[12:], start[12:])
        assert (each[:12].abs() < start[:12].abs()).all()
        assert set(optimizer.state[each]) == {"step", "exp_avg", "exp_avg_sq"}
    params[0].grad = None
    before = params[0].detach().clone()
    optimizer.step(visible)
    assert torch.equal(params[0], before)
    two = splat.SelectiveAdam(params, eps=1e-15, betas=(0.9, 0.999))
    with pytest.raises(ValueError, match="each group must have one tensor, found one with 2"):
        two.step(visible)


# MCMC


def binomials(n_max: int = 51) -> Tensor:
    return torch.tensor([[float(math.comb(n, k)) for k in range(n_max)] for n in range(n_max)])


def relocated_exactly(opacity: float, copies: int) -> tuple[float, float]:
    """The new opacity, and the scales' factor: equation 9, with sums of exact products."""
    new = 1 - (1 - opacity) ** (1 / copies)
    terms = [
        math.comb(i - 1, k) * (-1) ** k / math.sqrt(k + 1) * new ** (k + 1)
        for i in range(1, copies + 1)
        for k in range(i)
    ]
    return new, opacity / math.fsum(terms)


@pytest.mark.parametrize("columns", [(), (1,)])
def test_relocation_is_equation_9(columns: tuple[int, ...]) -> None:
    opacities = torch.tensor([0.01, 0.2, 0.5, 0.9, 0.99, 0.999, 0.7, 0.3, 0.6])
    ratios = torch.tensor([1, 2, 3, 10, 51, 30, 400, 0, -3])
    scales = torch.rand(9, 3, generator=generator()) + 0.1
    before = ratios.clone()
    new_opacities, new_scales = splat.compute_relocation(opacities.reshape(9, *columns), scales, ratios, binomials())
    assert new_opacities.shape == (9, *columns)
    assert torch.equal(ratios, before)
    for i, (opacity, copies) in enumerate(zip(opacities.tolist(), ratios.clamp(1, 51).tolist(), strict=True)):
        exact, factor = relocated_exactly(opacity, copies)
        torch.testing.assert_close(new_opacities.flatten()[i], torch.tensor(exact), rtol=1e-5, atol=0)
        torch.testing.assert_close(new_scales[i], scales[i] * factor, rtol=1e-5, atol=0)


def test_relocation_keeps_what_is_invisible_and_takes_nothing() -> None:
    ones = torch.ones(1, 3)
    found = splat.compute_relocation(torch.zeros(1), ones, torch.tensor([4]), binomials())
    assert not found[0].any()
    assert torch.equal(found[1], ones)
    none = splat.compute_relocation(torch.zeros(0), ones[:0], torch.zeros(0).long(), binomials())
    assert [tuple(each.shape) for each in none] == [(0,), (0, 3)]


def test_noise_follows_each_covariance_and_leaves_opaque_gaussians() -> None:
    from gsplat.strategy import ops

    params = {
        "means": torch.zeros(300, 3),
        "scales": torch.tensor([0.5, 1e-3, 1e-3]).log().expand(300, 3),
        "quats": torch.tensor([1.0, 0.0, 0.0, 1.0]).expand(300, 4),  # a quarter turn about z: the long axis is y
        "opacities": torch.cat([torch.full((200,), -8.0), torch.full((100,), 5.0)]),
    }
    start = {name: value.clone() for name, value in params.items()}
    torch.manual_seed(5)
    splat.inject_noise_to_position(params, {}, {}, scaler=2.0)
    moved = params["means"]
    opacity = 1 / (1 + math.exp(8))
    amount = 1 / (1 + math.exp(-100 * (1 - opacity - 0.995)))
    assert moved[:200, 1].std() == pytest.approx(0.25 * 2.0 * amount, rel=0.2)
    assert moved[:200, [0, 2]].abs().max() < 1e-3
    assert moved[200:].abs().max() < 1e-3
    assert all(torch.equal(params[name], start[name]) for name in ("scales", "quats", "opacities"))

    # gsplat's own, on the CPU where its covariance comes from us.
    torch.manual_seed(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "quat_scale_to_covar_preci", splat.quat_scale_to_covar_preci)
        ops.inject_noise_to_position(start, {}, {}, scaler=2.0)
    torch.testing.assert_close(moved, start["means"], rtol=1e-4, atol=1e-6)


# Devices


def on(device: str) -> list[Tensor]:
    """Results of every function with inputs that do not depend on the device."""

    def moved(*tensors: Tensor) -> list[Tensor]:
        return [tensor.to(device) for tensor in tensors]

    means, covars, viewmats, Ks = in_the_world((2,))
    found = [*splat.world_to_cam(*moved(means, covars, viewmats))]
    for camera_model in CAMERA_MODELS:
        found += splat.proj(*(each.detach() for each in found[:2]), *moved(Ks), WIDTH, HEIGHT, camera_model)
    arguments = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in listed().items()}
    found += blended(arguments, lists_in(arguments, 0, 9, torch.ones(2, HEIGHT, WIDTH, device=device)))
    opacities, scales = torch.linspace(0, 1, 20), torch.ones(20, 3)
    found += splat.compute_relocation(*moved(opacities, scales, torch.arange(20), binomials()))
    state = moved(*(torch.rand(20, 3, generator=torch.Generator().manual_seed(i)) for i in range(4)))
    splat.adam(*state, *moved(opacities > 0.5), 0.1, 0.9, 0.99, 1e-8)
    return [each.detach().cpu() for each in (*found, *state)]


@pytest.mark.parametrize("ratio", [-torch.inf, torch.inf, -3.0, 1e30, 0.5])
def test_any_ratio_that_is_a_number_is_clamped(ratio: float) -> None:
    given = torch.full((2,), 0.5), torch.ones(2, 3), torch.tensor([ratio, 2.0]), binomials()
    expected = splat.compute_relocation(*given[:2], torch.tensor([ratio, 2.0]).clamp(1, 51).long(), binomials())
    for found, other in zip(splat.compute_relocation(*given), expected, strict=True):
        assert torch.equal(found, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_results_are_the_same_on_cuda() -> None:
    for one, other in zip(on("cuda"), on("cpu"), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_results_are_finite_and_many() -> None:
    found = on("cpu")
    assert len(found) == 16
    assert all(each.isfinite().all() for each in found)


# Errors

EYE = torch.eye(3)
BAD = [
    (lambda: splat.world_to_cam(torch.ones(4, 3), EYE, torch.eye(4)[None]), r"covars must .* = \[4, 3, 3\]"),
    (lambda: splat.world_to_cam(torch.ones(4, 3), EYE.expand(4, 3, 3), EYE[None]), r"viewmats must .* = \[1, 4, 4\]"),
    (lambda: splat.proj(torch.ones(1, 4, 3), EYE.expand(1, 4, 3, 3), EYE, 5, 5), r"Ks must .* = \[1, 3, 3\]"),
    (lambda: splat.proj(torch.ones(1, 4, 3), EYE.expand(1, 4, 3, 3), EYE[None], 0, 5), "width must be above 0"),
    (lambda: splat.proj(*3 * [EYE], 5, 5, "pinhale"), "camera_model must be one of .* found 'pinhale'"),
    (lambda: lists_in(listed(), 2, 1), "range_start must be from 0 to range_end, found 2 and 1"),
    (lambda: lists_in(listed(), 0, 1, torch.ones(HEIGHT, WIDTH)), r"transmittances must have shape"),
    (lambda: lists_in(listed() | {"flatten_ids": torch.tensor([160]).int()}, 0, 1), "must be from 0 to 159"),
    (lambda: lists_in(listed() | {"flatten_ids": torch.tensor([1]).int()}, 0, 1), "isect_offsets must be places"),
    (lambda: blended(listed(), (torch.tensor([80]), *2 * [torch.tensor([0])])), "gaussian_ids must be from 0 to 79"),
    (lambda: blended(listed(), (*2 * [torch.tensor([0])], torch.tensor([-1]))), "image_ids must be from 0 to 1"),
    (lambda: blended(listed(), (*2 * [torch.tensor([0])], torch.tensor([0, 1]))), "image_ids must have shape"),
    (lambda: splat.adam(*4 * [EYE], torch.ones(4).bool(), 0, 0, 0, 0), r"valid must have shape \[N\] = \[3\]"),
    (lambda: splat.adam(EYE, EYE[:2], EYE, EYE, None, 0, 0, 0, 0), "param_grad must have shape of param"),
    (lambda: splat.compute_relocation(EYE, EYE, EYE, EYE), r"opacities must have shape \[N\] or \[N, 1\], found"),
    (lambda: splat.compute_relocation(EYE[0], EYE, EYE[0], EYE[:2]), r"binoms must have shape \[n_max, n_max\]"),
    (lambda: splat.compute_relocation(EYE[0], EYE, EYE[0], EYE[:0, :0]), "binoms must have at least one row"),
    (lambda: splat.compute_relocation(EYE[0], EYE, EYE[0] * float("nan"), EYE), "ratios must be numbers, found 3 NaN"),
    (lambda: splat.compute_relocation(EYE[0], EYE, EYE, EYE), r"ratios must have shape \[N\] = \[3\]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD)
def test_a_wrong_argument_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(TypeError, match=r"valid must be bool, found torch\.float32"):
        splat.adam(*4 * [EYE], torch.ones(3), 0, 0, 0, 0)
    with pytest.raises(TypeError, match=r"ratios must be a torch\.Tensor, found int"):
        splat.compute_relocation(EYE[0], EYE, 3, EYE)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"found .ftheta., which needs .*_with_ut"):
        splat.proj(*3 * [EYE], 5, 5, "ftheta")  # type: ignore[misc]
