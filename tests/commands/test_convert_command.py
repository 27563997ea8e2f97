"""`splat convert`: parts of scenes, other formats, what is lost, and what cannot be converted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from command_runs import run
from ply_files import columns, ply
from scene_files import angles, some_scene
from scenes import real_scene

import splat
from splat.scene.camera import Camera, orbit
from splat.scene.camera_list import write_cameras
from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import Gaussians
from splat.scene.pruning import seen_by


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


def seen(scene: Gaussians, viewmat: torch.Tensor) -> torch.Tensor:
    """A picture of a scene, of 90x60 pixels."""
    camera = torch.tensor([[60.0, 0, 45], [0, 60, 30], [0, 0, 1]])
    colors, _, _ = splat.rasterization(
        scene.means,
        scene.quats,
        scene.scales,
        scene.opacities,
        scene.sh,
        viewmat[None],
        camera[None],
        90,
        60,
        sh_degree=scene.degree,
    )
    return colors


def from_afar() -> torch.Tensor:
    viewmat = torch.eye(4)
    viewmat[:3, 3] = torch.tensor([0.2, -0.1, 8])
    return viewmat


def moved(viewmat: torch.Tensor, turn: torch.Tensor, factor: float, shift: list[float]) -> torch.Tensor:
    """The camera that sees in `factor * turn @ x + shift` what `viewmat` sees in x, at `factor` times the depth."""
    found = viewmat.double().clone()
    found[:3, :3] = viewmat[:3, :3].double() @ turn.T
    found[:3, 3] = factor * viewmat[:3, 3].double() - found[:3, :3] @ torch.tensor(shift, dtype=torch.float64)
    return found.float()


def some_colours(degree: int) -> Gaussians:
    scene = some_scene(60, degree, extent=1.0)
    return Gaussians(**{**vars(scene), "scales": scene.scales.clamp(0.05, 0.6)})


@pytest.mark.parametrize("degree", range(5))
def test_a_camera_that_moves_along_sees_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], degree: int
) -> None:
    write_scene(tmp_path / "in.ply", some_colours(degree))
    options = ("--rotate", "-20,75,130", "--scale", "2.5", "--translate", "-3,.5,1e1")
    found, _, _ = converted(capsys, tmp_path / "in.ply", "out.ply", *options)
    whole = read_scene(tmp_path / "in.ply")
    x, y, z = (torch.deg2rad(torch.tensor(angle, dtype=torch.float64)) for angle in (-20, 75, 130))
    about_x = torch.tensor([[1, 0, 0], [0, x.cos(), -x.sin()], [0, x.sin(), x.cos()]])
    about_y = torch.tensor([[y.cos(), 0, y.sin()], [0, 1, 0], [-y.sin(), 0, y.cos()]])
    about_z = torch.tensor([[z.cos(), -z.sin(), 0], [z.sin(), z.cos(), 0], [0, 0, 1]])
    turn = (about_z @ about_y @ about_x).double()
    expected = seen(whole, from_afar())
    torch.testing.assert_close(seen(found, moved(from_afar(), turn, 2.5, [-3, 0.5, 10])), expected, atol=2e-4, rtol=0)
    if degree:  # and the colours did turn
        still = Gaussians(**{**vars(found), "sh": whole.sh})
        assert (seen(still, moved(from_afar(), turn, 2.5, [-3, 0.5, 10])) - expected).abs().max() > 0.05


@pytest.mark.parametrize("up", ["x", "-x", "y", "-y", "z", "-z"])
def test_an_axis_becomes_up(tmp_path: Path, capsys: pytest.CaptureFixture[str], up: str) -> None:
    whole = some_colours(2)
    whole.means[0] = 0
    whole.means[0, "xyz".index(up[-1])] = -5 if up[0] == "-" else 5
    write_scene(tmp_path / "in.ply", whole)
    found, _, _ = converted(capsys, tmp_path / "in.ply", "out.ply", "--up", up)
    torch.testing.assert_close(found.means[0], torch.tensor([0.0, -5, 0]))
    # `render` shows the one as it shows the other.
    before, after = (orbit(scene, 90, 60, azimuth=30, up=axis) for scene, axis in ((whole, up), (found, "-y")))
    torch.testing.assert_close(seen(found, after.viewmat), seen(whole, before.viewmat), atol=2e-4, rtol=0)


def test_the_order_is_that_of_the_help(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--translate", "10,0,0", "--scale=2", "--rotate=0,0,90", "--up", "y", "--crop", "-2,-3,-1,4,1,3")
    found, said, _ = converted(capsys, source, "out.ply", *options)
    whole = read_scene(source).means
    inside = ((whole >= torch.tensor([-2.0, -3, -1])) & (whole <= torch.tensor([4.0, 1, 3]))).all(dim=1)
    upright = whole[inside] * torch.tensor([1, -1, -1])
    about_z = torch.stack([-upright[:, 1], upright[:, 0], upright[:, 2]], dim=1)
    assert said.startswith(f"{inside.sum()} of 200 Gaussians")
    torch.testing.assert_close(found.means, 2 * about_z + torch.tensor([10.0, 0, 0]), atol=1e-5, rtol=0)
    _, help_text, _ = run(capsys, "convert", "--help")
    assert "--crop, --prune, --up, --rotate, --scale, --translate, --sh-degree" in " ".join(help_text.split())


def test_several_scenes_become_one(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scene(source.parent / "more.splat", some_scene(30, seed=1))
    write_scene(source.parent / "none.ply", some_scene(0))
    out = source.parent / "out.ply"
    status, said, err = run(
        capsys, "convert", source, source.parent / "more.splat", source.parent / "none.ply", out, "--translate=0,0,1"
    )
    assert (status, err) == (0, "")
    assert said.startswith("230 of 230 Gaussians, SH degree 3, ")
    found, first, second = (read_scene(path) for path in (out, source, source.parent / "more.splat"))
    for name in ("scales", "opacities"):
        torch.testing.assert_close(getattr(found, name), torch.cat([getattr(first, name), getattr(second, name)]))
    assert angles(found.quats, torch.cat([first.quats, second.quats])).max() < 1e-3
    torch.testing.assert_close(found.means - torch.tensor([0.0, 0, 1]), torch.cat([first.means, second.means]))
    assert torch.equal(found.sh[:200], first.sh)
    assert torch.equal(found.sh[200:, :1], second.sh)
    assert not found.sh[200:, 1:].any()


def test_one_of_several_scenes_that_cannot_be_read(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, err = run(capsys, "convert", source, source.parent / "none.ply", source.parent / "out.ply")
    assert (status, said) == (1, "")
    assert "No such file" in err
    assert "none.ply" in err
    assert [path.name for path in source.parent.iterdir()] == [source.name]


def test_a_scene_can_take_its_own_place(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, _, _ = converted(capsys, source, source.name, "--scale", "2")
    assert found.means.abs().max() > 0
    assert [path.name for path in source.parent.iterdir()] == [source.name]


def test_nothing_is_written_of_nothing(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.parent / "out.ply"
    status, said, err = run(capsys, "convert", source, out, "--crop=90,90,90,91,91,91")
    assert (status, said) == (1, "")
    assert err == (
        f"splat: {source}: at least one Gaussian must be left to write, found none of 200; choose a larger --crop, or "
        "prune less\n"
    )
    assert not out.exists()


# What cameras see


@pytest.fixture
def cameras(source: Path) -> list[Camera]:
    """Beside the scene."""
    scene = read_scene(source)
    found = [orbit(scene, 60, 40, azimuth=90.0 * turn, distance=0.4) for turn in range(4)]
    write_cameras(source.parent / "in.cameras.json", found, ["a"] * len(found))
    return found


def test_what_few_cameras_see_and_what_is_large_is_left_out(
    source: Path, cameras: list[Camera], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = read_scene(source)
    counts, sizes = seen_by(whole, cameras)
    few, large, faint = counts < 2, sizes > 0.1, whole.opacities < 0.2
    assert 0 < (few & ~large).sum() < (few | large | faint).sum() < 200
    options = ("--prune-unseen", "2", "--prune-large", "0.1", "--prune", "0.2")
    found, said, _ = converted(capsys, source, "out.ply", *options, "--translate=9,0,0")
    kept = ~(few | large | faint)
    assert said.startswith(
        f"{kept.sum()} of 200 Gaussians (left out: {faint.sum()} of opacity below 0.2, {few.sum()} that fewer than 2 "
        f"of 4 cameras see, {large.sum()} larger than 0.1 of their distance), SH degree 3, "
    )
    torch.testing.assert_close(found.sh, whole.sh[kept])


def test_a_scene_is_not_moved_away_from_cameras_beside_it(
    source: Path, cameras: list[Camera], capsys: pytest.CaptureFixture[str]
) -> None:
    before = source.read_bytes()
    for name, move in (("in.sog", "--scale=2"), ("in.ply", "--up=y"), ("in.ply", "--rotate=0,9,0")):
        status, said, err = run(capsys, "convert", source, source.parent / name, move)
        assert (status, said) == (1, "")
        assert f"{name}: a place without cameras is required for a scene that {move.partition('=')[0]} moves" in err
        assert "in.cameras.json, which would not be moved along; choose another name or folder" in err
    assert source.read_bytes() == before
    assert sorted(path.name for path in source.parent.iterdir()) == ["in.cameras.json", "in.ply"]
    converted(capsys, source, "in.sog", "--prune", "0.2")


def test_a_dry_run_says_what_would_be_left(
    source: Path, cameras: list[Camera], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(source.parent.iterdir())
    few = int((seen_by(read_scene(source), cameras).counts < 3).sum())
    out = source.parent / "out.ply"
    assert run(capsys, "convert", source, out, "--prune-unseen", "3", "--dry-run") == (
        0,
        f"{200 - few} of 200 Gaussians (left out: {few} that fewer than 3 of 4 cameras see), SH degree 3, not written: "
        f"--dry-run: {out}\n",
        "",
    )
    assert sorted(source.parent.iterdir()) == before


def test_what_cameras_see_needs_cameras(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--prune-unseen=1", "--prune-large=1"):
        status, said, err = run(capsys, "convert", source, source.parent / "out.ply", option)
        assert (status, said) == (1, "")
        assert err == (
            f"splat: {source}: the cameras that it was fitted to are required, to know what they see, found none "
            "beside it; put their list there, as in.cameras.json\n"
        )
    assert [path.name for path in source.parent.iterdir()] == ["in.ply"]


def test_a_scene_that_the_format_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scene(tmp_path / "in.ply", some_scene(3))
    status, said, err = run(capsys, "convert", tmp_path / "in.ply", tmp_path / "out.spz", "--scale", "1e9")
    assert (status, said) == (1, "")
    assert re.fullmatch(r"splat: centres in an \.spz file must be within 8388607 .* \(--scale\)\n", err)  # and once
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
        ("in.obj", "the name of a scene must end in one of .compressed.ply, .ply, .splat, .ksplat, .sog, .spz"),
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
        (["out.obj"], "the name of a scene to write must end in one of .compressed.ply, .ply, .splat, .sog, .spz"),
        (["out.ksplat"], "out.ksplat: the name of a scene to write must end in one of .compressed.ply, .ply, "),
        (["none/out.ply"], "the folder 'none' for 'out.ply' must exist"),
        (["out.ply", "--sh-degree", "5"], "argument --sh-degree: invalid choice"),
        (
            ["out.ply", "--crop", "1,2,3"],
            "two corners X0,Y0,Z0,X1,Y1,Z1, the lower one first, are required, found '1,2,",
        ),
        (["out.ply", "--crop", "0,0,0,1,1,nan"], "two corners X0,Y0,Z0,X1,Y1,Z1"),
        (["out.ply", "--crop", "0,0,2,1,1,1"], "the lower one first"),
        (["out.ply", "--scale", "0"], "a number from 1e-9 to 1e9 is required, found '0'"),
        (["out.ply", "--scale", "inf"], "a number from 1e-9 to 1e9 is required, found 'inf'"),
        (["out.ply", "--rotate", "-90"], "three numbers X,Y,Z up to 1e9 are required, found '-90'"),
        (["out.ply", "--translate=-1,2,inf"], "three numbers X,Y,Z up to 1e9 are required, found '-1,2,inf'"),
        (["out.ply", "--translate", "1,2,1e99"], "three numbers X,Y,Z up to 1e9 are required, found '1,2,1e99'"),
        (["out.ply", "--up", "-w"], "expected one argument"),
        (["out.ply", "--prune", "1.5"], "an opacity from 0 to 1 is required, found '1.5'"),
        (["out.ply", "--prune-unseen", "0"], "a number from 1 to 20000 is required, found '0'"),
        (["out.ply", "--prune-large", "nan"], "a number from 1e-06 to 1e+06 is required, found 'nan'"),
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
