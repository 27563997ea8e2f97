"""`splat render`: the picture, its options, and what is said when it cannot be made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from ply_files import columns, ply
from render_runs import failure, parse, render
from scenes import real_scene

from splat.commands import render_command
from splat.scene.builtin import knot_scene
from splat.scene.formats import write_scene
from splat.scene.image import to_8_bit, write_png


def test_the_builtin_scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = render(tmp_path / "knot.png", "--size", "200x150")
    assert pixels.shape == (150, 200, 3)
    # Black around the scene; saturated colours of every hue in it.
    assert (pixels[0] == 0).all()
    assert (pixels.max(axis=2) > 60).mean() > 0.3
    saturated = pixels[pixels.max(axis=2) - pixels.min(axis=2) > 100]
    assert set(saturated.argmax(axis=1)) == {0, 1, 2}
    out, err = capsys.readouterr()
    assert err == ""
    name = str(tmp_path / "knot.png")
    assert out.startswith("14409 Gaussians, 200x150, cpu, ")
    assert out.endswith(f" s: {name}\n")
    assert out.count("\n") == 1


def test_bulba_is_green_on_white(tmp_path: Path) -> None:
    pixels = render(tmp_path / "bulba.png", real_scene("bulba.ply"), "--size", "160x120", "--azimuth", "30")
    head, pedestal = pixels[40:60, 65:95].mean(axis=(0, 1)), pixels[95:105, 50:90].mean(axis=(0, 1))
    assert head[1] > 1.2 * head[0]
    assert pedestal.min() > 100
    assert pixels[:10, :10].mean() < 30


@pytest.mark.parametrize(("suffix", "most"), [(".ply", 0.01), (".spz", 2), (".splat", 8)])
def test_a_scene_looks_the_same_from_every_format(tmp_path: Path, suffix: str, most: float) -> None:
    small = ["--size", "120x90"]
    write_scene(tmp_path / f"knot{suffix}", knot_scene())
    plain = render(tmp_path / "a.png", *small)
    found = render(tmp_path / "b.png", tmp_path / f"knot{suffix}", *small, "--up", "y")
    # A .splat file lacks the highlights.
    assert np.abs(found - plain).mean() < most


def test_options_change_the_picture(tmp_path: Path) -> None:
    small = ["--size", "64x48"]
    plain = render(tmp_path / "a.png", *small)
    for options in (
        ["--azimuth", "120"],
        ["--elevation=-20"],
        ["--fov", "80"],
        ["--distance", "2"],
        ["--up", "z"],
        ["--up=-y"],
        ["--up", "-z"],
        ["--background", "white"],
        ["--sh-degree", "0"],
    ):
        assert np.abs(render(tmp_path / "b.png", *small, *options) - plain).max() > 10, options
    assert np.array_equal(render(tmp_path / "b.png", *small, "--sh-degree", "4"), plain)


@pytest.mark.parametrize(
    ("text", "rgb"),
    [
        ("red", (255, 0, 0)),
        ("#102030", (16, 32, 48)),
        ("1,2,3", (1, 2, 3)),
        ("0, 127.6, 255", (0, 128, 255)),
    ],
)
def test_backgrounds(tmp_path: Path, text: str, rgb: tuple[int, int, int]) -> None:
    pixels = render(tmp_path / "a.png", "--size", "40x30", "--background", text)
    assert tuple(pixels[0, 0]) == rgb


def test_an_existing_picture_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    out.write_bytes(b"old")
    umask = os.umask(0o027)
    try:
        render(out, "--size", "20x10")
    finally:
        os.umask(umask)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o640


def test_a_failed_write_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.png"
    out.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        write_png(out, torch.zeros(2, 2, 3))
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_values_become_bytes() -> None:
    values = torch.tensor([-1.0, 0.0, 0.5, 1.0, 7.0, float("nan")]).reshape(1, 2, 3)
    assert to_8_bit(values).flatten().tolist() == [0, 0, 128, 255, 255, 0]
    with pytest.raises(ValueError, match=r"shape \[H, W, 3\], found \[4, 4\]"):
        to_8_bit(torch.zeros(4, 4))


def test_scenes_that_cannot_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.png"
    scene = tmp_path / "scene.ply"
    assert "No such file" in failure(capsys, scene, "-o", out)
    assert "found a folder with 0 scenes" in failure(capsys, tmp_path, "-o", out)
    scene.write_bytes(b"GIF89a")
    assert f"{scene}: a PLY file, which starts with" in failure(capsys, scene, "-o", out)
    scene.write_bytes(ply(columns(0)))
    assert "the scene has no visible Gaussian (of 0)" in failure(capsys, scene, "-o", out)
    assert not out.exists()


def test_gaussians_left_out_are_counted_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = columns(20)
    values["x"][3] = np.nan
    scene = tmp_path / "scene.ply"
    scene.write_bytes(ply(values))
    render(tmp_path / "a.png", scene, "--size", "20x10")
    out, err = capsys.readouterr()
    assert out.startswith("19 Gaussians, 20x10")
    assert err == (
        f"splat: warning: {scene}: left out 1 of 20 Gaussians, which have a NaN, an infinity or a rotation of "
        "length 0\n"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a GPU here")
def test_cuda_where_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = failure(capsys, "-o", tmp_path / "a.png", "--device", "cuda")
    assert "--device cuda needs a GPU that torch can use, found none" in message
    assert "use --device cpu" in message
    assert render_command.run(parse("-o", tmp_path / "a.png", "--size", "9x9")) == 0
    assert ", cpu, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: -o"),
        (["-o", "a.jpg"], "the name must end in .png, or with --path in .mp4, or be a folder's, "),
        (["-o", "none/a.png"], "the folder 'none' for 'a.png' must exist"),
        (["-o", "folder.png"], "a file name is required, found the folder 'folder.png'"),
        (["-o", "a.png", "--size", "800"], "a size like 800x600, each side 1 to 16384, is required, found '800'"),
        (["-o", "a.png", "--size", "0x5"], "found '0x5'"),
        (["-o", "a.png", "--size", "99999x5"], "found '99999x5'"),
        (["-o", "a.png", "--elevation", "91"], "a number from -90 to 90 is required, found '91'"),
        (["-o", "a.png", "--fov", "wide"], "a number from 1 to 170 is required, found 'wide'"),
        (["-o", "a.png", "--distance", "nan"], "a number from 0.001 to 1000 is required, found 'nan'"),
        (["-o", "a.png", "--up", "w"], "invalid choice: 'w'"),
        (["-o", "a.png", "--background", "blurple"], "a colour name, #rrggbb, or r,g,b from 0 to 255 is required, fou"),
        (["-o", "a.png", "--background", "1,2,300"], "found '1,2,300'"),
        (["-o", "a.png", "--background", "1,0.5,1"], "r,g,b from 0 to 255 is required, found '1,0.5,1'"),
        (["-o", "a.png", "--device", "tpu"], "invalid choice: 'tpu'"),
        (["-o", "a.png", "--sh-degree", "5"], "argument --sh-degree: invalid choice"),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(SystemExit) as raised:
        parse(*arguments)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err
