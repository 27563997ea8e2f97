"""Where programs for gsplat 1.5.3 go to the edge: shapes that are not covariances, axes turned round, no rotation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scenes import random_scene
from torch import Tensor

import splat
from splat.ops.camera_models import CAMERA_MODELS

CAMERA = {
    "viewmats": torch.eye(4)[None],
    "Ks": torch.tensor([[[50.0, 0.0, 30.0], [0.0, 50.0, 22.0], [0.0, 0.0, 1.0]]]),
    "width": 60,
    "height": 45,
}


def image_covariance(xx: float, xy: float, yy: float) -> Tensor:
    """The covariance [1, 3, 3] of a Gaussian at depth 1 that is, in pixels, [[xx, xy], [xy, yy]] on the image."""
    covar = torch.zeros(1, 3, 3)
    covar[0, :2, :2] = torch.tensor([[xx, xy], [xy, yy]]) / 50**2
    return covar


def seen(covars: Tensor, **options: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Radii, ..., compensations of one Gaussian at depth 1."""
    triangles = covars[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    camera = {**CAMERA, **options}
    found = splat.fully_fused_projection(
        torch.tensor([[0.0, 0.0, 1.0]]), triangles, None, None, **camera, calc_compensations=True
    )
    return tuple(one[0, 0] for one in found)  # type: ignore[union-attr, return-value]


# With eps2d = 0.3 on the diagonal, what is left is or is not an ellipse.
@pytest.mark.parametrize("eps2d", [0.0, 0.3])
@pytest.mark.parametrize(
    "entries", [(4.0, 6.0, 4.0), (4.0, -4.5, 4.0), (-1.0, 0.0, 4.0), (4.0, 0.5, -1.0), (-1.0, 0.0, -1.0)]
)
def test_what_is_no_ellipse_on_the_image_is_culled(entries: tuple[float, float, float], eps2d: float) -> None:
    for found in seen(image_covariance(*entries), eps2d=eps2d):
        assert not found.any()
    picture, alphas, meta = splat.rasterization(
        torch.tensor([[0.0, 0.0, 1.0]]), None, None, torch.ones(1), torch.ones(1, 3),
        covars=image_covariance(*entries), eps2d=eps2d, packed=False, **CAMERA,
    )  # fmt: skip
    assert not picture.any()
    assert not alphas.any()
    assert not meta["radii"].any()


def test_what_eps2d_makes_an_ellipse_is_drawn_as_gsplat_draws_it() -> None:
    # xx yy - xy^2 is -0.41, and with 0.3 on the diagonal 2.08: not positive definite, but an ellipse once blurred.
    entries = (4.0, 4.05, 4.0)
    radii, _, _, conic, compensation = seen(image_covariance(*entries))
    xx, xy, yy = entries[0] + 0.3, entries[1], entries[2] + 0.3
    determinant = xx * yy - xy * xy
    torch.testing.assert_close(conic, torch.tensor([yy, -xy, xx]) / determinant, rtol=1e-4, atol=1e-5)
    assert radii.tolist() == [7, 7]  # 3.33 sqrt(4.3)
    assert compensation == 0  # the root of max(0, -0.41 / 2.08)


@pytest.mark.parametrize("axis", [(3.0, 1.0, 2.0), (-1.0, 2.0, 0.5), (1.0, 1e-3, 5.0)])
@pytest.mark.parametrize("length", [0.1, 10.0, 1e4])
def test_rounding_makes_no_needle_indefinite(axis: tuple[float, float, float], length: float) -> None:
    # Of rank 1, so that the determinant on the image is 0, and what float32 makes of it anything around that.
    direction = torch.nn.functional.normalize(torch.tensor(axis), dim=0) * length
    covar = (direction[:, None] * direction)[None]
    radii, _, _, conic, _ = seen(covar)
    assert (radii > 0).all()
    assert conic.isfinite().all()
    assert conic[0] >= 0
    assert conic[2] >= 0


# Focal lengths


def flipped(scene: dict[str, Any], axes: tuple[float, float]) -> dict[str, Any]:
    """The same scene, with focal lengths of other signs and the cameras' axes turned round instead."""
    signs = torch.tensor([*axes, 1.0])
    viewmats, Ks = scene["viewmats"].clone(), scene["Ks"].clone()
    viewmats[:, :2] *= signs[:2, None]
    Ks[:, :2, :2] *= signs[:2, None]
    return {**scene, "viewmats": viewmats, "Ks": Ks}


@pytest.mark.parametrize("axes", [(-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)])
@pytest.mark.parametrize("camera_model", [model.name for model in CAMERA_MODELS.values() if model.flips])
def test_a_negative_focal_length_flips_an_axis(camera_model: str, axes: tuple[float, float]) -> None:
    scene = random_scene(3, 60, 50, 40, size="mixed", views=("front", "inside")).arguments
    scene |= {"camera_model": camera_model, "rasterize_mode": "antialiased"}
    if camera_model == "ortho":
        scene["Ks"][:, :2, :2] /= 3
    images, gradients = [], []
    for arguments in (scene, flipped(scene, axes)):
        leaves = {name: arguments[name].clone().requires_grad_() for name in ("means", "quats", "scales", "viewmats")}
        picture, alphas, _ = splat.rasterization(**{**arguments, **leaves})
        weights = torch.rand(picture.shape, generator=torch.Generator().manual_seed(1))
        images.append((picture, alphas))
        gradients.append(torch.autograd.grad((picture * weights).sum(), list(leaves.values())))
    assert (images[0][1] > 0.5).any()
    for one, other in zip(*images, strict=True):
        assert torch.equal(one, other)
    *straight, pose = gradients[0]
    *turned, turned_pose = gradients[1]
    for one, other in zip(straight, turned, strict=True):
        assert torch.equal(one, other)
    signs = torch.tensor([*axes, 1.0, 1.0])
    torch.testing.assert_close(pose, turned_pose * signs[:, None], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("camera_model", CAMERA_MODELS)
@pytest.mark.parametrize("focal", [0.0, -50.0])
def test_a_focal_length_that_gives_no_picture_is_an_error(camera_model: str, focal: float) -> None:
    Ks = CAMERA["Ks"].clone()  # type: ignore[attr-defined]
    Ks[0, 1, 1] = focal
    options = {"Ks": Ks, "camera_model": camera_model}
    flips = CAMERA_MODELS[camera_model].flips
    required = "other than 0" if flips else "above 0"
    if focal < 0 and flips:
        assert seen(image_covariance(4, 0, 4), **options)[0].all()
        return
    with pytest.raises(ValueError, match=rf"Ks must have focal lengths {required}, found Ks\[0\] with \[50.0, {focal}"):
        seen(image_covariance(4, 0, 4), **options)


# Rotations


def test_a_quaternion_of_zeros_is_no_rotation_anywhere() -> None:
    quats = torch.tensor(
        [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1e-25, 0.0, 0.0, 0.0], [torch.nan, 1.0, 0.0, 0.0]]
    )
    scales = torch.ones(4, 3)
    leaves = [quats.requires_grad_(), scales.requires_grad_()]
    covars, precis = splat.quat_scale_to_covar_preci(quats, scales)
    assert covars is not None
    assert precis is not None
    for found in (covars, precis):
        torch.testing.assert_close(found[0], torch.eye(3))
        assert found[1:].isnan().all()
    # What is made of it is left out, as it is itself, and the gradients are 0.
    rest = {"opacities": torch.full((4,), 0.5), "colors": torch.ones(4, 3), "packed": False, **CAMERA}
    means = torch.tensor([0.0, 0.0, 5.0]).expand(4, 3)
    direct, _, meta = splat.rasterization(means, quats, scales, **rest)
    by_covars, _, other_meta = splat.rasterization(means, None, None, covars=covars, **rest)
    for found in (meta, other_meta):
        assert (found["radii"] > 0).all(-1).tolist() == [[True, False, False, False]]
    torch.testing.assert_close(direct, by_covars, rtol=1e-5, atol=1e-6)
    for picture in (direct, by_covars):
        for gradient in torch.autograd.grad(picture.square().sum(), leaves, retain_graph=True):
            assert gradient.isfinite().all()
            assert not gradient[1:].any()


def test_a_covariance_that_is_not_finite_takes_no_gradient_along() -> None:
    quats = torch.tensor([1.0, 0.2, 0.0, 0.0]).repeat(4, 1)
    scales = torch.tensor([[1.0, 1.0, 2.0], [torch.inf, 1.0, 1.0], [torch.nan, 1.0, 1.0], [0.0, 1.0, 1.0]])
    leaves = [quats.requires_grad_(), scales.requires_grad_()]
    covars, precis = splat.quat_scale_to_covar_preci(quats, scales)
    assert covars is not None
    assert precis is not None
    for found, rows in ((covars, [0, 3]), (precis, [0, 1])):
        assert [row for row in range(4) if found[row].isfinite().all()] == rows
        for gradient in torch.autograd.grad(found[rows].square().sum(), leaves, retain_graph=True):
            assert gradient.isfinite().all()


# Colours


@pytest.mark.parametrize("options", [{}, {"packed": False}, {"packed": False, "with_ut": True, "with_eval3d": True}])
@pytest.mark.parametrize("shape", [(30, 2), (2, 30, 2), (30, 4, 2)])
def test_a_gaussian_whose_signals_are_not_finite_is_left_out(shape: tuple[int, ...], options: dict[str, bool]) -> None:
    scene: dict[str, Any] = random_scene(3, 30, 20, 16, size="mixed", views=("front", "close")).arguments
    scene["means"][0] = 0.0
    signals, degree = torch.rand(shape), 1 if shape[1:] == (4, 2) else None
    every: dict[str, Any] = {**options, "extra_signals_sh_degree": degree}
    expected = splat.rasterization(
        **{**scene, "opacities": scene["opacities"] * (torch.arange(30) > 0)}, **every, extra_signals=signals
    )
    signals = signals.clone()
    signals[(slice(None), 0) if shape[0] == 2 else 0] = torch.nan
    leaves = [scene["means"].requires_grad_(), signals.requires_grad_()]
    found = splat.rasterization(**scene, **every, extra_signals=signals)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[2]["render_extra_signals"], expected[2]["render_extra_signals"])
    assert found[2]["n_invalid"] > expected[2]["n_invalid"]
    for gradient in torch.autograd.grad(found[2]["render_extra_signals"].sum() + found[0].sum(), leaves):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("per_camera", [False, True])
@pytest.mark.parametrize("render_mode", ["D", "ED"])
def test_depth_alone_takes_colours_of_any_kind(render_mode: str, per_camera: bool, packed: bool) -> None:
    scene = random_scene(3, 30, 20, 16, size="mixed", views=("front", "inside")).arguments
    options = {"render_mode": render_mode, "packed": packed}
    expected, _, _ = splat.rasterization(**scene, **options)
    coeffs = torch.rand(*([2] if per_camera else []), 30, 4, 3)
    found, _, _ = splat.rasterization(**{**scene, "colors": coeffs}, sh_degree=1, **options)
    assert expected.any()
    assert torch.equal(found, expected)
