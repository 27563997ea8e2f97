"""Lenses that bend straight lines: what is read of them, and pictures of theirs that were straightened."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import photographs
import pytest
import torch
from PIL import Image

from splat.fit.photograph_views import Preparation, photograph_views
from splat.photos.folders import read_capture
from splat.photos.lens_formulas import DIVISION, FIELD_OF_VIEW, FISHEYE, POLYNOMIAL, UNIFIED, Distortion, Family
from splat.photos.lens_models import LENS_MODELS, Lens, lens_of
from splat.photos.pictures import read_resized
from splat.photos.undistortion import undistort, undistorted_lens
from splat.scene.gaussians import SceneError

Floats = npt.NDArray[np.float64]

WIDE = 200, 150
PARAMETERS = {
    "SIMPLE_RADIAL": {"f": 150.0, "k1": -0.15},
    "RADIAL": {"f": 150.0, "k1": 0.3, "k2": -0.1},
    "OPENCV": {"fx": 150.0, "fy": 156.0, "k1": -0.2, "k2": 0.05, "p1": 0.01, "p2": -0.015},
    "FULL_OPENCV": {
        "fx": 150.0, "fy": 156.0, "k1": 0.3, "k2": 0.1, "p1": 0.005, "p2": 0.002, "k3": 0.02, "k4": 0.5, "k5": 0.2,
        "k6": 0.05,
    },
    "OPENCV_FISHEYE": {"fx": 80.0, "fy": 82.0, "k1": 0.05, "k2": -0.02, "k3": 0.01, "k4": -0.003},
    "SIMPLE_RADIAL_FISHEYE": {"f": 80.0, "k1": 0.03},
    "RADIAL_FISHEYE": {"f": 80.0, "k1": 0.03, "k2": -0.01},
    "FOV": {"fx": 110.0, "fy": 112.0, "omega": 0.9},
    "THIN_PRISM_FISHEYE": {
        "fx": 80.0, "fy": 82.0, "k1": 0.05, "k2": -0.02, "p1": 0.004, "p2": -0.003, "k3": 0.01, "k4": -0.003,
        "sx1": 0.005, "sy1": -0.004,
    },
    "RAD_TAN_THIN_PRISM_FISHEYE": {
        "fx": 80.0, "fy": 82.0, "k0": 0.05, "k1": -0.02, "k2": 0.01, "k3": -0.003, "k4": 0.001, "k5": -0.0005,
        "p0": 0.004, "p1": -0.003, "s0": 0.005, "s1": -0.002, "s2": -0.004, "s3": 0.001,
    },
    "SIMPLE_DIVISION": {"f": 150.0, "k": -0.3},
    "DIVISION": {"fx": 150.0, "fy": 156.0, "k": 0.05},
    "SIMPLE_FISHEYE": {"f": 80.0},
    "FISHEYE": {"fx": 80.0, "fy": 82.0},
    "EUCM": {"fx": 120.0, "fy": 124.0, "alpha": 0.6, "beta": 1.1},
}  # fmt: skip


def lens(model: str) -> Lens:
    return lens_of(model, WIDE, {"cx": 103.0, "cy": 72.0, **PARAMETERS[model]}, model)


def angles(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The point in the direction of x, y that is as far away as their angle to the axis."""
    azimuth, angle = np.arctan2(y, x), np.arctan2(np.hypot(x, y), 1)
    return angle * np.cos(azimuth), angle * np.sin(azimuth)


def thin_prism(x: Floats, y: Floats, **k: float) -> tuple[Floats, Floats]:
    u, v = angles(x, y)
    r = np.hypot(u, v)
    radial = k["k1"] * r**2 + k["k2"] * r**4 + k["k3"] * r**6 + k["k4"] * r**8
    across = u + u * radial + 2 * k["p1"] * u * v + k["p2"] * (r**2 + 2 * u**2) + k["sx1"] * r**2
    return across, v + v * radial + 2 * k["p2"] * u * v + k["p1"] * (r**2 + 2 * v**2) + k["sy1"] * r**2


def fisheye_16(x: Floats, y: Floats, **k: float) -> tuple[Floats, Floats]:
    u, v = angles(x, y)
    radial = 1 + sum(k[f"k{i}"] * np.hypot(u, v) ** (2 * i + 2) for i in range(6))
    u, v = u * radial, v * radial
    r = np.hypot(u, v)
    across = u + 2 * k["p1"] * u * v + k["p0"] * (r**2 + 2 * u**2) + k["s0"] * r**2 + k["s1"] * r**4
    return across, v + 2 * k["p0"] * u * v + k["p1"] * (r**2 + 2 * v**2) + k["s2"] * r**2 + k["s3"] * r**4


