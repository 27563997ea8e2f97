"""Lenses, shutters and the unscented transform: against OpenCV, a reference in float64, and the plain projection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import unscented_reference as reference
from scenes import Scene, random_scene
from torch import Tensor
from unscented_cases import FISHEYE, LENSES, PRISM, RADIAL, TANGENTIAL, TRANSFORMS, for_two, ftheta, moved

import splat
from splat import FThetaPolynomialType, RollingShutterType, UnscentedTransformParameters
from splat.ops import projection_ut
from splat.ops.arguments import Sizes
from splat.ops.lens_arguments import check_lens_cameras
from splat.ops.lens_cameras import LensCameras, camera_rays

WIDTH, HEIGHT = 64, 48
ROLLING = [each for each in RollingShutterType if each.name != "GLOBAL"]


def lens_scene(seed: int = 3, gaussians: int = 60, size: str = "mixed") -> Scene:
    return random_scene(seed, gaussians, WIDTH, HEIGHT, size=size, views=("front", "inside"))


def project(scene: Scene, **options: Any) -> Any:
    gaussians = scene.means, scene.quats, scene.scales, scene.opacities
    return splat.fully_fused_projection_with_ut(*gaussians, scene.viewmats, scene.Ks, WIDTH, HEIGHT, **options)


def cameras_of(scene: Scene, shutter: RollingShutterType = RollingShutterType.GLOBAL, **lens: Any) -> LensCameras:
    names = ("radial_coeffs", "tangential_coeffs", "thin_prism_coeffs", "ftheta_coeffs")
    last = None if shutter is RollingShutterType.GLOBAL else moved(scene.viewmats)
    given: Any = (*(lens.get(name) for name in names), shutter, last)
    sizes, model = Sizes((), len(scene.means), 2), lens.get("camera_model", "pinhole")
    return check_lens_cameras(sizes, scene.means, scene.viewmats, scene.Ks, WIDTH, HEIGHT, model, given)


def reference_lens(scene: Scene, image: int, lens: dict[str, Any]) -> reference.Lens:
    K = scene.Ks[image].double().numpy()
    if "ftheta_coeffs" in lens:
        return reference.ftheta_lens(K, lens["ftheta_coeffs"])
    names = {"radial_coeffs": 6, "tangential_coeffs": 2, "thin_prism_coeffs": 4}
    if lens.get("camera_model") == "fisheye":
        names = {"radial_coeffs": 4}
    given = [lens.get(name, torch.zeros(2, size))[image].double().numpy() for name, size in names.items()]
    if lens.get("camera_model") == "fisheye":
        return reference.fisheye_lens(K, given[0], WIDTH, HEIGHT)
    return reference.pinhole_lens(K, *given)


def assert_is_the_reference_s(scene: Scene, shutter: str, transform: str, lens: dict[str, Any]) -> None:
    options = {"rolling_shutter": RollingShutterType[shutter], "ut_params": TRANSFORMS[transform], **lens}
    if shutter != "GLOBAL":
        options["viewmats_rs"] = moved(scene.viewmats)
    found = project(scene, calc_compensations=True, **options)
    seen = 0
    for image in range(2):
        camera = reference_lens(scene, image, lens)
        first, last = (each[image].double().numpy() for each in (scene.viewmats, moved(scene.viewmats)))
        for i in range(len(scene.means)):
            gaussian = (each[i].double().numpy() for each in (scene.means, scene.quats, scene.scales, scene.opacities))
            expected = reference.project(
                camera, *gaussian, first, None if shutter == "GLOBAL" else last, shutter, WIDTH, HEIGHT,
                TRANSFORMS[transform],
            )  # fmt: skip
            own = [each[image, i].double().numpy() for each in found]
            assert (own[0] > 0).all() == (expected is not None), i
            if expected is None:
                assert not any(each.any() for each in own)
                continue
            seen += 1
            for one, other in zip(own, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert seen > len(scene.means) / 2


@pytest.mark.parametrize("lens", LENSES)
def test_every_lens_is_the_reference_s(lens: str) -> None:
    assert_is_the_reference_s(lens_scene(), "GLOBAL", "default", LENSES[lens])


@pytest.mark.parametrize("shutter", [each.name for each in ROLLING])
def test_every_shutter_is_the_reference_s(shutter: str) -> None:
    assert_is_the_reference_s(lens_scene(4, gaussians=25), shutter, "default", LENSES["radial"])


@pytest.mark.parametrize("transform", ["any point", "wide"])
def test_every_transform_is_the_reference_s(transform: str) -> None:
    assert_is_the_reference_s(lens_scene(5), "GLOBAL", transform, LENSES["opencv"])


@pytest.mark.parametrize("lens", ["opencv", "fisheye"])
def test_pictures_of_points_are_opencv_s(lens: str) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is compared with; ci/test installs it")
    scene = lens_scene()
    camera = next(iter(cameras_of(scene, **LENSES[lens]))).lens
    points = torch.randn(500, 3, generator=torch.Generator().manual_seed(1)).double() * 0.3 + torch.tensor([0, 0, 2])
    u, v, _ = camera.project(*points.unbind(-1))
    K, none = scene.Ks[0].double().numpy(), np.zeros(3)
    if lens == "fisheye":
        expected, _ = cv2.fisheye.projectPoints(points.numpy()[:, None], none, none, K, np.array(FISHEYE))
    else:
        coefficients = np.array([*RADIAL[:2], *TANGENTIAL, *RADIAL[2:], *PRISM])
        expected, _ = cv2.projectPoints(points.numpy()[:, None], none, none, K, coefficients)
    # The coefficients were float32.
    np.testing.assert_allclose(torch.stack([u, v], -1), expected[:, 0], atol=1e-4)


@pytest.mark.parametrize(
    ("lens", "shutter"),
    [*((lens, RollingShutterType.GLOBAL) for lens in LENSES), *(("opencv", each) for each in ROLLING)],
    ids=str,
)
def test_what_lies_along_a_ray_is_seen_by_its_pixel(lens: str, shutter: RollingShutterType) -> None:
    scene = lens_scene()
    cameras = cameras_of(scene, shutter, **LENSES[lens])
    rows, columns = torch.meshgrid(torch.arange(HEIGHT) + 0.5, torch.arange(WIDTH) + 0.5, indexing="ij")
    for camera, rays in zip(cameras, camera_rays(cameras, Sizes((), 60, 2)).double(), strict=True):
        origins, directions = rays.split(3, dim=-1)
        there = directions.any(-1)
        torch.testing.assert_close(directions.norm(dim=-1), there.double(), atol=1e-6, rtol=0)
        u, v, valid = camera.image_points((origins + 2.5 * directions)[there].T, 0.01)
        assert valid.sum() > 0.6 * rows.numel()  # a lens has rays where it squeezes more than the projection trusts
        # Near the edge of its view a fisheye shows a large angle in a small part of a pixel.
        torch.testing.assert_close(u[valid], columns[there][valid].double(), atol=2e-3, rtol=0)
        torch.testing.assert_close(v[valid], rows[there][valid].double(), atol=2e-3, rtol=0)


@pytest.mark.parametrize("k1", [-8.0, -1.0])
def test_a_lens_shows_nothing_where_its_picture_would_fold(k1: float) -> None:
    scene = lens_scene()
    cameras = cameras_of(scene, radial_coeffs=for_two(k1, 0.0, 0.0, 0.0, 0.0, 0.0))
    there = camera_rays(cameras, Sizes((), 60, 2))[..., 3:].any(-1)
    rows, columns = torch.meshgrid(torch.arange(HEIGHT) + 0.5, torch.arange(WIDTH) + 0.5, indexing="ij")
    fx, fy, cx, cy = (scene.Ks[:, i, j, None, None] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    radii = torch.hypot((columns - cx) / fx, (rows - cy) / fy)
    most = 2 / (27 * -k1) ** 0.5  # of r (1 + k1 r^2)
    assert (radii > most).any()
    assert there[radii < 0.99 * most].all()
    assert not there[radii > most].any()


@pytest.mark.parametrize("with_eval3d", [False, True])
@pytest.mark.parametrize(("gaussians", "cameras"), [(0, 2), (60, 0), (0, 0)])
def test_without_gaussians_the_picture_is_the_background(gaussians: int, cameras: int, with_eval3d: bool) -> None:
    given: dict[str, Any] = lens_scene().arguments
    for name in ("means", "quats", "scales", "opacities", "colors"):
        given[name] = given[name][:gaussians]
    lens = {"viewmats_rs": moved(given["viewmats"])[:cameras], "radial_coeffs": for_two(*RADIAL)[:cameras]}
    given |= {name: given[name][:cameras] for name in ("viewmats", "Ks")} | lens
    options = {"rolling_shutter": ROLLING[0], "with_ut": True, "with_eval3d": with_eval3d, "packed": False}
    image, alphas, meta = splat.rasterization(**given, **options, backgrounds=torch.tensor([0.1, 0.2, 0.3]))
    assert torch.equal(image, torch.tensor([0.1, 0.2, 0.3]).expand(cameras, HEIGHT, WIDTH, 3))
    assert alphas.shape == (cameras, HEIGHT, WIDTH, 1)
    assert meta["radii"].shape == (cameras, gaussians, 2)


def test_batches_are_scenes_of_their_own() -> None:
    scenes = [lens_scene(seed) for seed in (1, 2, 3)]
    lens = {**LENSES["opencv"], "rolling_shutter": ROLLING[0]}
    arguments = [
        (each.means, each.quats, each.scales, each.opacities, each.viewmats, each.Ks, moved(each.viewmats))
        for each in scenes
    ]
    together = [torch.stack(each)[:, None] for each in zip(*arguments, strict=True)]
    batched = {
        name: value.expand(3, 1, *value.shape) if isinstance(value, Tensor) else value for name, value in lens.items()
    }
    found = splat.fully_fused_projection_with_ut(*together[:6], WIDTH, HEIGHT, viewmats_rs=together[6], **batched)
    for i, one in enumerate(arguments):
        expected = splat.fully_fused_projection_with_ut(*one[:6], WIDTH, HEIGHT, viewmats_rs=one[6], **lens)
        for each, other in zip(found[:4], expected[:4], strict=True):
            assert torch.equal(each[i, 0], other)


def test_parts_of_the_gaussians_are_projected_as_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = project(lens_scene())
    monkeypatch.setattr(projection_ut, "_CPU_CHUNK", 7)
    for each, other in zip(project(lens_scene())[:4], expected[:4], strict=True):
        torch.testing.assert_close(each, other)


def test_small_gaussians_are_where_the_plain_projection_has_them() -> None:
    scene = lens_scene(size="small")
    gaussians = scene.means, None, scene.quats, scene.scales, scene.viewmats, scene.Ks, WIDTH, HEIGHT
    plain = splat.fully_fused_projection(*gaussians, opacities=scene.opacities, calc_compensations=True)
    found = project(scene, calc_compensations=True)
    both = (found[0] > 0).all(-1) & (plain[0] > 0).all(-1) & (plain[2] > 1)  # not so near that they are large
    assert both.sum() > 40
    for each, other, tolerance in zip(found[1:], plain[1:], (0.05, 1e-6, 0.02, 0.02), strict=True):
        torch.testing.assert_close(each[both], other[both], atol=tolerance, rtol=0)


def rendered(scene: Scene, **options: Any) -> Any:
    return splat.rasterization(**scene.arguments, packed=False, **options)


@pytest.mark.parametrize("mode", ["RGB", "D", "ED", "RGB+D", "RGB+ED"])
def test_the_picture_without_a_lens_is_the_plain_one(mode: str) -> None:
    scene = random_scene(7, 2000, WIDTH, HEIGHT, size="small", opacity="solid", views=("front",))
    plain, plain_alphas, _ = rendered(scene, render_mode=mode)
    found, alphas, meta = rendered(scene, render_mode=mode, with_ut=True)
    assert (found - plain).abs().mean() < 2e-3 * plain.abs().mean().clamp_min(1)
    assert (alphas - plain_alphas).abs().max() < 0.02
    assert meta["radii"].shape == (1, 2000, 2)
    assert meta["n_invalid"] == 0


def test_a_lens_bends_the_picture() -> None:
    """As resampling the straight one does."""
    width, height = 256, 192
    scene = random_scene(7, 2000, width, height, opacity="solid")
    coefficients = torch.tensor([[0.4, 0.1, 0.0, 0.0, 0.0, 0.0]])
    straight, _, _ = rendered(scene)
    bent, _, _ = rendered(scene, with_ut=True, radial_coeffs=coefficients)
    given = coefficients, None, None, None, RollingShutterType.GLOBAL, None
    cameras = Sizes((), 2000, 1), scene.means, scene.viewmats, scene.Ks, width, height
    (camera,) = check_lens_cameras(*cameras, "pinhole", given)
    rows, columns = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    x, y, z, valid = camera.lens.unproject(columns.double(), rows.double())
    K = scene.Ks[0].double()
    u, v = x / z * K[0, 0] + K[0, 2], y / z * K[1, 1] + K[1, 2]
    places = torch.stack([u / width, v / height], -1).float() * 2 - 1
    expected = torch.nn.functional.grid_sample(straight.permute(0, 3, 1, 2), places[None], align_corners=False)
    inside = (places.abs() < 0.95).all(-1) & valid
    assert inside.double().mean() > 0.5
    found, before = bent[0, inside], straight[0, inside]
    assert (found - expected[0].permute(1, 2, 0)[inside]).abs().mean() < 0.05 * (found - before).abs().mean()


def test_harmonics_are_seen_from_between_the_first_row_and_the_last() -> None:
    scene = lens_scene(8)
    coefficients = torch.randn(60, 4, 3, generator=torch.Generator().manual_seed(8))
    last = moved(scene.viewmats)
    options: dict[str, Any] = {"with_ut": True, "rolling_shutter": ROLLING[1], "viewmats_rs": last}
    places = (torch.linalg.inv(scene.viewmats)[:, :3, 3] + torch.linalg.inv(last)[:, :3, 3]) / 2
    shaded = splat.spherical_harmonics(1, scene.means - places[:, None], coefficients.expand(2, -1, -1, -1)) + 0.5
    expected, _, _ = rendered(scene.with_colors(shaded.clamp_min(0)), **options)
    found, _, _ = rendered(scene.with_colors(coefficients), sh_degree=1, **options)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["means", "quats", "scales", "opacities", "colors"])
@pytest.mark.parametrize("degree", [None, 1])
def test_a_gaussian_that_is_not_finite_is_left_out(name: str, degree: int | None) -> None:
    scene = lens_scene(9)
    if degree is not None:
        scene = scene.with_colors(torch.randn(60, 4, 3, generator=torch.Generator().manual_seed(9)))
    seen = (project(scene)[0] > 0).all(-1).all(0).nonzero()[0, 0]
    arguments: dict[str, Any] = {**scene.arguments, "packed": False, "with_ut": True, "sh_degree": degree}
    arguments["opacities"] = arguments["opacities"].clone()
    arguments["opacities"][seen] = 0
    expected, _, _ = splat.rasterization(**arguments)
    damaged = {**scene.arguments, "packed": False, "with_ut": True, "sh_degree": degree}
    leaf = damaged[name].clone()
    leaf[seen] = torch.nan
    leaf.requires_grad_()
    found, _, meta = splat.rasterization(**{**damaged, name: leaf})
    assert torch.equal(found, expected)
    assert meta["n_invalid"] == 2
    if found.requires_grad:
        (gradient,) = torch.autograd.grad(found.sum(), leaf)
        assert gradient.isfinite().all()


def test_opacities_and_colours_alone_have_gradients() -> None:
    arguments = lens_scene().arguments
    others: dict[str, Any] = {name: arguments.pop(name) for name in ("width", "height", "Ks")} | {"packed": False}
    leaves: dict[str, Any] = {name: value.clone().requires_grad_() for name, value in arguments.items()}
    image, _, meta = splat.rasterization(**leaves, **others, with_ut=True, absgrad=True)
    found = dict(zip(leaves, torch.autograd.grad(image.sum(), list(leaves.values()), allow_unused=True), strict=True))
    assert {name for name, gradient in found.items() if gradient is not None} == {"opacities", "colors"}
    assert meta["means2d"].absgrad.any()


def test_gsplat_s_own_objects_are_taken() -> None:
    wrapper = pytest.importorskip("gsplat.cuda._wrapper", reason="gsplat's classes are taken; ci/test installs it")
    scene = lens_scene()
    for kind in FThetaPolynomialType:
        own = ftheta(kind)
        theirs = wrapper.FThetaCameraDistortionParameters(
            **{**vars(own), "reference_poly": wrapper.FThetaPolynomialType[kind.name]}
        )
        options: dict[str, Any] = {"camera_model": "ftheta", "viewmats_rs": moved(scene.viewmats)}
        expected = project(scene, ftheta_coeffs=own, rolling_shutter=ROLLING[2], **options)
        found = project(
            scene,
            ftheta_coeffs=theirs,
            rolling_shutter=wrapper.RollingShutterType[ROLLING[2].name],
            ut_params=wrapper.UnscentedTransformParameters(),
            **options,
        )
        for each, other in zip(found[:4], expected[:4], strict=True):
            assert torch.equal(each, other)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"camera_model": "ortho"},
        ValueError,
        "camera_model must be one of 'pinhole', 'fisheye', 'ftheta', found 'ortho'",
    ),
    ({"camera_model": "ftheta"}, ValueError, "ftheta_coeffs must be FThetaCamera.* found None"),
    (
        {"ftheta_coeffs": ftheta(FThetaPolynomialType.ANGLE_TO_PIXELDIST)},
        ValueError,
        "ftheta_coeffs must be None for camera_model='pinhole'",
    ),
    ({"camera_model": "ftheta", "ftheta_coeffs": object()}, TypeError, "ftheta_coeffs must be .* found <object"),
    ({"radial_coeffs": torch.zeros(2, 4)}, ValueError, r"radial_coeffs must have shape .* \[2, 6\], found \[2, 4\]"),
    (
        {"radial_coeffs": torch.zeros(2, 6), "camera_model": "fisheye"},
        ValueError,
        r"radial_coeffs must have shape .* \[2, 4\], found \[2, 6\]",
    ),
    (
        {"tangential_coeffs": torch.zeros(2, 2), "camera_model": "fisheye"},
        ValueError,
        "tangential_coeffs must be None for camera_model='fisheye'",
    ),
    ({"thin_prism_coeffs": torch.zeros(2, 2)}, ValueError, "thin_prism_coeffs must have shape"),
    ({"radial_coeffs": torch.zeros(2, 6).double()}, TypeError, "radial_coeffs must be float32"),
    ({"radial_coeffs": torch.full((2, 6), torch.nan)}, ValueError, r"radial_coeffs must be finite, found \[\[nan"),
    ({"radial_coeffs": torch.zeros(2, 6).requires_grad_()}, NotImplementedError, "radial_coeffs requires grad"),
    ({"rolling_shutter": ROLLING[0]}, ValueError, "viewmats_rs must be the poses .* found none"),
    ({"viewmats_rs": torch.eye(4).expand(2, 4, 4)}, ValueError, "viewmats_rs must be None .* found a tensor"),
    ({"rolling_shutter": "sideways"}, ValueError, "rolling_shutter must be one of .* found 'sideways'"),
    (
        {"rolling_shutter": ROLLING[0], "viewmats_rs": 2 * torch.eye(4).expand(2, 4, 4)},
        ValueError,
        "viewmats_rs must have rotations without scale",
    ),
    (
        {"rolling_shutter": ROLLING[0], "viewmats_rs": torch.eye(4).expand(1, 4, 4)},
        ValueError,
        r"viewmats_rs must have shape .* found \[1, 4, 4\]",
    ),
]


@pytest.mark.parametrize(("options", "error", "words"), BAD)
def test_wrong_lenses_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        project(lens_scene(), **options)
    with pytest.raises(error, match=words):
        rendered(lens_scene(), with_ut=True, **options)


@pytest.mark.parametrize("option", ["with_ut", "with_eval3d"])
def test_poses_with_a_scale_have_no_rays(option: str) -> None:
    arguments = lens_scene().arguments
    arguments["viewmats"] = 2 * arguments["viewmats"]
    with pytest.raises(ValueError, match=r"viewmats must have rotations without scale, .* divide each"):
        splat.rasterization(**arguments, packed=False, **{option: True})


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        (UnscentedTransformParameters(alpha=0.0), ValueError),
        (UnscentedTransformParameters(kappa=-3.0), ValueError),
        (UnscentedTransformParameters(beta=torch.nan), ValueError),
        (object(), TypeError),
    ],
)
def test_wrong_parameters_of_the_transform_are_refused(parameters: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="ut_params must be"):
        project(lens_scene(), ut_params=parameters)


@pytest.mark.parametrize("name", ["radial_coeffs", "tangential_coeffs", "thin_prism_coeffs", "rolling_shutter"])
def test_lenses_need_the_unscented_transform(name: str) -> None:
    value = ROLLING[0] if name == "rolling_shutter" else LENSES["opencv"][name]
    with pytest.raises(ValueError, match=f"{name} needs with_ut=True"):
        rendered(lens_scene(), **{name: value})


@pytest.mark.parametrize("name", ["packed", "sparse_grad", "covars"])
def test_what_does_not_go_with_the_unscented_transform_is_refused(name: str) -> None:
    options = {"packed": name != "covars", name: torch.eye(3).expand(60, 3, 3) if name == "covars" else True}
    with pytest.raises(ValueError, match=f"{'packed' if name == 'sparse_grad' else name} must be .* with_ut=True"):
        splat.rasterization(**lens_scene().arguments, with_ut=True, **options)
