"""Scenes at the coordinates of a map: what a file has of them is kept in memory, for cameras and in the next file."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command_runs import run
from PIL import Image
from scene_files import some_scene

from splat.scene.camera import Camera, orbit
from splat.scene.camera_file import read_camera, write_camera
from splat.scene.camera_list import read_taken, write_cameras
from splat.scene.camera_path import CameraPath, read_path, write_path
from splat.scene.coordinates import NO_OFFSET, find_offset
from splat.scene.edits import crop_scene, merge_scenes, scale_scene, shift_scene
from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import Gaussians
from splat.view.crop_controls import slider_ends

UTM = (500_000.1, 4_600_000.2, 300.0)


def map_scene(count: int = 60) -> Gaussians:
    return shift_scene(some_scene(count, degree=0), UTM)


@pytest.mark.parametrize(
    ("points", "offset"),
    [
        (np.zeros((0, 3)), NO_OFFSET),
        (np.full((4, 3), np.nan), NO_OFFSET),
        (np.random.default_rng(0).normal(size=(100, 3)), NO_OFFSET),
        (np.random.default_rng(0).normal(size=(100, 3)) * 1e7, NO_OFFSET),
        (np.random.default_rng(0).normal(size=(100, 3)) + 100, NO_OFFSET),
        (np.random.default_rng(0).normal(size=(100, 3)) * 0.01 + UTM, (500_000.09375, 4_600_000.1875, 300)),
        (np.random.default_rng(0).normal(size=(10**6, 3)) + UTM, (500_000, 4_600_000, 300)),
        (np.array([UTM]), (500_000, 4_600_000, 300)),
        (np.array([[1e300, -1e300, 0], [1e300, 1e300, 1]]), NO_OFFSET),
        (np.full((9, 3), 1e300), NO_OFFSET),
    ],
)
def test_points_get_an_offset_where_float32_is_too_coarse(
    points: np.ndarray[tuple[int, int], np.dtype[np.float64]], offset: tuple[float, float, float]
) -> None:
    assert find_offset(points) == offset


def test_a_few_far_points_decide_nothing() -> None:
    points = np.random.default_rng(0).normal(size=(100, 3)) + UTM
    points[0], points[1], points[2] = 0, 1e30, np.inf
    assert find_offset(points) == (500_000, 4_600_000, 300)
    assert find_offset(points - UTM) == NO_OFFSET


@pytest.mark.parametrize("suffix", [".ply", ".sog", ".glb"])
def test_a_file_holds_coordinates_of_a_map(tmp_path: Path, suffix: str) -> None:
    scene = map_scene()
    write_scene(tmp_path / f"a{suffix}", scene)
    found = read_scene(tmp_path / f"a{suffix}")
    assert found.offset == scene.offset == (500_000, 4_600_000, 300)
    assert found.means.dtype == torch.float32
    places = [each.coordinates[each.coordinates[:, 0].argsort()] for each in (scene, found)]
    torch.testing.assert_close(*places, rtol=0, atol=1e-3 if suffix == ".sog" else 0)


def test_text_with_more_digits_than_float_has(tmp_path: Path) -> None:
    rows = "".join(f"{500_000 + i / 100} 4600000.12{i} 300\n" for i in range(9))
    head = "ply\nformat ascii 1.0\nelement vertex 9\n" + "".join(f"property float {axis}\n" for axis in "xyz")
    (tmp_path / "a.ply").write_text(f"{head}end_header\n{rows}")
    found = read_scene(tmp_path / "a.ply").coordinates
    assert (found - torch.tensor([500_000.04, 4_600_000.124, 300], dtype=torch.float64)).abs()[4].max() < 1e-6


def test_edits_lose_nothing_and_keep_to_the_files_coordinates() -> None:
    plain = some_scene(60, degree=0)
    scene = shift_scene(plain, UTM)
    torch.testing.assert_close(
        scene.coordinates, plain.coordinates + torch.tensor(UTM, dtype=torch.float64), rtol=0, atol=1e-6
    )
    back = shift_scene(scene, (-UTM[0], -UTM[1], -UTM[2]))
    assert back.offset == NO_OFFSET
    torch.testing.assert_close(back.means, plain.means, rtol=0, atol=1e-6)
    x, y, z = UTM
    assert len(crop_scene(scene, (x, y - 9e9, z - 9e9), (x + 9e9, y + 9e9, z + 9e9))) == int(
        (plain.means[:, 0] >= 0).sum()
    )
    cropped = crop_scene(scene, (x - 1, y - 1, z - 1), (x + 1, y + 1, z + 1))
    assert cropped.offset == scene.offset
    apart = merge_scenes([scene, shift_scene(scene, (1000, 0, 0))])
    torch.testing.assert_close(
        apart.coordinates[60:], scene.coordinates + torch.tensor([1000.0, 0, 0], dtype=torch.float64), rtol=0, atol=1e-3
    )
    half = scale_scene(scene, 0.5)
    torch.testing.assert_close(half.coordinates, scene.coordinates / 2, rtol=0, atol=1e-6)


def test_cameras_are_in_the_files_coordinates(tmp_path: Path) -> None:
    scene = map_scene()
    camera = orbit(scene, 40, 30, azimuth=30, elevation=20)
    write_camera(tmp_path / "camera.json", camera, scene.offset)
    write_cameras(tmp_path / "cameras.json", [camera], ["a"], scene.offset)
    write_path(tmp_path / "path.json", CameraPath((camera,)), scene.offset)
    written = json.loads((tmp_path / "camera.json").read_text())
    assert np.linalg.norm(np.array(written["position"]) - UTM) < 1000
    assert np.allclose(json.loads((tmp_path / "cameras.json").read_text())[0]["position"], written["position"], rtol=0)
    matrix = np.eye(4)
    matrix[:3, :3] = camera.viewmat[:3, :3]
    matrix[:3, 3] = -matrix[:3, :3] @ written["position"]
    given = {**written, "viewmat": matrix.tolist()}
    (tmp_path / "matrix.json").write_text(
        json.dumps({k: v for k, v in given.items() if k not in ("position", "rotation")})
    )
    for found in (
        read_camera(tmp_path / "camera.json", scene),
        read_camera(tmp_path / "matrix.json", scene),
        read_taken(tmp_path / "cameras.json", scene)[0].camera,
        read_path(tmp_path / "path.json", scene).keyframes[0],
    ):
        torch.testing.assert_close(found.viewmat, camera.viewmat, rtol=0, atol=1e-5)


def test_a_nerfstudio_path_is_in_the_files_coordinates(tmp_path: Path) -> None:
    there = [1, 0, 0, UTM[0], 0, 1, 0, UTM[1], 0, 0, 1, UTM[2] + 4, 0, 0, 0, 1]
    frames = [{"camera_to_world": there, "fov": 50}]
    values = {"camera_type": "perspective", "render_width": 40, "render_height": 30, "camera_path": frames}
    (tmp_path / "a.json").write_text(json.dumps(values))
    (found,) = read_path(tmp_path / "a.json", map_scene()).keyframes
    torch.testing.assert_close(found.pose()[0], torch.tensor([0.1, 0.2, 4]).double(), rtol=0, atol=1e-6)


def test_the_picture_is_the_same_as_at_the_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = some_scene(60, degree=0)
    write_scene(tmp_path / "a.ply", plain)
    write_scene(tmp_path / "b.ply", shift_scene(plain, UTM))
    camera = orbit(plain, 40, 30, azimuth=30, elevation=20)
    write_camera(tmp_path / "a.json", camera)
    write_camera(tmp_path / "b.json", Camera(**vars(camera)), UTM)
    pictures = []
    for name in "ab":
        out = tmp_path / f"{name}.png"
        status, _, err = run(
            capsys, "render", tmp_path / f"{name}.ply", "--camera", tmp_path / f"{name}.json", "-o", out
        )
        assert (status, err) == (0, "")
        pictures.append(np.asarray(Image.open(out), np.int64))
    assert pictures[0].std() > 5
    assert np.abs(pictures[0] - pictures[1]).max() <= 1


@pytest.mark.parametrize("suffix", [".splat", ".spz", ".compressed.ply"])
def test_a_file_that_loses_centimetres_says_what_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    scene = replace(map_scene(), scales=torch.full((60, 3), 0.1))
    write_scene(tmp_path / "a.ply", scene)
    status, _, err = run(capsys, "convert", tmp_path / "a.ply", tmp_path / f"a{suffix}")
    assert status == 0
    assert "centres are rounded to steps of " in err
    assert "near 500000,4600000,300; .ply and .sog hold them" in err
    advised = "-500000,-4600000,-300"
    assert f"`splat convert --translate {advised}`" in err
    status, _, err = run(capsys, "convert", tmp_path / "a.ply", tmp_path / f"b{suffix}", "--translate", advised)
    assert (status, err) == (0, "")
    assert find_offset(read_scene(tmp_path / f"b{suffix}").coordinates.numpy()) == NO_OFFSET


def test_info_shows_the_files_coordinates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scene(tmp_path / "a.ply", map_scene())
    status, out, _ = run(capsys, "info", tmp_path / "a.ply", "--json")
    report = json.loads(out)
    assert (status, report["offset"]) == (0, [500_000, 4_600_000, 300])
    assert report["quantiles"]["y"]["50%"] == pytest.approx(UTM[1], abs=2)
    assert report["visible_box"]["lower"] == pytest.approx(UTM, abs=9)
    _, out, _ = run(capsys, "info", tmp_path / "a.ply")
    assert "coordinates of a map; in memory the offset 500000,4600000,300 is taken off them" in out
    assert f"{report['quantiles']['y']['max']:.3f}"[:-1] in out
    write_scene(tmp_path / "b.ply", shift_scene(map_scene(), (-9_000_000, 0, 0)))
    _, out, _ = run(capsys, "info", tmp_path / "b.ply")
    assert {len(line.split()) for line in out.splitlines() if line.startswith(("x ", "y ", "z "))} == {6}


def test_a_page_has_coordinates_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = replace(map_scene(), scales=torch.full((60, 3), 0.1))
    write_scene(tmp_path / "a.ply", scene)
    status, _, err = run(capsys, "export", tmp_path / "a.ply", "-o", tmp_path / "a.html")
    assert (status, err) == (0, "")
    found = re.search(r"[\w+/]{400,}=*", (tmp_path / "a.html").read_text())
    assert found
    (tmp_path / "a.spz").write_bytes(base64.b64decode(found.group()))
    torch.testing.assert_close(read_scene(tmp_path / "a.spz").means, scene.means, rtol=0, atol=1e-3)


def test_the_viewer_crops_and_saves_in_the_files_coordinates() -> None:
    plain = some_scene(60, degree=0)
    scene = shift_scene(plain, UTM)
    ends, there = slider_ends(plain), slider_ends(scene)
    assert np.abs(np.array(there) - ends - UTM).max() < 0.2, "as many digits as their distance needs"
    lower, upper = (tuple(np.array(corner) / 2) for corner in ends)
    box = tuple(np.array(lower) + UTM), tuple(np.array(upper) + UTM)
    assert torch.equal(crop_scene(scene, *box).scales, crop_scene(plain, lower, upper).scales)