def field_of_view(x: Floats, y: Floats, omega: float) -> tuple[Floats, Floats]:
    r = np.maximum(np.hypot(x, y), 1e-12)
    bent = np.arctan(2 * r * np.tan(omega / 2)) / omega
    return x * bent / r, y * bent / r


def division(x: Floats, y: Floats, k: float) -> tuple[Floats, Floats]:
    """The root r' of r = r' / (1 + k r'^2) that is r for a k of 0, by Newton's method."""
    r = np.maximum(np.hypot(x, y), 1e-12)
    bent = r.copy()
    for _ in range(50):
        bent -= (r * (1 + k * bent**2) - bent) / (2 * r * k * bent - 1)
    return x * bent / r, y * bent / r


def unified(x: Floats, y: Floats, alpha: float, beta: float) -> tuple[Floats, Floats]:
    depth = alpha * np.sqrt(beta * (x**2 + y**2) + 1) + 1 - alpha
    return x / depth, y / depth


OTHERS: dict[str, Callable[..., tuple[Floats, Floats]]] = {
    "FOV": field_of_view, "THIN_PRISM_FISHEYE": thin_prism, "RAD_TAN_THIN_PRISM_FISHEYE": fisheye_16,
    "SIMPLE_DIVISION": division, "DIVISION": division, "SIMPLE_FISHEYE": angles, "FISHEYE": angles, "EUCM": unified,
}  # fmt: skip


