"""`splat info`: numbers, what formats cannot hold, and the picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from command_runs import run
from PIL import Image
from ply_files import columns, ply
from scene_files import some_scene

from splat.scene.camera import orbit
from splat.scene.camera_list import write_cameras
from splat.scene.formats import WRITERS, losses_of, write_scene
from splat.scene.gaussians import SH_C0
from splat.scene.pruning import seen_by
from splat.scene.summary import BARS, PANEL, histogram_bars


def test_the_report_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = some_scene(101, degree=2)
    path = tmp_path / "a.ply"
    write_scene(path, scene)
    status, out, err = run(capsys, "info", path, "--json")
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert report["file"] == str(path)
    assert report["format"] == "PLY, binary, little-endian"
    assert report["bytes"] == path.stat().st_size
    assert (report["gaussians"], report["left_out"], report["sh_degree"]) == (101, 0, 2)
    assert list(report["quantiles"]) == ["x", "y", "z", "scale", "opacity"]
    y = scene.means[:, 1].sort().values
    assert list(report["quantiles"]["y"]) == ["min", "2%", "50%", "98%", "max"]
    assert list(report["quantiles"]["y"].values()) == pytest.approx(y[[0, 2, 50, 98, 100]].tolist())
    assert report["quantiles"]["scale"]["max"] == pytest.approx(scene.scales.max().item())
    assert report["quantiles"]["opacity"]["min"] == pytest.approx(scene.opacities.min().item(), abs=1e-6)
    lower, upper = scene.bounds()
    assert report["visible_box"] == {"lower": pytest.approx(lower.tolist()), "upper": pytest.approx(upper.tolist())}
    # The words of `convert`.
    assert report["losses"] == {suffix: losses_of(suffix, scene) for suffix in WRITERS}
    assert report["losses"][".splat"][0].startswith("spherical harmonics of degree 1 to 2 are dropped")


def test_the_report_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.spz"
    write_scene(path, some_scene(50))
    status, out, err = run(capsys, "info", path)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"{path}: .spz version 3, centres in steps of 1/4096, {path.stat().st_size} bytes"
    assert lines[1] == "50 Gaussians, SH degree 3; not finite and left out: 0"
    assert lines[3].split() == ["min", "2%", "50%", "98%", "max"]
    assert [line.split()[0] for line in lines[4:9]] == ["x", "y", "z", "scale", "opacity"]
    assert lines[10].startswith("96 % of what is visible, along each axis: -")
    assert (
        ".splat: spherical harmonics of degree 1 to 3 are dropped: colours will look the same from everywhere" in lines
    )


def test_what_is_not_finite_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = columns(20)
    values["x"][:3] = np.nan
    (tmp_path / "a.ply").write_bytes(ply(values))
    status, out, err = run(capsys, "info", tmp_path / "a.ply", "--json")
    report = json.loads(out)
    assert status == 0
    assert (report["gaussians"], report["left_out"]) == (17, 3)
    assert "left out 3 of 20 Gaussians" in err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_scene_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    (tmp_path / "a.ply").write_bytes(ply(columns(0)))
    picture = tmp_path / "a.png"
    status, out, err = run(capsys, "info", tmp_path / "a.ply", "--histograms", picture, *options)
    assert (status, err) == (0, "")
    assert json.loads(out)["quantiles"] == {} if options else "0 Gaussians" in out
    assert picture.exists()


def test_bars() -> None:
    values = np.array([-5, 0, 0.5, 1, 9], np.float32)
    counts = histogram_bars(values, 0, 1)
    assert len(counts) == BARS
    assert {i: count for i, count in enumerate(counts.tolist()) if count} == {0: 2, BARS // 2: 1, BARS - 1: 2}
    assert histogram_bars(np.full(4, 7, np.float32), 7, 7).sum() == 4
    assert histogram_bars(np.zeros(0, np.float32), 0, 1).tolist() == [0] * BARS


def test_the_picture_has_a_panel_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = some_scene(400, degree=0)
    scene.opacities[:] = 0.9
    scene.sh[:, 0] = (0.25 - 0.5) / SH_C0
    write_scene(tmp_path / "a.ply", scene)
    status, _, _ = run(capsys, "info", tmp_path / "a.ply", "--histograms", tmp_path / "a.png")
    assert status == 0
    with Image.open(tmp_path / "a.png") as image:
        pixels = torch.from_numpy(np.asarray(image.convert("RGB"), int).copy())
    width, height = PANEL
    assert pixels.shape == (3 * height, 2 * width, 3)
    blue = (pixels == torch.tensor([0x30, 0x60, 0xA0])).all(dim=2)
    panels = [blue[y : y + height, x : x + width] for y in range(0, 3 * height, height) for x in (0, width)]
    bars = [panel.any(dim=0).nonzero().flatten() for panel in panels]
    for found in bars[:4]:  # x, y, z and standard deviations are spread out
        assert len(found) > 100
    # One bar each, at nine and at two and a half tenths.
    for found, share in ((bars[4], 0.9), (bars[5], 0.25)):
        assert len(found) <= 6
        assert (found[0].item() - 20) / (4 * BARS) == pytest.approx(share, abs=0.02)


def test_scenes_that_info_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.splat").write_bytes(bytes(31))
    status, out, err = run(capsys, "info", tmp_path / "a.splat")
    assert (status, out) == (1, "")
    assert err == f"splat: {tmp_path / 'a.splat'}: a .splat file has 32 bytes for each Gaussian, found 31 bytes\n"
    assert run(capsys, "info", tmp_path / "none.ply")[0] == 1
    assert run(capsys, "info")[0] == 2
    status, _, err = run(capsys, "info", tmp_path / "a.splat", "--histograms", "a.jpg")
    assert (status, "the name must end in .png, found 'a.jpg'" in err) == (2, True)


def test_the_picture_shows_what_the_cameras_beside_a_scene_see(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = some_scene(400, degree=0)
    write_scene(tmp_path / "a.ply", scene)
    cameras = [orbit(scene, 60, 40, azimuth=90.0 * turn, distance=0.4) for turn in range(4)]
    write_cameras(tmp_path / "a.cameras.json", cameras, ["a"] * 4)
    assert run(capsys, "info", tmp_path / "a.ply", "--histograms", tmp_path / "a.png")[0] == 0
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (2 * PANEL[0], 4 * PANEL[1])
        pixels = np.asarray(image.convert("RGB"), int)[3 * PANEL[1] :]
    blue = (pixels == [0x30, 0x60, 0xA0]).all(axis=2).any(axis=0)
    counts = seen_by(scene, cameras).counts.unique()
    bars = {20 + 4 * min(int(count) * BARS // 4, BARS - 1) for count in counts}
    assert len(bars) > 1
    assert {column for column in np.flatnonzero(blue[: PANEL[0]]) if column % 4 == 0} == bars
    assert blue[PANEL[0] :].sum() > 100
