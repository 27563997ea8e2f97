"""Camera paths: what is written is read, the way between keyframes, others' files, and damaged and hostile ones."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from cameras import EYE, GOOD, camera, changed, check, middle_of, mutated, place, some_cameras
from mutations import how_many
from scene_files import some_scene
from torch import Tensor

from splat.scene.camera import UP, Camera, orbit
from splat.scene.camera_list import write_cameras
from splat.scene.camera_motion import camera_at, cameras_along, cameras_around
from splat.scene.camera_path import MOST_KEYFRAMES, CameraPath, read_path, write_path
from splat.scene.gaussians import SceneError


def about_y(degrees: float) -> list[float]:
    half = math.radians(degrees) / 2
    return [math.cos(half), 0, math.sin(half), 0]


def angle(one: Camera, other: Camera) -> float:
    """Degrees between two cameras' rotations."""
    trace = float(torch.trace(one.viewmat[:3, :3].double() @ other.viewmat[:3, :3].double().T))
    return math.degrees(math.acos(min(1, max(-1, (trace - 1) / 2))))


def same(one: Camera, other: Camera) -> bool:
    return torch.equal(one.viewmat, other.viewmat) and torch.equal(one.K, other.K) and one.near == other.near


def written(folder: Path, content: object) -> Path:
    path = folder / "path.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = CameraPath(some_cameras(3), seconds=2.5, fps=24, closed=True)
    write_path(tmp_path / "a.json", path)
    found = read_path(tmp_path / "a.json")
    assert all(same(one, other) for one, other in zip(found.keyframes, path.keyframes, strict=True))
    assert (found.seconds, found.fps, found.closed) == (2.5, 24, True)

    write_path(tmp_path / "a.json", CameraPath(path.keyframes[:1]))
    found = read_path(tmp_path / "a.json")
    assert (len(found.keyframes), found.seconds, found.fps, found.closed) == (1, None, None, False)


@pytest.mark.parametrize("closed", [False, True])
def test_keyframes_are_passed_exactly(closed: bool) -> None:
    path = CameraPath(some_cameras(5), closed=closed)
    found = list(cameras_along(path, 50 if closed else 41))
    assert all(same(found[10 * number], keyframe) for number, keyframe in enumerate(path.keyframes))
    assert len(found) == (50 if closed else 41)
    if not closed:
        assert same(found[-1], path.keyframes[-1])


def test_the_middle_between_two_cameras() -> None:
    ends = camera((0, 0, 0), about_y(10), fov=30, near=0.1), camera((2, 4, 6), about_y(90), fov=60, near=0.4)
    middle = camera_at(CameraPath(ends), 0.5)
    assert place(middle).tolist() == pytest.approx([1, 2, 3], abs=1e-6)
    assert angle(middle, camera(rotation=about_y(50))) < 0.1
    assert middle.K[0, 0].item() == pytest.approx(math.sqrt(ends[0].K[0, 0].item() * ends[1].K[0, 0].item()))
    assert middle.near == pytest.approx(0.2)
    assert (middle.width, middle.height) == (80, 60)


def test_the_speed_is_the_same_on_a_straight_and_even_way() -> None:
    path = CameraPath(tuple(camera((3 * n, 0, 0), about_y(20 * n)) for n in range(4)))
    found = list(cameras_along(path, 31))
    assert [place(one)[0].item() for one in found] == pytest.approx([0.3 * n for n in range(31)], abs=1e-5)
    assert [angle(found[0], one) for one in found] == pytest.approx([2 * n for n in range(31)], abs=0.06)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (about_y(0), about_y(350)),
        (about_y(0), [-part for part in about_y(350)]),
        (about_y(-85), about_y(-95)),  # whose largest components, w and y, have different signs
    ],
)
def test_rotations_go_the_shortest_way(start: list[float], end: list[float]) -> None:
    path = CameraPath((camera(rotation=start), camera(rotation=end)))
    assert [angle(path.keyframes[0], one) for one in cameras_along(path, 11)] == pytest.approx(list(range(11)), abs=0.1)