def bend(rays: Floats, model: str) -> Floats:
    """Where rays x/z, y/z [..., 2] leave a lens: the formulas of COLMAP's "Camera Models"."""
    k = {name: PARAMETERS[model].get(name, 0.0) for name in ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2")}
    x, y = rays[..., 0], rays[..., 1]
    if model in OTHERS:
        return np.stack(OTHERS[model](x, y, **{n: v for n, v in PARAMETERS[model].items() if n[0] != "f"}), axis=-1)
    if model.endswith("FISHEYE"):
        r = np.maximum(np.hypot(x, y), 1e-12)
        t = np.arctan(r)
        t2 = t * t
        scale = t * (1 + k["k1"] * t2 + k["k2"] * t2**2 + k["k3"] * t2**3 + k["k4"] * t2**4) / r
        return rays * scale[..., None]
    r2 = x * x + y * y
    radial = (1 + k["k1"] * r2 + k["k2"] * r2**2 + k["k3"] * r2**3) / (
        1 + k["k4"] * r2 + k["k5"] * r2**2 + k["k6"] * r2**3
    )
    across = x * radial + 2 * k["p1"] * x * y + k["p2"] * (r2 + 2 * x * x)
    down = y * radial + k["p1"] * (r2 + 2 * y * y) + 2 * k["p2"] * x * y
    return np.stack([across, down], axis=-1)


def unbend(places: Floats, model: str) -> Floats:
    """The rays that `bend` takes to these places, by Newton's method with differences."""
    rays = np.clip(places, -1, 1)
    for _ in range(40):
        error = bend(rays, model) - places
        if np.abs(error).max() < 1e-6:
            break
        across, down = (
            (bend(rays + np.array(step), model) - bend(rays, model)) / 1e-6 for step in ((1e-6, 0), (0, 1e-6))
        )
        slopes = np.stack([across, down], axis=-1)
        rays = rays - np.linalg.solve(slopes, error[..., None])[..., 0].clip(-0.3, 0.3)
    return rays


def pixels(of: Lens) -> Floats:
    """The centre of each pixel [H, W, 2], at a distance of 1 before a pinhole camera of these intrinsics."""
    across, down = np.meshgrid(np.arange(of.width) + 0.5, np.arange(of.height) + 0.5)
    return np.stack([(across - of.cx) / of.fx, (down - of.cy) / of.fy], axis=-1)


def world(rays: Floats) -> Floats:
    """A picture of the world: colours [..., 3] of rays, from 0 to 255."""
    x, y = rays[..., 0], rays[..., 1]
    waves = [np.sin(9 * x + 2 * y), np.sin(7 * y - 3 * x), np.sin(6 * x) * np.sin(6 * y)]
    return 127.5 + 120 * np.stack(waves, axis=-1)


# Of each family all coefficients, and one that bends the other way; test_every_model_of_colmap_is_read has the names.
FAMILIES = (
    "SIMPLE_RADIAL", "FULL_OPENCV", "FOV", "THIN_PRISM_FISHEYE", "RAD_TAN_THIN_PRISM_FISHEYE", "SIMPLE_DIVISION",
    "DIVISION", "EUCM",
)  # fmt: skip


@pytest.mark.parametrize("model", FAMILIES)
def test_a_straightened_picture_is_that_of_the_pinhole_camera(model: str) -> None:
    taken = lens(model)
    rays = unbend(pixels(taken), model)
    picture = world(rays).round().astype(np.uint8)
    pinhole = undistorted_lens(taken, model)
    assert not pinhole.distortion
    made = undistort(picture, taken, pinhole).astype(float)
    difference = np.abs(made - world(pixels(pinhole)))[2:-2, 2:-2]
    assert difference.mean() < 1
    assert difference.max() < 8
    # The lens's own picture is another one.
    assert np.abs(picture.astype(float) - world(pixels(pinhole))).mean() > 3


@pytest.mark.parametrize("model", PARAMETERS)
def test_a_pinhole_camera_shows_as_much_as_the_lens_did_and_no_more(model: str) -> None:
    taken = lens(model)
    pinhole = undistorted_lens(taken, model)
    assert (pinhole.width, pinhole.height, pinhole.cx, pinhole.cy) == (*WIDE, 103, 72)
    assert pinhole.fx / pinhole.fy == pytest.approx(taken.fx / taken.fy)
    share = np.linspace(0, 1, 101)
    border = np.concatenate(
        [np.stack([share * WIDE[0], np.full(101, side)], axis=1) for side in (0, WIDE[1])]
        + [np.stack([np.full(101, side), share * WIDE[1]], axis=1) for side in (0, WIDE[0])]
    )
    rays = (border - (pinhole.cx, pinhole.cy)) / (pinhole.fx, pinhole.fy)
    places = bend(rays, model) * (taken.fx, taken.fy) + (taken.cx, taken.cy)
    room = np.minimum(places, np.array(WIDE) - places)
    assert room.min() > -0.05
    assert room.min() < 0.05


def test_a_lens_that_bends_nothing_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    for model in ("PINHOLE", "OPENCV"):
        found = lens_of(model, WIDE, {"fx": 150.0, "fy": 150.0, "cx": 100.0, "cy": 75.0}, "a lens")
        assert found.distortion == Distortion()
        assert undistorted_lens(found, "a lens") is found
        picture = np.zeros((2, 2, 3), np.uint8)
        assert undistort(picture, found, found) is picture


@pytest.mark.parametrize(
    "distortion",
    [
        Distortion(POLYNOMIAL, (-1000.0, *[0.0] * 7)),
        Distortion(POLYNOMIAL, (0.0, 0.0, 1000.0, 1000.0, *[0.0] * 4)),
        Distortion(FISHEYE, (-1000.0, *[0.0] * 7)),
        Distortion(DIVISION, (1000.0,)),
        Distortion(UNIFIED, (-1000.0, 1.0)),
    ],
    ids=str,
)
def test_a_distortion_that_no_lens_has(distortion: Distortion) -> None:
    taken = Lens(*WIDE, 15, 15, 100, 75, distortion)
    with pytest.raises(SceneError, match="a lens: a distortion that can be taken out is required, found the coeff"):
        undistorted_lens(taken, "a lens")


def test_opencv_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"k1": 0.1})
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(SceneError, match=r"00\.png: .*OpenCV is required .*pip install 'opencv-python-headless>=4\.8'"):
        photograph_views(read_capture(folder), 50, 0)


def fields(found: Lens) -> tuple[Any, ...]:
    return found.fx, found.fy, found.cx, found.cy, found.distortion.coefficients, found.distortion.family


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("model", [name for name in LENS_MODELS if name != "EQUIRECTANGULAR"])
def test_every_model_of_colmap_is_read(tmp_path: Path, model: str, binary: bool) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", binary=binary)
    names, family = LENS_MODELS[model]
    values = {name: 20.0 + index if name[0] in "fc" else 0.01 * index for index, name in enumerate(names)}
    path = folder / "sparse" / "0" / f"cameras.{'bin' if binary else 'txt'}"
    number = [*LENS_MODELS].index(model)
    if binary:
        path.write_bytes(struct.pack(f"<QIiQQ{len(names)}d", 1, 7, number, 40, 30, *values.values()))
    else:
        path.write_text(f"7 {model} 40 30 {' '.join(map(str, values.values()))}\n")
    found = read_capture(folder).photographs[0].lens
    coefficients = tuple(values.get(name, 0.0) for name in family.coefficients)
    if not any(coefficients) and "FISHEYE" not in model:
        coefficients = ()
    focal = (values.get("fx", values.get("f")), values.get("fy", values.get("f")))
    assert fields(found) == (*focal, values["cx"], values["cy"], coefficients, family)


