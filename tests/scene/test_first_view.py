"""How a scene is first seen: by the cameras that it was fitted to, or the right way up."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import photographs
import pytest
import torch
from PIL import Image

from splat.cli import main
from splat.scene.camera import UP, Camera, hidden_share, orbit, seen_share
from splat.scene.camera_list import cameras_path, find_cameras, read_cameras, up_of, write_cameras
from splat.scene.formats import write_scene
from splat.scene.gaussians import Gaussians, SceneError


def render(scene: Path, *options: str) -> npt.NDArray[Any]:
    out = scene.with_name("picture.png")
    assert main(["render", str(scene), "-o", str(out), "--device", "cpu", *options]) == 0
    return np.asarray(Image.open(out), dtype=float)


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    write_scene(tmp_path / "knot.ply", photographs.knot())
    return tmp_path / "knot.ply"


def taken() -> list[Camera]:
    return photographs.cameras(10)


# The list


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "cameras.json"
    write_cameras(path, taken(), [f"{index}.png" for index in range(10)])
    for found, camera in zip(read_cameras(path), taken(), strict=True):
        torch.testing.assert_close(found.viewmat, camera.viewmat, rtol=0, atol=1e-6)
        torch.testing.assert_close(found.K, camera.K)
        assert (found.width, found.height) == (camera.width, camera.height)
    first = json.loads(path.read_text())[0]
    assert first["img_name"] == "0.png"
    # What 3DGS writes: the camera's place, and its axes as columns.
    place = torch.linalg.inv(taken()[0].viewmat.double())
    assert first["position"] == pytest.approx(place[:3, 3].tolist(), abs=1e-6)
    assert np.allclose(first["rotation"], place[:3, :3].numpy(), atol=1e-6)


def test_a_list_of_3dgs_has_no_principal_point(tmp_path: Path) -> None:
    path = tmp_path / "cameras.json"
    values = {"id": 0, "img_name": "a", "width": 40, "height": 30, "position": [1, 2, 3], "fx": 50.0, "fy": 51.0}
    path.write_text(json.dumps([{**values, "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}]))
    (camera,) = read_cameras(path)
    assert camera.K.tolist() == [[50, 0, 20], [0, 51, 15], [0, 0, 1]]
    assert camera.viewmat[:3, 3].tolist() == [-1, -2, -3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "camera 0: a size from 1 to 16384 pixels is required, found 0x30"),
        ({"width": "40"}, "camera 0: width, a number of at most 1e[+]09, is required, found '40'"),
        ({"fx": -1}, "camera 0: focal lengths of at least 1e-15 are required"),
        ({"fx": None}, "camera 0: fx, a number"),
        ({"cx": [1]}, "camera 0: cx, a number"),
        ({"position": [1, 2]}, "camera 0: position, 3 numbers, is required"),
        ({"position": [1, 2, 1e300]}, "camera 0: position, a number of at most"),
        ({"rotation": [1, 2, 3]}, "camera 0: rotation, 3 numbers, is required"),
        ({"rotation": [[1, 0, 0], [0, 1, 0]]}, "camera 0: rotation, 3 rows of 3 numbers, is required"),
        ({"rotation": [[2, 0, 0], [0, 1, 0], [0, 0, 1]]}, "camera 0: a rotation without scale or reflection"),
        ({"rotation": [[-1, 0, 0], [0, 1, 0], [0, 0, 1]]}, "camera 0: a rotation without scale or reflection"),
    ],
    ids=str,
)
def test_lists_that_are_damaged(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "cameras.json"
    write_cameras(path, taken()[:1], ["a.png"])
    values = json.loads(path.read_text())
    path.write_text(json.dumps([{**values[0], **changes}]))
    with pytest.raises(SceneError, match=message) as raised:
        read_cameras(path)
    assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize("text", ["{}", "[]", "[3]", "null", "[" * 10_000, '[{"rotation": NaN}]'])
def test_what_is_no_list_of_cameras(tmp_path: Path, text: str) -> None:
    (tmp_path / "cameras.json").write_text(text)
    with pytest.raises(SceneError, match=r"cameras\.json: .* required"):
        read_cameras(tmp_path / "cameras.json")


def test_up_is_what_most_pictures_have_above() -> None:
    scene = photographs.knot()
    around = [orbit(scene, 40, 30, azimuth=36 * index, elevation=30, up="z") for index in range(10)]
    found = up_of(around)
    assert found == pytest.approx((0, 0, 1), abs=1e-6)
    ceiling_and_floor = [orbit(scene, 40, 30, elevation=10, up=axis) for axis in ("y", "-y")]
    assert up_of(ceiling_and_floor) is None or abs(up_of(ceiling_and_floor)[1]) < 0.1  # type: ignore[index]


def test_where_the_cameras_are_looked_for(tmp_path: Path) -> None:
    assert cameras_path(Path("a/b.compressed.ply")) == Path("a/b.cameras.json")
    assert cameras_path(Path("a/b.c.spz")) == Path("a/b.c.cameras.json")
    folder = tmp_path / "point_cloud" / "iteration_30000"
    folder.mkdir(parents=True)
    scene = folder / "point_cloud.ply"
    assert find_cameras(scene) is None
    for place in (tmp_path / "cameras.json", folder / "cameras.json", folder / "point_cloud.cameras.json"):
        place.write_text("[]")
        assert find_cameras(scene) == place


# The first picture


def test_a_fit_is_first_seen_as_the_first_photograph_that_it_was_fitted_to(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    out = tmp_path / "out" / "scene.ply"
    out.parent.mkdir()
    assert main(["fit", str(folder), "-o", str(out), "--steps", "120", "--gaussians", "600", "--device", "cpu"]) == 0
    assert len(read_cameras(out.with_name("scene.cameras.json"))) == 10
    # 00.png is held out: nothing was done about what is before its camera.
    photograph = np.asarray(Image.open(folder / "images" / "01.png"), dtype=float)
    assert render(out).shape == (600, 800, 3)
    found = render(out, "--size", "40x30")
    error = np.abs(found - photograph).mean()
    assert error < 20
    turned = np.abs(found[::-1, ::-1] - photograph).mean()
    assert error < turned / 2
    larger = render(out, "--size", "80x60").reshape(30, 2, 40, 2, 3).mean(axis=(1, 3))
    assert np.abs(larger - found).mean() < 8
    # Options say where to look from.
    assert np.abs(render(out, "--azimuth", "100", "--size", "40x30") - photograph).mean() > 2 * error


def test_a_scene_without_cameras_is_seen_as_colmap_has_it(scene: Path) -> None:
    small = ("--size", "64x48")
    plain = scene.with_name("plain.ply")
    write_scene(plain, replace(photographs.knot(), up=None))
    assert np.array_equal(render(plain, *small), render(plain, *small, "--up", "-y"))
    built_in, upright = scene.with_name("a.png"), scene.with_name("b.png")
    for out, options in ((built_in, []), (upright, ["--up", "y"])):
        assert main(["render", "-o", str(out), "--device", "cpu", *small, *options]) == 0
    assert built_in.read_bytes() == upright.read_bytes()


def test_cameras_that_are_damaged_are_said_and_not_used(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene.with_name("cameras.json").write_text('{"scenes": 3}')
    found = render(scene, "--size", "64x48")
    assert "warning: the cameras beside the scene are not used: " in capsys.readouterr().err
    scene.with_name("cameras.json").unlink()
    assert np.array_equal(found, render(scene, "--size", "64x48"))


def test_cameras_of_another_scene_are_not_used(scene: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = render(scene, "--size", "64x48")
    path = scene.with_name("cameras.json")
    write_cameras(path, taken(), [str(index) for index in range(10)])
    assert np.abs(render(scene, "--size", "64x48") - plain).mean() > 5
    assert capsys.readouterr().err == ""
    away = torch.diag(torch.tensor([-1.0, 1.0, -1.0, 1.0])) @ taken()[0].viewmat
    write_cameras(path, [Camera(away, taken()[0].K, 40, 30, 0.01)], ["0"])
    assert np.array_equal(render(scene, "--size", "64x48"), plain)
    assert "cameras that see the scene are required, found the first one looking past it" in capsys.readouterr().err


def test_what_a_camera_shows_of_a_scene() -> None:
    camera, whole = orbit(photographs.knot(), 80, 60, distance=3), orbit(photographs.knot(), 80, 60, distance=0.05)
    assert seen_share(camera, photographs.knot()) > 0.99
    assert 0 <= seen_share(whole, photographs.knot()) < 0.9


def in_room(distance: float, size: float, count: int) -> Gaussians:
    """The knot, in the middle of a shell of large white Gaussians."""
    knot, generator = photographs.knot(), torch.Generator().manual_seed(1)
    lower, upper = knot.bounds()
    radius = float((upper - lower).norm()) / 2
    places = torch.nn.functional.normalize(torch.randn(count, 3, generator=generator), dim=1)
    means = torch.cat([knot.means, (lower + upper) / 2 + distance * radius * places])
    scales = torch.cat([knot.scales, torch.full((count, 3), size * radius)])
    quats = torch.cat([knot.quats, torch.tensor([[1.0, 0, 0, 0]]).repeat(count, 1)])
    opacities = torch.cat([knot.opacities, torch.full((count,), 0.9)])
    sh = torch.cat([knot.sh, torch.zeros(count, *knot.sh.shape[1:])])
    sh[len(knot) :, 0] = 0.5 / 0.28209479177387814
    return Gaussians(means, quats, scales, opacities, sh, up="y")


@pytest.mark.parametrize(
    ("distance", "size", "share"), [(3, 1, 0.01), (40, 8, 0.2)], ids=["camera in the shell", "camera outside of it"]
)
def test_a_scene_in_a_large_room_is_first_seen_from_within(
    tmp_path: Path, distance: float, size: float, share: float
) -> None:
    count = int(share * len(photographs.knot()))
    room, path = in_room(distance, size, count), tmp_path / "room.ply"
    write_scene(path, room)
    white = (render(path, "--size", "64x48", "--up", "y") > 250).all(axis=2).mean()
    assert (render(path, "--size", "64x48", "--up", "y", "--distance", "0.9") > 250).all(axis=2).mean() > 0.8
    assert white < 0.6
    hidden = orbit(room, 64, 48, azimuth=45, elevation=20, fov=40, distance=0.9)
    assert hidden_share(hidden, room) > 0.9
    assert hidden_share(hidden, photographs.knot()) == 0


def test_pictures_of_another_size_show_the_whole_one() -> None:
    camera = taken()[0]
    wide, high = camera.of_size(120, 60), camera.of_size(60, 120)
    assert 60 / float(wide.K[1, 1]) == pytest.approx(30 / float(camera.K[1, 1]))
    assert 60 / float(high.K[0, 0]) == pytest.approx(40 / float(camera.K[0, 0]))
    assert wide.K[:2, 2].tolist() == [60, 30]
    # One that was taken upright, too: its corners are in pictures of every shape.
    upright = camera.of_size(30, 40)
    for width, height in ((80, 20), (20, 80), (50, 50), (30, 40), (1, 9)):
        K = upright.of_size(width, height).K
        corners = (torch.tensor([[0.0, 0], [30, 40]]) - upright.K[:2, 2]) / upright.K[[0, 1], [0, 1]]
        places = corners * K[[0, 1], [0, 1]] + K[:2, 2]
        assert (places > -1e-3).all()
        assert (places < torch.tensor([width, height]) + 1e-3).all()
        assert (places[1] - places[0]).div(torch.tensor([width, height])).max() == pytest.approx(1, abs=1e-4)
    aside = Camera(camera.viewmat, camera.K + torch.tensor([[0, 0, 3.0], [0, 0, -2], [0, 0, 0]]), 40, 30, 0.01)
    assert aside.of_size(80, 60).K[:2, 2].tolist() == [46, 26]
    assert aside.of_size(100, 60).K[:2, 2].tolist() == [56, 26]
    assert math.isclose(sum(axis * axis for axis in UP["-y"]), 1)