def test_a_square_becomes_round() -> None:
    scene = some_scene()
    corners = tuple(orbit(scene, 64, 48, azimuth=45 + 90 * n, elevation=20) for n in range(4))
    found = cameras_along(CameraPath(corners, closed=True), 40)
    distances = [float((place(one) - middle_of(scene)).norm()) for one in found]
    # A square's sides come as near as 0.74 of the corners' distance here.
    assert min(distances) > 0.88 * max(distances)
    assert max(distances) < 1.001 * distances[0]


@pytest.mark.parametrize("closed", [False, True])
def test_no_speed_changes_at_once(closed: bool) -> None:
    path = CameraPath(some_cameras(6), closed=closed)

    def values(at: float) -> Tensor:
        found = camera_at(path, at)
        return torch.cat([found.viewmat.flatten(), found.K.flatten() / 100]).double()

    for number in range(1, 5):
        before, here, after = (values(number + step) for step in (-0.002, 0, 0.002))
        assert (after - 2 * here + before).abs().max() < 0.2 * (after - before).abs().max()
    for number in range(5):
        nearly = [values(number + share) for share in (1e-6, 1 - 1e-6)]
        assert torch.allclose(torch.stack(nearly), torch.stack([values(number), values(number + 1)]), atol=1e-3)


def test_a_camera_does_not_swing_past_a_keyframe_that_is_close_to_the_next() -> None:
    places = [(0, 0, 0), (100, 0, 0), (100, 1, 0), (100, 2, 0)]
    path = CameraPath(tuple(camera(position) for position in places))
    assert max(place(one)[0].item() for one in cameras_along(path, 301)) < 100.2


def test_equal_keyframes_are_a_rest() -> None:
    still = camera((1, 2, 3), about_y(40))
    path = CameraPath((camera(), still, still, camera((5, 5, 5), about_y(-100))))
    for share in (0.1, 0.5, 0.9):
        found = camera_at(path, 1 + share)
        assert torch.allclose(found.viewmat, still.viewmat, atol=1e-6)
        assert torch.allclose(found.K, still.K)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_opposite_rotations(axis: int) -> None:
    opposite = [0.0, 0.0, 0.0, 0.0]
    opposite[axis] = 1
    path = CameraPath((camera(), camera(rotation=opposite), camera()), closed=True)
    found = list(cameras_along(path, 60))
    for one in found:
        check(one)
    assert angle(found[0], found[10]) == pytest.approx(90, abs=25)
    assert max(angle(one, other) for one, other in pairwise(found)) < 20


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_a_path_of_few_keyframes(count: int, closed: bool) -> None:
    path = CameraPath(some_cameras(count), closed=closed)
    assert same(next(cameras_along(path, 1)), path.keyframes[0])
    found = list(cameras_along(path, 9))
    for one in found:
        check(one)
    if count == 1:
        assert all(torch.allclose(one.viewmat, found[0].viewmat, atol=1e-6) for one in found)
    elif closed:
        assert torch.allclose(place(found[1]), place(found[8]), atol=1e-5), "there and back"


def test_keyframes_of_other_sizes_show_as_much() -> None:
    path = CameraPath((camera(), camera(width=1600, height=1200)))
    assert {(one.width, one.height) for one in cameras_along(path, 5)} == {(80, 60)}
    assert torch.allclose(camera_at(path, 1).K, path.keyframes[0].K)


@pytest.mark.parametrize("up", ["y", "-y", "z"])
def test_a_turn(up: str) -> None:
    scene = some_scene()
    view = {"elevation": 30, "fov": 50, "distance": 0.9, "up": up}
    first = orbit(scene, 64, 48, azimuth=10, **view)
    found = list(cameras_around(first, middle_of(scene).tolist(), UP[up], 8))
    assert len(found) == 8
    assert same(found[0], first)
    for number, one in enumerate(found):
        expected = orbit(scene, 64, 48, azimuth=10 + 45 * number, **view)
        assert torch.allclose(one.viewmat, expected.viewmat, atol=1e-5)
        assert torch.equal(one.K, expected.K)


