"""What a file says about its whole scene: that it is to be drawn antialiased, and what is up."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_runs import run
from render_runs import render
from scene_files import some_scene

from splat.scene.camera import UP_AXES, orbit
from splat.scene.edits import crop_scene, limit_degree, merge_scenes, shift_scene
from splat.scene.formats import WRITERS, losses_of, read_scene, write_scene
from splat.scene.gaussians import Gaussians
from splat.scene.pruning import Pruning, prune_scene
from splat.scene.spz import write_spz
from splat.view.drawing import Look, draw


def small_scene() -> Gaussians:
    """Gaussians that are smaller than a pixel, so that it matters how they are drawn."""
    return replace(some_scene(200, degree=0), scales=torch.full((200, 3), 0.01), opacities=torch.full((200,), 0.9))


def commented(path: Path, *comments: str) -> Path:
    """A scene as PLY with these comments."""
    write_scene(path, small_scene())
    lines = "".join(f"comment {comment}\n" for comment in comments)
    path.write_bytes(path.read_bytes().replace(b"element vertex", lines.encode() + b"element vertex"))
    return path


@pytest.mark.parametrize(
    ("comments", "antialiased"),
    [
        (["SplatRenderMode: mip"], True),
        (["  splatrendermode:  MIP "], True),
        (["antialiased 1"], True),
        (["Exported from Brush", "Vertical axis: y", "SplatRenderMode: mip"], True),
        (["antialiased 0", "SplatRenderMode: mip"], True),
        (["antialiased 1", "SplatRenderMode: default"], False),
        (["antialiased 10"], False),
        (["SplatRenderMode: 2dgs"], False),
        (["not antialiased 1"], False),
        ([], False),
    ],
)
def test_comments_of_a_ply_file(tmp_path: Path, comments: list[str], antialiased: bool) -> None:
    found = read_scene(commented(tmp_path / "a.ply", *comments))
    assert found.antialiased == antialiased
    assert found.up is None


@pytest.mark.parametrize("suffix", [".ply", ".compressed.ply", ".sog", ".spz", ".glb"])
def test_every_conversion_keeps_that_a_scene_is_antialiased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    """From a format to itself: what is read is the same, whatever writes it then."""
    source = suffix
    for antialiased in (True, False):
        write_scene(tmp_path / f"a{source}", replace(small_scene(), antialiased=antialiased))
        status, _, err = run(
            capsys, "convert", tmp_path / f"a{source}", tmp_path / f"b{suffix}", "--translate", "1,0,0"
        )
        assert (status, err) == (0, "")
        assert read_scene(tmp_path / f"b{suffix}").antialiased == antialiased
        asked = "--no-antialiased" if antialiased else "--antialiased"
        assert run(capsys, "convert", tmp_path / f"a{source}", tmp_path / f"c{suffix}", asked)[0] == 0
        assert read_scene(tmp_path / f"c{suffix}").antialiased != antialiased


def test_every_version_of_spz_keeps_it(tmp_path: Path) -> None:
    pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    for version in (2, 3, 4):
        write_spz(tmp_path / "a.spz", replace(small_scene(), antialiased=True), version)
        assert read_scene(tmp_path / "a.spz").antialiased


def test_what_cannot_hold_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = replace(small_scene(), antialiased=True)
    assert [suffix for suffix in WRITERS if losses_of(suffix, scene) != losses_of(suffix, small_scene())] == [".splat"]
    assert "that it is to be drawn antialiased is dropped" in losses_of(".splat", scene)


def test_it_is_drawn_so(tmp_path: Path) -> None:
    path = commented(tmp_path / "a.ply", "SplatRenderMode: mip")
    plain = commented(tmp_path / "b.ply")
    size = ("--size", "60x40")
    classic, antialiased = (render(tmp_path / "a.png", each, *size) for each in (plain, path))
    assert np.abs(classic - antialiased).mean() > 2
    assert antialiased.sum() < 0.8 * classic.sum(), "the blur makes small Gaussians larger, and these are faded for it"
    look = Look(read_scene(path), "colour", 0, (0, 0, 0), 0.01)
    camera = orbit(look.scene, 60, 40, azimuth=45, elevation=20, fov=40, distance=0.9, up="-y")
    assert np.array_equal(draw(look, camera), antialiased), "in the viewer"
    assert np.array_equal(render(tmp_path / "a.png", path, *size, "--no-antialiased"), classic)
    assert np.array_equal(render(tmp_path / "a.png", plain, *size, "--antialiased"), antialiased)


def test_parts_of_a_scene_are_drawn_as_it_is() -> None:
    scene = replace(small_scene(), antialiased=True, up="z")
    parts: list[Gaussians] = [
        scene.to("cpu"),
        scene.select(slice(9)),
        crop_scene(scene, (-1, -1, -1), (1, 1, 1)),
        prune_scene(scene, Pruning(0.1))[0],
        shift_scene(scene, (1, 2, 3)),
        limit_degree(scene, 0),
        merge_scenes([scene, scene]),
    ]
    assert all((part.antialiased, part.up) == (True, "z") for part in parts)


def test_scenes_that_differ_are_together_as_most_are() -> None:
    with (
        pytest.warns(
            UserWarning, match="some of the scenes are to be drawn antialiased, others not: together they are"
        ),
        pytest.warns(UserWarning, match=r"what is up differs in the scenes \(not said, z\): of all together"),
    ):
        found = merge_scenes([replace(small_scene(), antialiased=True, up="z"), small_scene()])
    assert (found.antialiased, found.up) == (False, None)


@pytest.mark.parametrize("axis", UP_AXES)
def test_the_axis_that_a_comment_says_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str], axis: str) -> None:
    path = commented(tmp_path / "a.ply", f"Gaussian Splats generated by Polycam with {axis.upper()}-axis up")
    plain = commented(tmp_path / "b.ply")
    size = ("--size", "60x40")
    expected = render(tmp_path / "a.png", plain, *size, "--up", axis)
    assert np.array_equal(render(tmp_path / "a.png", path, *size), expected)
    other = "x" if axis != "x" else "z"
    again = render(tmp_path / "a.png", plain, *size, "--up", other)
    assert np.array_equal(render(tmp_path / "a.png", path, *size, "--up", other), again)
    assert not np.array_equal(again, expected)
    assert exported(capsys, tmp_path, path) == exported(capsys, tmp_path, plain, "--up", axis)
    assert run(capsys, "convert", path, tmp_path / "c.ply", "--prune", "0.1")[0] == 0
    assert read_scene(tmp_path / "c.ply").up == axis


def exported(capsys: pytest.CaptureFixture[str], folder: Path, *words: str | Path) -> Any:
    """What a page is told of its view."""
    assert run(capsys, "export", *words, "-o", folder / "a.html")[0] == 0
    found = re.search(r'id="view"[^>]*>([^<]+)<', (folder / "a.html").read_text())
    assert found
    return json.loads(found.group(1))


def test_a_comment_that_says_nothing_of_an_axis(tmp_path: Path) -> None:
    for comment in ("Vertical axis: y", "xy-axis up", "Y-axis upwards of 3", "up"):
        assert read_scene(commented(tmp_path / "a.ply", comment)).up is None


@pytest.mark.parametrize(
    ("turn", "up"),
    [("0,30,0", "y"), ("90,0,0", "z"), ("0,0,90", "-x"), ("180,7,0", "-y"), ("0,0,0", "y"), ("30,0,0", None)],
)
def test_what_is_up_turns_along(tmp_path: Path, capsys: pytest.CaptureFixture[str], turn: str, up: str | None) -> None:
    path = commented(tmp_path / "a.ply", "Y-axis up")
    status, _, err = run(capsys, "convert", path, tmp_path / "b.ply", "--rotate", turn)
    assert (status, read_scene(tmp_path / "b.ply").up) == (0, up)
    dropped = "splat: warning: that y is up is dropped: turned, it is none of the axes\n"
    assert err == ("" if up else dropped)
    assert run(capsys, "convert", path, tmp_path / "b.ply", "--up", "z")[0] == 0
    assert read_scene(tmp_path / "b.ply").up == "-y"


def test_what_cannot_say_what_is_up_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = commented(tmp_path / "a.ply", "Y-axis up")
    for suffix in (".splat", ".sog", ".spz"):
        status, _, err = run(capsys, "convert", path, tmp_path / f"b{suffix}")
        assert status == 0
        assert "that y is up is dropped; `splat convert --up y` turns the scene as most are" in err
        status, _, err = run(capsys, "convert", path, tmp_path / f"b{suffix}", "--up", "y")
        assert (status, "is up" in err) == (0, False)
    assert losses_of(".ply", read_scene(path)) == losses_of(".compressed.ply", read_scene(path)) == []
    assert losses_of(".sog", replace(small_scene(), up="-y")) == []


def test_info_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = commented(tmp_path / "a.ply", "antialiased 1", "Z-axis up")
    _, out, _ = run(capsys, "info", path)
    assert "to be drawn antialiased\nup is z\n" in out
    report = json.loads(run(capsys, "info", path, "--json")[1])
    assert (report["antialiased"], report["up"]) == (True, "z")