def test_the_numbers_of_the_models_are_those_of_colmap() -> None:
    """`CameraModelId` of COLMAP 4.2; the 18th is the last."""
    expected = {"SIMPLE_PINHOLE": 0, "OPENCV": 4, "FULL_OPENCV": 6, "FOV": 7, "THIN_PRISM_FISHEYE": 10}
    expected |= {"RAD_TAN_THIN_PRISM_FISHEYE": 11, "DIVISION": 13, "FISHEYE": 15, "EUCM": 16, "EQUIRECTANGULAR": 17}
    assert {name: [*LENS_MODELS].index(name) for name in expected} == expected
    assert [len(LENS_MODELS[name].parameters) for name in expected] == [3, 8, 12, 5, 12, 16, 5, 4, 6, 2]


def test_a_lens_that_no_picture_was_taken_with_is_not_looked_at(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", binary=False)
    path = folder / "sparse" / "0" / "cameras.txt"
    path.write_text(path.read_text() + "8 LATER_THAN_THIS 40 30 1 2 3\n9 PINHOLE 40 30 nan 1 1 1\n")
    assert len(read_capture(folder).photographs) == 10


@pytest.mark.parametrize(
    ("said", "coefficients", "family"),
    [
        ({"k1": 0.1, "k2": 0.2, "p1": 0.3, "p2": 0.4}, (0.1, 0.2, 0.3, 0.4, 0, 0, 0, 0), POLYNOMIAL),
        ({"camera_model": "SIMPLE_RADIAL", "k1": 0.1}, (0.1, 0, 0, 0, 0, 0, 0, 0), POLYNOMIAL),
        ({"k1": 0.1, "k3": 0.3, "k4": 0}, (0.1, 0, 0, 0, 0.3, 0, 0, 0), POLYNOMIAL),
        ({"camera_model": "FULL_OPENCV", "k1": 0.1, "k4": 0.4}, (0.1, 0, 0, 0, 0, 0.4, 0, 0), POLYNOMIAL),
        ({"camera_model": "OPENCV_FISHEYE", "k1": 0.1, "k4": 0.4}, (0.1, 0, 0, 0, 0, 0.4, 0, 0), FISHEYE),
        ({"camera_model": None, "is_fisheye": True, "k1": 0.1}, (0.1, 0, 0, 0, 0, 0, 0, 0), FISHEYE),
        ({"camera_model": "OPENCV_FISHEYE"}, (0,) * 8, FISHEYE),
        ({"camera_model": "OPENCV_FISHEYE", "p1": 0.1}, (0,) * 8, FISHEYE),
        ({"camera_model": "FOV", "omega": 0.9}, (0.9,), FIELD_OF_VIEW),
    ],
    ids=str,
)
def test_transforms_say_it_in_their_own_words(
    tmp_path: Path, said: dict[str, Any], coefficients: tuple[float, ...], family: Family
) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"k1": 0, **said})
    found = read_capture(folder).photographs[3].lens.distortion
    assert (found.coefficients, found.family) == (coefficients, family)


def test_a_capture_is_straightened_at_the_size_that_is_used(tmp_path: Path) -> None:
    said = {"k1": -0.2, "fl_x": 30.0, "fl_y": 30.0}
    folder = photographs.transforms_folder(tmp_path / "a", changes=said)
    capture = read_capture(folder)
    taken = capture.photographs[0].lens
    pinhole = undistorted_lens(taken, "a lens")
    across = np.degrees(2 * np.arctan(20 / pinhole.fx))
    assert across < np.degrees(2 * np.arctan(20 / 30)) + 5
    with pytest.warns(UserWarning, match=rf"1 of 1 are straightened, and show {across:.0f} degrees across and "):
        views = photograph_views(capture, 50, 0, Preparation(downscale=2))
    assert np.allclose(views.Ks[0], [[pinhole.fx / 2, 0, 10], [0, pinhole.fy / 2, 7.5], [0, 0, 1]])
    whole = np.asarray(Image.open(capture.photographs[0].path).convert("RGB"))
    expected = undistort(whole, taken, pinhole).reshape(15, 2, 20, 2, 3).mean(axis=(1, 3))
    assert np.abs(views.images[0].numpy() - expected).max() <= 1