def nerfstudio(**values: object) -> dict[str, object]:
    """What Nerfstudio's viewer writes."""
    # 5 to the right, looking back along +z of the world, which is z of OpenCV's camera axes.
    turned = [1, 0, 0, 5, 0, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1]
    frame = {"camera_to_world": turned, "fov": 90, "aspect": 1.5}
    moved = {**frame, "camera_to_world": [*turned[:11], 3, *turned[12:]], "fov": 60}
    return {
        "camera_type": "perspective",
        "render_width": 1920.0,
        "render_height": 1080,
        "fps": 24,
        "seconds": 0.1,
        "is_cycle": False,
        "smoothness_value": 0.0,
        "default_fov": 50,
        "default_transition_sec": 2,
        "keyframes": [{"matrix": "[1]"}],
        "camera_path": [frame, moved],
        **values,
    }


@pytest.mark.filterwarnings("error")
def test_nerfstudio_s_camera_path(tmp_path: Path) -> None:
    path = read_path(written(tmp_path, nerfstudio()))
    first, second = path.keyframes
    assert first.viewmat.tolist() == [[1, 0, 0, -5], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert place(second).tolist() == [5, 0, 3]
    assert (first.width, first.height) == (1920, 1080)
    assert first.K.tolist() == [[pytest.approx(540), 0, 960], [0, pytest.approx(540), 540], [0, 0, 1]]
    assert second.K[0, 0].item() == pytest.approx(540 * math.sqrt(3))
    assert (path.seconds, path.fps, path.closed) == (0.1, pytest.approx(20), False), "each camera is a picture"
    assert read_path(written(tmp_path, nerfstudio(is_cycle=True))).closed


def test_what_is_not_used_of_nerfstudio_s_is_said(tmp_path: Path) -> None:
    frames = [{**frame, "render_time": 1} for frame in nerfstudio()["camera_path"]]  # type: ignore[attr-defined]
    path = written(tmp_path, nerfstudio(crop={"crop_bg_color": 1}, camera_path=frames))
    with pytest.warns(UserWarning, match=r"path\.json: not used: crop, render_time$"):
        read_path(path)


def test_the_cameras_that_a_scene_was_fitted_to_are_a_path(tmp_path: Path) -> None:
    cameras = some_cameras(4)
    write_cameras(tmp_path / "cameras.json", cameras, [f"{n}.png" for n in range(4)])
    path = read_path(tmp_path / "cameras.json")
    assert (path.seconds, path.fps, path.closed) == (None, None, False)
    for one, other in zip(path.keyframes, cameras, strict=True):
        assert torch.allclose(one.viewmat, other.viewmat, atol=1e-5)
        assert torch.allclose(one.K, other.K)


def with_frame(**values: object) -> dict[str, object]:
    frame = {"camera_to_world": [float(n % 5 == 0) for n in range(16)], "fov": 50, "aspect": 1, **values}
    return nerfstudio(camera_path=[frame])


def with_focal(length: float) -> dict[str, object]:
    """A camera of 3DGS's list."""
    turn = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    return {"width": 9, "height": 9, "fx": length, "fy": length, "position": [0, 0, 0], "rotation": turn}


KEYFRAMES = [GOOD, GOOD]
WRONG: list[tuple[object, str]] = [
    ("", "a camera path as JSON is required, found something else"),
    ("[" * 200_000, "a camera path as JSON of at most 160000 objects and lists is required"),
    ("[" + "1," * 1_300_000, "a camera path as JSON of at most 1200000 values is required"),
    (" " * (2**24 + 1), "a camera path as JSON of at most 16777216 bytes is required"),
    ("7", "a camera path, an object with keyframes, is required, found int"),
    ("{}", "a camera path, an object with keyframes, is required, found one with none"),
    (GOOD, "an object with keyframes, is required, found one with K, height, near, viewmat, width"),
    ([], "a list of 1 to 20000 cameras, as 3DGS writes it, is required"),
    ([GOOD], "camera 0: fx, a number"),
    ([with_focal(1e-300)], "camera 0: focal lengths of at least 1e-15 are required, found 1e-300 and 1e-300"),
    ({"keyframes": []}, "a list of 1 to 10000 cameras is required, found a list of 0"),
    ({"keyframes": {}}, "a list of 1 to 10000 cameras is required, found dict"),
    ({"keyframes": [1] * (MOST_KEYFRAMES + 1)}, "a list of 1 to 10000 cameras is required, found a list of 10001"),
    ({"keyframes": [GOOD, []]}, "keyframe 1: a JSON object with the camera is required, found a list of 0"),
    ({"keyframes": [GOOD, changed(width=0)]}, "keyframe 1: width must be a whole number"),
    ({"keyframes": KEYFRAMES, "speed": 1}, "keyframes, seconds, fps, closed; found speed too"),
    ({"keyframes": KEYFRAMES, "closed": 1}, "closed must be true or false, found int"),
    ({"keyframes": KEYFRAMES, "seconds": 0}, "seconds must be from 0.01 to 600, found 0"),
    ({"keyframes": KEYFRAMES, "seconds": 601}, "seconds must be from 0.01 to 600, found 601"),
    ({"keyframes": KEYFRAMES, "seconds": None}, "seconds must be a number, each at most 1e+15, found null"),
    ({"keyframes": KEYFRAMES, "seconds": "6"}, 'seconds must be a number, each at most 1e+15, found "6"'),
    ({"keyframes": KEYFRAMES, "fps": 1e9}, "fps must be from 1 to 120, found 1e+09"),
    ({"keyframes": KEYFRAMES, "fps": math.nan}, "all numbers of a camera must be finite, found NaN"),
    ('{"keyframes": [], "keyframes": []}', "each key may be there once"),
    (nerfstudio(camera_path=[]), "a list of 1 to 10000 cameras is required, found a list of 0"),
    (nerfstudio(camera_path=[1]), "camera 0: an object with camera_to_world and fov is required, found int"),
    (nerfstudio(camera_type="fisheye"), 'a camera_type of perspective is required, found "fisheye"'),
    (nerfstudio(camera_type=["x" * 99]), "a camera_type of perspective is required, found"),
    (nerfstudio(render_width=None), "render_width must be a number, each at most 1e+15, found null"),
    (nerfstudio(render_width=0), "camera 0: width must be a whole number of pixels from 1 to 16384, found 0"),
    (nerfstudio(render_height=1.5), "camera 0: height must be a whole number of pixels"),
    (nerfstudio(seconds=-1), "seconds must be from 0.01 to 600, found -1"),
    (with_frame(fov=0), "camera 0: fov must be from 1 to 170 degrees, found 0"),
    (with_frame(fov=None), "camera 0: fov must be a number, each at most 1e+15, found null"),
    (with_frame(camera_to_world=EYE), "camera 0: camera_to_world must be 16 numbers, found a list of 4"),
    (with_frame(camera_to_world=[1] * 16), "camera 0: the first 3 rows and columns of viewmat must be a rotation"),
]


@pytest.mark.parametrize(("content", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_files(tmp_path: Path, content: object, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(SceneError) as raised:
        read_path(path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{path}: ")
    assert len(str(raised.value)) < len(str(path)) + 250


@pytest.mark.filterwarnings("ignore:.*not used")
def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(0)
    seeds = [json.dumps(value).encode() for value in ({"keyframes": KEYFRAMES, "seconds": 2}, nerfstudio())]
    path = tmp_path / "path.json"
    read = 0
    count = how_many(500)
    for _ in range(count):
        path.write_bytes(mutated(rng, seeds))
        try:
            found = read_path(path)
        except SceneError:
            continue
        read += 1
        for one in cameras_along(found, 3):
            check(one)
    assert 0.01 < read / count < 0.9
