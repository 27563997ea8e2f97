"""Colours of any type of number: of scenes, of points that captures have, and of pictures in arrays."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from ply_files import columns, ply

from splat.fit.picture_views import read_views
from splat.photos.capture import read_cloud
from splat.scene.colors import unit_colors
from splat.scene.formats import read_scene
from splat.scene.gaussians import SH_C0, SceneError

SHARES = np.array([[0.0, 0.2, 1.0], [0.4, 0.6, 0.8], [0.01, 0.02, 0.03]] * 3)
RGB = ("red", "green", "blue")
MAXIMA = {"u1": 255, "i1": 127, "u2": 65535, "i2": 32767, "u4": 2**32 - 1, "i4": 2**31 - 1}


@pytest.mark.parametrize(
    ("kind", "brightest"),
    [*MAXIMA.items(), ("u2", 255), ("i2", 255), ("i4", 255), ("u4", 65535), ("i8", 255)]
    + [(kind, most) for kind in ("f4", "f8") for most in (1, 255, 65535)],
)
def test_the_type_says_what_is_brightest(kind: str, brightest: int) -> None:
    values = SHARES * brightest
    values = (values if kind[0] == "f" else np.rint(values)).astype(kind)
    found = unit_colors(values, np.dtype(kind))
    assert found.dtype == np.float32
    assert np.abs(found - SHARES).max() <= 0.51 / min(brightest, 10**4) + (kind[0] == "f") * 1e-6


@pytest.mark.parametrize("over", [1.02, 1.5, 40.0])
def test_a_few_floats_above_1_do_not_make_bytes_of_the_others(over: float) -> None:
    values = np.concatenate([SHARES, [[over, 0.5, 0.5]]]).astype(np.float32)
    assert np.array_equal(unit_colors(values, values.dtype), values)
    dark = np.concatenate([np.zeros((90, 3)), 255 * SHARES]).astype(np.float32)
    assert np.abs(unit_colors(dark, dark.dtype)[90:] - SHARES).max() < 1e-6, "black says nothing"
    nothing = np.zeros((0, 3), np.float32)
    assert unit_colors(nothing, nothing.dtype).shape == (0, 3)


def cloud(path: Path, values: np.ndarray, kind: str) -> Path:
    points = {name: columns(len(values))[name] for name in "xyz"}
    colors = {name: values[:, i] for i, name in enumerate(RGB)}
    data = ply({**points, **colors}, types=dict.fromkeys(RGB, kind))
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("kind", "brightest"), [("ushort", 65535), ("short", 32767), ("uchar", 255), ("float", 1)])
def test_scenes_and_the_points_of_captures_have_the_same_colors(tmp_path: Path, kind: str, brightest: int) -> None:
    values = SHARES * brightest if kind == "float" else np.rint(SHARES * brightest)
    if kind == "float":
        values[0, 2] = 1.02
    path = cloud(tmp_path / "a.ply", values, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, colors = read_cloud(path)
    assert np.abs(colors / 255 - SHARES).max() < 0.51 / 255
    with pytest.warns(UserWarning, match="a point cloud, whose points have no sizes") as caught:
        scene = read_scene(path)
    assert len(caught) == 1
    assert np.abs((0.5 + SH_C0 * scene.sh[:, 0]).numpy() - SHARES).max() < 0.021


def test_colors_of_different_types_are_refused(tmp_path: Path) -> None:
    data = cloud(tmp_path / "a.ply", 255 * SHARES, "uchar").read_bytes()
    whole = {name: columns(3)[name] for name in "xyz"} | dict.fromkeys(RGB, np.zeros(3))
    (tmp_path / "a.ply").write_bytes(ply(whole, types={"red": "uchar", "green": "short", "blue": "uchar"}))
    assert data
    with pytest.raises(SceneError, match=r"a\.ply: red, green and blue must be of one type, found i2, u1"):
        read_scene(tmp_path / "a.ply")


def test_gaussians_without_sizes_are_named(tmp_path: Path) -> None:
    values = {name: value for name, value in columns().items() if not name.startswith("scale_")}
    (tmp_path / "a.ply").write_bytes(ply(values))
    with pytest.warns(UserWarning, match=r"a\.ply: the Gaussians have no sizes: .* balls of a guessed size are drawn"):
        read_scene(tmp_path / "a.ply")


@pytest.mark.parametrize(("kind", "brightest"), [("uint8", 255), ("uint16", 65535), ("float32", 1), ("float64", 255)])
def test_pictures_in_arrays(tmp_path: Path, kind: str, brightest: int) -> None:
    share = np.linspace(0.1, 1, 2 * 6 * 8 * 3).reshape(2, 6, 8, 3)
    arrays = {
        "images": (share * brightest).astype(kind),
        "viewmats": np.stack([np.eye(4)] * 2),
        "Ks": np.stack([np.diag([10.0, 10, 1])] * 2),
        "points": np.array([[0.2, 0.2, 1.0]] * 2),
        "colors": np.array([[0.5, 0.2, 1.0]] * 2) * brightest,
    }
    arrays["colors"] = arrays["colors"].astype(kind)
    np.savez(tmp_path / "a.npz", **arrays)
    views = read_views([tmp_path / "a.npz"], 10, 0)
    assert np.abs(torch.stack(views.images).numpy() - share).max() < 1.01 / 255
    assert np.abs(views.colors.numpy() - [0.5, 0.2, 1.0]).max() < 1.01 / 255
