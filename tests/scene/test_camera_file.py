"""Camera files: what is written is read, damaged and hostile ones are one clear error, and `render` takes them."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from cameras import EYE, GOOD, K, changed, check, mutated
from mutations import how_many
from render_runs import failure, parse, render

from splat.commands import render_command
from splat.scene.builtin import knot_scene
from splat.scene.camera import orbit
from splat.scene.camera_file import MAX_BYTES, camera_json, read_camera, write_camera
from splat.scene.gaussians import SceneError

POSE = {"position": [0, 0, -5], "rotation": [1, 0, 0, 0]}


def written(folder: Path, content: object) -> Path:
    path = folder / "camera.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    camera = orbit(knot_scene(), 123, 77, azimuth=33, elevation=-21, fov=51)
    write_camera(tmp_path / "a.json", camera)

    found = read_camera(tmp_path / "a.json")

    assert torch.equal(found.viewmat, camera.viewmat)
    assert torch.equal(found.K, camera.K)
    assert (found.width, found.height, found.near) == (123, 77, camera.near)
    assert len(camera_json(camera).splitlines()) < 20, "it can be read"


def test_the_other_way_to_say_the_same(tmp_path: Path) -> None:
    camera = read_camera(written(tmp_path, changed(viewmat=None, K=None, near=None, fov=90, **POSE)))

    assert camera.viewmat.tolist() == EYE
    assert camera.K.tolist() == [[pytest.approx(30), 0, 40], [0, pytest.approx(30), 30], [0, 0, 1]]
    assert camera.near == 0.01


def test_a_rotation_turns_the_camera_s_axes_into_the_world_s(tmp_path: Path) -> None:
    # A quarter turn about y, not normalised: the camera at x = -5 looks along +x.
    pose = {"position": [-5, 0, 0], "rotation": [2, 0, 2, 0]}
    viewmat = read_camera(written(tmp_path, changed(viewmat=None, **pose))).viewmat

    ahead = viewmat @ torch.tensor([1.0, 2.0, 0.0, 1.0])

    assert ahead.tolist() == pytest.approx([0, 2, 6, 1], abs=1e-6)


def test_render_takes_the_camera(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--azimuth", "100", "--elevation", "10", "--fov", "60"]
    write_camera(tmp_path / "a.json", orbit(knot_scene(), 90, 70, azimuth=100, elevation=10, fov=60, distance=0.9))

    with_options = render(tmp_path / "a.png", "--size", "90x70", *place)
    with_file = render(tmp_path / "b.png", "--camera", tmp_path / "a.json")

    assert np.array_equal(with_options, with_file)
    assert ", 90x70, cpu" in capsys.readouterr().out.splitlines()[-1]


def test_options_that_the_file_makes_meaningless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-o", tmp_path / "a.png", "--camera", "none.json", "--size", "9x9", "--up", "z"]
    with pytest.raises(SystemExit) as raised:
        render_command.run(parse(*words))
    assert raised.value.code == 2
    assert "--camera already says where the camera is; leave out --size, --up" in capsys.readouterr().err


def test_a_file_that_is_missing_or_wrong_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.png"
    assert "No such file" in failure(capsys, "-o", out, "--camera", tmp_path / "none.json")
    path = written(tmp_path, changed(near=-1))
    assert failure(capsys, "-o", out, "--camera", path) == f"splat: {path}: near must be at least 1e-15, found -1\n"
    assert not out.exists()


def nested(**cell: object) -> list[list[object]]:
    rows: list[list[object]] = [list(row) for row in EYE]
    rows[0][0] = cell["value"]
    return rows


WRONG = [
    ("", "a camera as JSON is required, found something else"),
    ("\x00\x01", "a camera as JSON is required"),
    ("[" * 60000, "a camera as JSON of at most 1000 objects and lists is required, found up to 60000"),
    ("[" * 1000, "a camera as JSON is required, found something else"),
    ("[" + "1," * 2000, "a camera as JSON of at most 2000 values is required, found up to 2002"),
    ('{"width": ' + "9" * 5000 + "}", "a camera as JSON is required"),
    ("[]", "a JSON object with the camera is required, found a list of 0"),
    ('"camera"', "a JSON object with the camera is required, found str"),
    (" " * (MAX_BYTES + 1), f"a camera as JSON of at most {MAX_BYTES} bytes is required"),
    ('{"width": 8, "width": 9}', "each key may be there once, found width, width"),
    (changed(distortion=1), "found distortion too"),
    (changed(width=None), "width must be a whole number of pixels from 1 to 16384, found null"),
    (changed(width=0), "width must be a whole number of pixels from 1 to 16384, found 0"),
    (changed(height=16385), "height must be a whole number of pixels from 1 to 16384, found 16385"),
    (changed(height=60.5), "height must be a whole number"),
    (changed(width=True), "width must be a whole number"),
    (changed(viewmat=None), "either viewmat or position and rotation is required, found none"),
    (changed(**POSE), "either viewmat or position and rotation is required, found viewmat, position, rotation"),
    (changed(viewmat=None, position=[0, 0, 0]), "either viewmat or position and rotation is required, found position"),
    (changed(viewmat=EYE[:3]), "viewmat must be 4 rows of 4 numbers, found a list of 3"),
    (changed(viewmat=nested(value="1")), 'viewmat must be 4 rows of 4 numbers, each at most 1e+15, found "1"'),
    (changed(viewmat=nested(value=[1])), "found a list of 1"),
    (changed(viewmat=nested(value=2)), "must be a rotation, without scale or reflection"),
    (changed(viewmat=nested(value=-1)), "must be a rotation, without scale or reflection"),
    (changed(viewmat=nested(value=math.nan)), "all numbers of a camera must be finite, found NaN"),
    (changed(viewmat=nested(value=-math.inf)), "all numbers of a camera must be finite, found -Infinity"),
    (json.dumps(GOOD).replace("0.1", "1e999"), "near must be a number, each at most 1e+15, found Infinity"),
    (changed(viewmat=[*EYE[:3], [0, 0, 1, 1]]), "the last row of viewmat must be 0, 0, 0, 1"),
    (changed(viewmat=None, position=[0, 0, 1e16], rotation=[1, 0, 0, 0]), "position must be 3 numbers, each at most"),
    (changed(viewmat=None, position=[0, 0], rotation=[1, 0, 0, 0]), "position must be 3 numbers, found a list of 2"),
    (changed(viewmat=None, position=[0, 0, 0], rotation=[0, 0, 0, 0]), "found one of length 0"),
    (changed(K=None), "either K or fov is required, found none"),
    (changed(fov=40), "either K or fov is required, found K, fov"),
    (changed(K=None, fov=180), "fov must be from 1 to 170 degrees, found 180"),
    (changed(K=[[0, 0, 40], *K[1:]]), "the focal lengths in K must be at least 1e-15, found 0 and 50"),
    (changed(K=[[50, 1, 40], *K[1:]]), "there is no skew"),
    (changed(K=[*K[:2], [0, 0, 2]]), "there is no skew"),
    (changed(near=1e-300), "near must be at least 1e-15, found 1e-300"),
    (changed(near={"at": 1}), "near must be a number, each at most 1e+15, found dict"),
]


@pytest.mark.parametrize(("content", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_wrong_files(tmp_path: Path, content: object, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(SceneError) as raised:
        read_camera(path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{path}: ")
    assert len(str(raised.value)) < len(str(path)) + 250


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(0)
    seeds = [json.dumps(GOOD).encode(), json.dumps(changed(viewmat=None, K=None, fov=90, **POSE)).encode()]
    path = tmp_path / "camera.json"
    read = 0
    count = how_many(500)
    for _ in range(count):
        path.write_bytes(mutated(rng, seeds))
        try:
            camera = read_camera(path)
        except SceneError:
            continue
        read += 1
        check(camera)
    assert 0.01 < read / count < 0.7
