"""Lenses that bend straight lines: what is read of them, and pictures of theirs that were straightened."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import photographs
import pytest
from PIL import Image

from splat.fit.photograph_views import Preparation, photograph_views
from splat.photos.folders import read_capture
from splat.photos.lens import LENS_MODELS, Distortion, Lens, lens_of
from splat.photos.straightening import straight, straightened
from splat.scene.gaussians import SceneError

pytestmark = pytest.mark.once

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
}  # fmt: skip


def lens(model: str) -> Lens:
    return lens_of(model, WIDE, {"cx": 103.0, "cy": 72.0, **PARAMETERS[model]}, model)


def bend(rays: Floats, model: str) -> Floats:
    """Where rays x/z, y/z [..., 2] leave a lens: the formulas of COLMAP's "Camera Models"."""
    k = {name: PARAMETERS[model].get(name, 0.0) for name in ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2")}
    x, y = rays[..., 0], rays[..., 1]
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
    for _ in range(60):
        error = bend(rays, model) - places
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


@pytest.mark.parametrize("model", PARAMETERS)
def test_a_straightened_picture_is_that_of_the_pinhole_camera(model: str) -> None:
    taken = lens(model)
    rays = unbend(pixels(taken), model)
    picture = world(rays).round().astype(np.uint8)
    pinhole = straight(taken, model)
    assert not pinhole.distortion
    made = straightened(picture, taken, pinhole).astype(float)
    difference = np.abs(made - world(pixels(pinhole)))[2:-2, 2:-2]
    assert difference.mean() < 1
    assert difference.max() < 8
    # The lens's own picture is another one.
    assert np.abs(picture.astype(float) - world(pixels(pinhole))).mean() > 3


@pytest.mark.parametrize("model", PARAMETERS)
def test_a_pinhole_camera_shows_as_much_as_the_lens_did_and_no_more(model: str) -> None:
    taken = lens(model)
    pinhole = straight(taken, model)
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
        assert straight(found, "a lens") is found
        picture = np.zeros((2, 2, 3), np.uint8)
        assert straightened(picture, found, found) is picture


@pytest.mark.parametrize(
    "distortion",
    [
        Distortion((-1000.0, *[0.0] * 7)),
        Distortion((0.0, 0.0, 1000.0, 1000.0, *[0.0] * 4)),
        Distortion((-1000.0, 0.0, 0.0, 0.0), fisheye=True),
    ],
    ids=str,
)
def test_a_distortion_that_no_lens_has(distortion: Distortion) -> None:
    taken = Lens(*WIDE, 15, 15, 100, 75, distortion)
    with pytest.raises(SceneError, match="a lens: a distortion that can be taken out is required, found the coeff"):
        straight(taken, "a lens")


def test_opencv_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"k1": 0.1})
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(SceneError, match=r"00\.png: .*OpenCV is required .*pip install 'opencv-python-headless>=4\.8'"):
        photograph_views(read_capture(folder), 50, 0)


def fields(found: Lens) -> tuple[Any, ...]:
    return found.fx, found.fy, found.cx, found.cy, found.distortion.coefficients, found.distortion.fisheye


@pytest.mark.parametrize("model", LENS_MODELS)
def test_every_model_of_colmap_is_read(tmp_path: Path, model: str) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", binary=False)
    names = LENS_MODELS[model]
    values = {name: 0.01 * index if name[0] in "kp" else 20.0 + index for index, name in enumerate(names)}
    said = f"7 {model} 40 30 {' '.join(str(values[name]) for name in names)}\n"
    (folder / "sparse" / "0" / "cameras.txt").write_text(said)
    found = read_capture(folder).photographs[0].lens
    order = ("k1", "k2", "k3", "k4") if "FISHEYE" in model else ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
    coefficients = tuple(values.get(name, 0.0) for name in order)
    if not any(coefficients) and "FISHEYE" not in model:
        coefficients = ()
    focal = (values.get("fx", values.get("f")), values.get("fy", values.get("f")))
    assert fields(found) == (*focal, values["cx"], values["cy"], coefficients, "FISHEYE" in model)


@pytest.mark.parametrize(
    ("said", "coefficients", "fisheye"),
    [
        ({"k1": 0.1, "k2": 0.2, "p1": 0.3, "p2": 0.4}, (0.1, 0.2, 0.3, 0.4, 0, 0, 0, 0), False),
        ({"camera_model": "SIMPLE_RADIAL", "k1": 0.1}, (0.1, 0, 0, 0, 0, 0, 0, 0), False),
        ({"k1": 0.1, "k3": 0.3, "k4": 0}, (0.1, 0, 0, 0, 0.3, 0, 0, 0), False),
        ({"camera_model": "FULL_OPENCV", "k1": 0.1, "k4": 0.4}, (0.1, 0, 0, 0, 0, 0.4, 0, 0), False),
        ({"camera_model": "OPENCV_FISHEYE", "k1": 0.1, "k4": 0.4}, (0.1, 0, 0, 0.4), True),
        ({"camera_model": None, "is_fisheye": True, "k1": 0.1}, (0.1, 0, 0, 0), True),
        ({"camera_model": "OPENCV_FISHEYE"}, (0, 0, 0, 0), True),
    ],
    ids=str,
)
def test_transforms_say_it_in_their_own_words(
    tmp_path: Path, said: dict[str, Any], coefficients: tuple[float, ...], fisheye: bool
) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"k1": 0, **said})
    found = read_capture(folder).photographs[3].lens.distortion
    assert (found.coefficients, found.fisheye) == (coefficients, fisheye)


def test_a_capture_is_straightened_at_the_size_that_is_used(tmp_path: Path) -> None:
    said = {"k1": -0.2, "fl_x": 30.0, "fl_y": 30.0}
    folder = photographs.transforms_folder(tmp_path / "a", changes=said)
    capture = read_capture(folder)
    taken = capture.photographs[0].lens
    pinhole = straight(taken, "a lens")
    across = np.degrees(2 * np.arctan(20 / pinhole.fx))
    assert across < np.degrees(2 * np.arctan(20 / 30)) + 5
    with pytest.warns(UserWarning, match=rf"1 of 1 are straightened, and show {across:.0f} degrees across and "):
        views = photograph_views(capture, 50, 0, Preparation(downscale=2))
    assert np.allclose(views.Ks[0], [[pinhole.fx / 2, 0, 10], [0, pinhole.fy / 2, 7.5], [0, 0, 1]])
    whole = np.asarray(Image.open(capture.photographs[0].path).convert("RGB"))
    expected = straightened(whole, taken, pinhole).reshape(15, 2, 20, 2, 3).mean(axis=(1, 3))
    assert np.abs(views.images[0].numpy() - expected).max() <= 1
