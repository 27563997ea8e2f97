"""Gaussians evaluated along the rays of cameras: `rasterization(with_eval3d=True)` and `rasterize_to_pixels_eval3d`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ray_reference import blend_along_rays
from scenes import Scene, random_scene
from torch import Tensor
from unscented_cases import LENSES, moved

import splat
from splat import RollingShutterType, UnscentedTransformParameters
from splat.ops.arguments import Sizes
from splat.ops.defaults import MAX_ALPHA
from splat.ops.lens_arguments import check_lens_cameras
from splat.ops.lens_cameras import camera_rays
from splat.ops.projection import rotation_matrices

WIDTH, HEIGHT, COUNT = 40, 30, 60
LEAVES = ("means", "quats", "scales", "opacities", "colors")
BACKGROUNDS = torch.tensor([[0.1, 0.5, 0.9], [1.0, 0.0, 0.3]])
# A lens, a shutter, and whether there is the unscented transform.
CASES = {
    **{lens: (lens, RollingShutterType.GLOBAL, True) for lens in LENSES},
    **{each.name: ("radial", each, True) for each in RollingShutterType if each.name != "GLOBAL"},
    "without the unscented transform": ("plain", RollingShutterType.GLOBAL, False),
    "fisheye without it": ("fisheye without coefficients", RollingShutterType.GLOBAL, False),
}


def made() -> Scene:
    return random_scene(6, COUNT, WIDTH, HEIGHT, size="mixed", views=("front", "inside"))


def options_of(scene: Scene, case: str) -> dict[str, Any]:
    lens, shutter, with_ut = CASES[case]
    last = None if shutter.name == "GLOBAL" else moved(scene.viewmats)
    return {**LENSES[lens], "rolling_shutter": shutter, "viewmats_rs": last, "with_ut": with_ut}


def rays_of(scene: Scene, options: dict[str, Any]) -> Tensor:
    names = (
        "radial_coeffs",
        "tangential_coeffs",
        "thin_prism_coeffs",
        "ftheta_coeffs",
        "rolling_shutter",
        "viewmats_rs",
    )
    given: Any = tuple(options.get(name) for name in names)
    sizes, model = Sizes((), COUNT, 2), options.get("camera_model", "pinhole")
    views = scene.viewmats, scene.Ks, WIDTH, HEIGHT
    return camera_rays(check_lens_cameras(sizes, scene.means, *views, model, given), sizes)


def reference(scene: Scene, leaves: dict[str, Tensor], features: Tensor, meta: dict[str, Any], **others: Any) -> Any:
    """Colours, alphas and doubtful pixels of features [2, N, D] in float64, with the lists of a call."""
    given = {
        "means": leaves["means"],
        "frames": rotation_matrices(leaves["quats"]).mT / leaves["scales"][..., None],
        "colors": features,
        "opacities": leaves["opacities"].expand(2, -1),
        "tile_size": 16,
        "masks": None,
        "max_alpha": MAX_ALPHA,
        "isect_offsets": meta["isect_offsets"],
        "flatten_ids": meta["flatten_ids"],
    }
    return blend_along_rays({**given, **others})


@pytest.mark.parametrize("case", CASES)
def test_images_and_gradients_are_those_of_the_reference(case: str) -> None:
    scene = made()
    options = options_of(scene, case)
    leaves = {name: getattr(scene, name).clone().requires_grad_() for name in LEAVES}
    arguments = {**scene.arguments, **leaves, "packed": False, "with_eval3d": True, "backgrounds": BACKGROUNDS}
    image, alphas, meta = splat.rasterization(**arguments, **options)
    double = {name: leaf.detach().double().requires_grad_() for name, leaf in leaves.items()}
    backgrounds, rays = BACKGROUNDS.double(), rays_of(scene, options)
    colors = double["colors"].expand(2, -1, -1)
    *expected, doubtful = reference(scene, double, colors, meta, rays=rays, backgrounds=backgrounds)
    assert doubtful.double().mean() < 0.01
    assert expected[1].mean() > 0.1
    sure = ~doubtful[..., None]
    for found, other in zip((image, alphas), expected, strict=True):
        torch.testing.assert_close(found * sure, (other * sure).float(), atol=1e-5, rtol=1e-5)
    generator = torch.Generator().manual_seed(1)
    v = [torch.randn(each.shape, generator=generator) * sure for each in (image, alphas)]
    own = torch.autograd.grad([image, alphas], list(leaves.values()), v)
    others = torch.autograd.grad(expected, list(double.values()), [each.double() for each in v])
    for name, found, other in zip(LEAVES, own, others, strict=True):
        assert (found - other).abs().max() <= 1e-4 * other.abs().max(), name


LEFT_OUT = {
    "means": (torch.nan, torch.inf),
    "quats": (torch.nan, 0.0, torch.inf, 1e-30),
    "scales": (torch.nan, 0.0, torch.inf, 1e-22),
    "opacities": (torch.nan,),
    "colors": (torch.nan,),
}


@pytest.mark.parametrize("with_ut", [True, False])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_gaussian_that_is_left_out_has_gradients_of_0(name: str, with_ut: bool) -> None:
    scene = made()
    options: dict[str, Any] = {"packed": False, "with_eval3d": True, "with_ut": with_ut, "return_normals": True}
    leaves = {each: getattr(scene, each).clone() for each in LEAVES}
    for row, value in enumerate(LEFT_OUT[name]):
        leaves[name][row] = value
    leaves = {each: leaf.requires_grad_() for each, leaf in leaves.items()}
    image, alphas, meta = splat.rasterization(**{**scene.arguments, **leaves}, **options, render_mode="RGB+D")
    kept = {each: leaf.detach()[len(LEFT_OUT[name]) :].requires_grad_() for each, leaf in leaves.items()}
    expected, *_ = splat.rasterization(**{**scene.arguments, **kept}, **options, render_mode="RGB+D")
    assert torch.equal(image, expected)
    loss = image.square().sum() + alphas.sum() + meta["normals"].square().sum()
    for each, gradient in zip(LEAVES, torch.autograd.grad(loss, list(leaves.values())), strict=True):
        assert not gradient[: len(LEFT_OUT[name])].any(), each
        assert gradient.isfinite().all(), each
        assert gradient.any(), each


DEPTHS = {
    "the plain projection": {"with_ut": False},
    "the unscented transform": {"with_ut": True},
    "distances": {"with_ut": True, "global_z_order": False},
    "a fisheye": {"with_ut": True, "camera_model": "fisheye", "global_z_order": False},
    "a rolling shutter": {"with_ut": True, "rolling_shutter": RollingShutterType.ROLLING_TOP_TO_BOTTOM},
}


def depths_of(means: Tensor, scene: Scene, options: dict[str, Any]) -> Tensor:
    """Depths [2, N, 1]; those of a rolling shutter by its cameras, which test_unscented.py is about."""
    poses = scene.viewmats.double()
    if "rolling_shutter" in options:
        sizes = Sizes((), COUNT, 2)
        given: Any = (None, None, None, None, options["rolling_shutter"], options["viewmats_rs"])
        cameras = check_lens_cameras(sizes, scene.means, scene.viewmats, scene.Ks, WIDTH, HEIGHT, "pinhole", given)
        return torch.stack([camera.to_camera(means.mT, 0.5)[2, :, None] for camera in cameras])
    placed = torch.einsum("cij,nj->cni", poses[:, :3, :3], means) + poses[:, None, :3, 3]
    return placed.norm(dim=-1, keepdim=True) if options.get("global_z_order") is False else placed[..., 2:]


@pytest.mark.parametrize(
    ("mode", "case"),
    [*(("RGB+ED", case) for case in DEPTHS), *((mode, "the unscented transform") for mode in ("D", "ED", "RGB+D"))],
)
def test_depths_are_blended_along_rays(mode: str, case: str) -> None:
    scene = made()
    options: dict[str, Any] = {"packed": False, "with_eval3d": True, "backgrounds": BACKGROUNDS, **DEPTHS[case]}
    if "rolling_shutter" in options:
        options["viewmats_rs"] = moved(scene.viewmats)
    leaves = {name: getattr(scene, name).clone().requires_grad_() for name in LEAVES}
    image, alphas, meta = splat.rasterization(**{**scene.arguments, **leaves}, **options, render_mode=mode)
    double = {name: leaf.detach().double().requires_grad_() for name, leaf in leaves.items()}
    features = depths_of(double["means"], scene, options)
    seen = (meta["radii"] > 0).all(-1)[..., None]
    torch.testing.assert_close(meta["depths"][..., None], (features * seen).float(), atol=1e-5, rtol=1e-5)
    backgrounds = torch.zeros(2, 1)
    if mode.startswith("RGB"):
        features = torch.cat([double["colors"].expand(2, -1, -1), features], -1)
        backgrounds = torch.nn.functional.pad(BACKGROUNDS, (0, 1))
    rays = rays_of(scene, {"rolling_shutter": RollingShutterType.GLOBAL, **options})
    expected, expected_alphas, doubtful = reference(
        scene, double, features, meta, rays=rays, backgrounds=backgrounds.double()
    )
    if mode.endswith("ED"):
        expected = torch.cat([expected[..., :-1], expected[..., -1:] / expected_alphas.clamp_min(1e-10)], -1)
    sure = ~doubtful[..., None] & (expected_alphas > 0)
    torch.testing.assert_close(image * sure, (expected * sure).float(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(alphas * sure, (expected_alphas * sure).float(), atol=1e-5, rtol=1e-5)
    v = torch.randn(image.shape, generator=torch.Generator().manual_seed(1)) * sure
    own = torch.autograd.grad(image, list(leaves.values()), v, allow_unused=True)
    others = torch.autograd.grad(expected, list(double.values()), v.double(), allow_unused=True)
    for name, found, other in zip(LEAVES, own, others, strict=True):
        assert (found is None) == (other is None), name
        assert found is None or (found - other).abs().max() <= 1e-3 * other.abs().max(), name


def test_small_gaussians_look_as_in_the_image() -> None:
    scene = random_scene(7, 2000, 128, 96, size="small", opacity="solid")
    plain, _, _ = splat.rasterization(**scene.arguments, eps2d=0.0, packed=False)
    along, _, _ = splat.rasterization(**scene.arguments, eps2d=0.0, packed=False, with_eval3d=True)
    assert (along - plain).abs().mean() < 0.01 * plain.abs().mean()


@pytest.mark.parametrize("case", ["opencv", "fisheye", "ROLLING_TOP_TO_BOTTOM"])
def test_the_pieces_together_are_rasterization(case: str) -> None:
    scene = made()
    options = options_of(scene, case)
    del options["with_ut"]
    whole, alphas, meta = splat.rasterization(
        **scene.arguments, **options, packed=False, with_ut=True, with_eval3d=True, backgrounds=BACKGROUNDS
    )
    cameras = scene.viewmats, scene.Ks, WIDTH, HEIGHT
    gaussians = scene.means, scene.quats, scene.scales
    radii, means2d, depths, _, _ = splat.fully_fused_projection_with_ut(
        *gaussians, scene.opacities, *cameras, **options
    )
    _, keys, ids = splat.isect_tiles(means2d, radii, depths, 16, 3, 2)
    offsets = splat.isect_offset_encode(keys, 2, 3, 2)
    assert torch.equal(ids, meta["flatten_ids"])
    found = splat.rasterize_to_pixels_eval3d(
        *gaussians,
        scene.colors.expand(2, -1, -1),
        scene.opacities.expand(2, -1),
        *cameras,
        16,
        offsets,
        ids,
        backgrounds=BACKGROUNDS,
        ut_params=UnscentedTransformParameters(),
        **options,
    )
    for one, other in zip(found, (whole, alphas), strict=True):
        assert torch.equal(one, other)


def test_a_pixel_without_a_ray_shows_the_background() -> None:
    lens = {"radial_coeffs": torch.tensor([-8.0, 0, 0, 0, 0, 0]).expand(2, -1)}
    scene = made()
    image, alphas, _ = splat.rasterization(
        **scene.arguments, **lens, packed=False, with_ut=True, with_eval3d=True, backgrounds=BACKGROUNDS
    )
    there = rays_of(scene, {**lens, "rolling_shutter": RollingShutterType.GLOBAL})[..., 3:].any(-1)
    assert not there.all()
    assert not alphas[~there].any()
    assert torch.equal(image[~there], BACKGROUNDS[:, None, None].expand_as(image)[~there])


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"absgrad": True}, ValueError, "absgrad must be False with with_eval3d=True"),
        ({"packed": True}, ValueError, "packed must be False with with_eval3d=True"),
        ({"covars": torch.eye(3).expand(COUNT, 3, 3)}, ValueError, "covars must be None with with_eval3d=True"),
        ({"camera_model": "ortho"}, ValueError, "camera_model must be one of .* found 'ortho'"),
        ({"radial_coeffs": torch.zeros(2, 6)}, ValueError, "radial_coeffs needs with_ut=True"),
        ({"viewmats": torch.eye(4).repeat(2, 1, 1).requires_grad_()}, NotImplementedError, "viewmats requires grad"),
    ],
)
def test_wrong_combinations_are_refused(changes: dict[str, Any], error: type[Exception], words: str) -> None:
    arguments = {**made().arguments, "packed": False, "with_eval3d": True}
    splat.rasterization(**arguments)
    with pytest.raises(error, match=words):
        splat.rasterization(**{**arguments, **changes})