def panorama(width: int, height: int) -> Any:
    """A panorama of a world around it, whose colours are the direction's x, y and z."""
    lon = (np.arange(width) + 0.5) / width * 2 * np.pi - np.pi
    lat = (np.arange(height) + 0.5) / height * np.pi - np.pi / 2  # downwards
    down, across = np.meshgrid(lat, lon, indexing="ij")
    directions = np.stack([np.sin(across) * np.cos(down), np.sin(down), np.cos(across) * np.cos(down)], axis=-1)
    return Image.fromarray((127.5 + 120 * directions).round().astype(np.uint8))


@pytest.mark.parametrize("kind", ["colmap", "transforms"])
def test_a_panorama_becomes_six_views_that_show_its_directions(tmp_path: Path, kind: str) -> None:
    if kind == "colmap":
        folder = photographs.colmap_folder(tmp_path / "a", binary=False)
        (folder / "sparse" / "0" / "cameras.txt").write_text("7 EQUIRECTANGULAR 400 200 400 200\n")
    else:
        changes = {"camera_model": "EQUIRECTANGULAR", "w": 400, "h": 200}
        folder = photographs.transforms_folder(tmp_path / "a", changes=changes)
    poses = {f"{index:02}.png": camera.viewmat for index, camera in enumerate(photographs.cameras(10))}
    for path in (folder / "images").iterdir():
        panorama(400, 200).save(path)
    with pytest.warns(UserWarning, match="10 panoramas are cut into 6 views of 90 degrees each"):
        capture = read_capture(folder)
    views = photograph_views(capture, 50, 0, Preparation(max_size=50))
    assert len(views) == 60
    assert views.sizes == [(50, 50)] * 60
    for view in range(6, 12):
        assert views.Ks[view].tolist() == [[25, 0, 25], [0, 25, 25], [0, 0, 1]]
        place = np.stack([*np.meshgrid(np.arange(50) + 0.5, np.arange(50) + 0.5), np.full((50, 50), 25.0)], axis=-1)
        rays = (place - (25, 25, 0)) / 25
        rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
        # From the view's camera to the panorama's.
        turn = (poses[views.names[view]] @ torch.linalg.inv(views.viewmats[view])).numpy()
        np.testing.assert_allclose(turn[:3, 3], 0, atol=1e-5)
        expected = 127.5 + 120 * rays @ turn[:3, :3].T
        assert np.abs(views.images[view].numpy() - expected).max() < 4


def test_a_panorama_is_unpacked_as_fine_as_its_views_are_used(tmp_path: Path) -> None:
    """A JPEG can be unpacked at a half, a fourth or an eighth of its size, and a view is a fourth of it."""
    waves = 127.5 + 100 * np.sin(np.arange(1600) * 2 * np.pi / 16)
    picture = Image.fromarray(np.broadcast_to(waves[None, :, None], (800, 1600, 3)).round().astype(np.uint8))
    taken = lens_of("EQUIRECTANGULAR", picture.size, {}, "a panorama")
    colors = []
    for name in ("a.png", "a.jpg"):
        picture.save(tmp_path / name, quality=95)
        colors.append(read_resized(tmp_path / name, (200, 200), lenses=(taken, undistorted_lens(taken, name))).colors)
    whole, drafted = (found.astype(float) for found in colors)
    assert np.abs(whole - 127).mean() > 40
    assert np.abs(whole - drafted).mean() < 10


def test_a_side_of_a_panorama_that_a_mask_hides_is_left_out(tmp_path: Path) -> None:
    changes = {"camera_model": "EQUIRECTANGULAR", "w": 400, "h": 200}
    folder = photographs.transforms_folder(tmp_path / "a", changes=changes)
    (folder / "masks").mkdir()
    ground = np.full((200, 400), 255, np.uint8)
    ground[135:] = 0
    for path in (folder / "images").iterdir():
        panorama(400, 200).save(path)
        Image.fromarray(ground).save(folder / "masks" / f"{path.name}.png")
    with pytest.warns(UserWarning, match="can be left out by masks"):
        views = photograph_views(read_capture(folder), 50, 0)
    assert len(views) == 50
    for path in (folder / "masks").iterdir():
        Image.fromarray(0 * ground).save(path)
    capture = read_capture(folder)
    with pytest.raises(SceneError, match="masks that leave some of the panoramas are required, found black ones"):
        photograph_views(capture, 50, 0)
