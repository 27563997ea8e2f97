"""`python -m splat convert`: parts of scenes, other formats, what is lost, and what cannot be converted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from scenes import real_scene
from test_commands import run
from test_formats import some_scene
from test_ply import columns, ply

from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import Gaussians

pytestmark = pytest.mark.once


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_scene(tmp_path / "in.ply", some_scene(200))
    return tmp_path / "in.ply"


def converted(capsys: pytest.CaptureFixture[str], source: Path, name: str, *options: str) -> tuple[Gaussians, str, str]:
    """The scene that was written, and what was printed."""
    out = source.parent / name
    status, said, err = run(capsys, "convert", source, out, *options)
    assert status == 0, err
    assert said.endswith(f" bytes: {out}\n")
    return read_scene(out), said, err


@pytest.mark.parametrize("suffix", [".ply", ".spz"])
def test_a_whole_scene(source: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    found, said, err = converted(capsys, source, f"out{suffix}")
    assert said.startswith("200 of 200 Gaussians, SH degree 3, ")
    assert err == ""
    torch.testing.assert_close(found.means, read_scene(source).means, atol=1 / 4096, rtol=0)


def test_what_is_lost_is_said(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, said, err = converted(capsys, source, "out.splat")
    assert found.degree == 0
    assert said == f"200 of 200 Gaussians, SH degree 0, 6400 bytes: {source.parent / 'out.splat'}\n"
    assert err == (
        f"splat: warning: {source.parent / 'out.splat'}: spherical harmonics of degree 1 to 3 are dropped: colours "
        "will look the same from everywhere\n"
    )
    # What was asked for is no loss.
    assert converted(capsys, source, "out.splat", "--sh-degree", "0")[2] == ""


@pytest.mark.parametrize("degree", range(5))
def test_degrees(source: Path, capsys: pytest.CaptureFixture[str], degree: int) -> None:
    found, said, _ = converted(capsys, source, "out.ply", "--sh-degree", str(degree))
    whole = read_scene(source)
    assert found.degree == min(degree, 3)
    assert f"SH degree {min(degree, 3)}, " in said
    assert torch.equal(found.sh, whole.sh[:, : (degree + 1) ** 2])
    assert torch.equal(found.means, whole.means)


def test_a_box_a_threshold_and_a_factor(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = read_scene(source)
    low, high = torch.tensor([-2.0, -3, -1]), torch.tensor([4.0, 1, 3])
    inside = ((whole.means >= low) & (whole.means <= high)).all(dim=1)
    kept = inside & (whole.opacities >= 0.5)
    assert 0 < kept.sum() < inside.sum() < 200
    assert len(converted(capsys, source, "out.ply", "--crop=-2,-3,-1,4,1,3")[0]) == inside.sum()
    assert len(converted(capsys, source, "out.ply", "--prune", "0.5")[0]) == (whole.opacities >= 0.5).sum()
    found, said, _ = converted(capsys, source, "out.ply", "--crop=-2,-3,-1,4,1,3", "--prune=0.5", "--scale=2.5")
    assert said.startswith(f"{kept.sum()} of 200 Gaussians")
    torch.testing.assert_close(found.means, 2.5 * whole.means[kept])
    torch.testing.assert_close(found.scales, 2.5 * whole.scales[kept], rtol=1e-5, atol=0)
    torch.testing.assert_close(found.sh, whole.sh[kept])


def test_the_borders_of_a_box_belong_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = some_scene(3)
    scene.means[:] = torch.tensor([[0.0, 0, 0], [1, 1, 1], [1, 1, 1.5]])
    write_scene(tmp_path / "in.ply", scene)
    assert len(converted(capsys, tmp_path / "in.ply", "out.ply", "--crop", "0,0,0,1,1,1")[0]) == 2


def test_a_scene_can_take_its_own_place(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _, _ = converted(capsys, source, source.name, "--scale", "2")
    assert found.means.abs().max() > 0
    assert [path.name for path in source.parent.iterdir()] == [source.name]


def test_nothing_is_written_of_nothing(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.parent / "out.ply"
    status, said, err = run(capsys, "convert", source, out, "--crop=90,90,90,91,91,91")
    assert (status, said) == (1, "")
    assert err == (
        f"splat: {source}: at least one Gaussian must be left to write, found none of 200; choose a larger --crop or a "
        "lower --prune\n"
    )
    assert not out.exists()


def test_a_scene_that_the_format_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scene(tmp_path / "in.ply", some_scene(3))
    status, said, err = run(capsys, "convert", tmp_path / "in.ply", tmp_path / "out.spz", "--scale", "1e9")
    assert (status, said) == (1, "")
    assert re.search(r"^splat: centres in an \.spz file must be within 8388607 .* \(--scale\)$", err, re.MULTILINE)
    assert not (tmp_path / "out.spz").exists()


def test_what_is_left_out_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = columns(20)
    values["x"][3] = float("nan")
    values["x"][4] = 3e38  # too large, once it is scaled
    (tmp_path / "in.ply").write_bytes(ply(values))
    found, said, err = converted(capsys, tmp_path / "in.ply", "out.ply", "--scale", "10")
    assert len(found) == 18
    assert said.startswith("18 of 19 Gaussians")
    assert [line.partition(" Gaussians")[0] for line in err.splitlines()] == [
        f"splat: warning: {tmp_path / 'in.ply'}: left out 1 of 20",
        f"splat: warning: {tmp_path / 'out.ply'}: left out 1 of 19",
    ]


def test_scenes_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.ply"
    (tmp_path / "in.spz").write_bytes(b"GIF89a")
    (tmp_path / "in.obj").write_bytes(b"o thing")
    for name, words in (
        ("none.spz", "No such file"),
        ("in.spz", "an .spz file is required"),
        ("in.obj", "the name of a scene must end in one of .compressed.ply, .ply, .splat, .spz"),
    ):
        status, said, err = run(capsys, "convert", tmp_path / name, out)
        assert (status, said) == (1, "")
        assert err.startswith("splat: ")
        assert words in err
        assert err.count("\n") == 1
        assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["out.obj"], "the name of a scene must end in one of .compressed.ply, .ply, .splat, .spz"),
        (["none/out.ply"], "the folder 'none' for 'out.ply' must exist"),
        (["out.ply", "--sh-degree", "5"], "invalid choice: 5"),
        (
            ["out.ply", "--crop", "1,2,3"],
            "two corners X0,Y0,Z0,X1,Y1,Z1, the lower one first, are required, found '1,2,",
        ),
        (["out.ply", "--crop", "0,0,0,1,1,nan"], "two corners X0,Y0,Z0,X1,Y1,Z1"),
        (["out.ply", "--crop", "0,0,2,1,1,1"], "the lower one first"),
        (["out.ply", "--scale", "0"], "a number from 1e-9 to 1e9 is required, found '0'"),
        (["out.ply", "--scale", "inf"], "a number from 1e-9 to 1e9 is required, found 'inf'"),
        (["out.ply", "--prune", "1.5"], "an opacity from 0 to 1 is required, found '1.5'"),
        ([], "the following arguments are required: OUT"),
    ],
)
def test_wrong_usage_of_convert(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(source.parent)
    status, _, err = run(capsys, "convert", source, *arguments)
    assert status == 2
    assert message in err


def test_bulba_is_smaller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bulba = real_scene("bulba.ply")
    status, said, _ = run(capsys, "convert", bulba, tmp_path / "bulba.spz", "--prune", "0.02")
    assert status == 0
    assert int(said.split()[0]) < 11982
    assert (tmp_path / "bulba.spz").stat().st_size * 5 < bulba.stat().st_size
