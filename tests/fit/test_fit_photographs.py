"""`splat fit FOLDER`: photographs become a scene and a page, and nothing is lost on the way."""

from __future__ import annotations

import base64
import contextlib
import errno
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fit_runs import SMALL, interrupted_once, run
from PIL import Image
from torch import Tensor

from splat.commands import fit_command, fit_progress
from splat.commands.fit_arguments import default_size
from splat.commands.memory import NotEnoughMemory
from splat.commands.progress_bar import duration
from splat.fit.checkpoints import digest_of, resume, write_checkpoint
from splat.fit.held_out import HoldOut
from splat.fit.photograph_views import photograph_views
from splat.fit.picture_quality import judge
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.photos.folders import read_capture
from splat.scene.formats import read_scene
from splat.scene.gaussians import SceneError
from splat.scene.npz import read_npz

pytestmark = [pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def views(folder: Path) -> Views:
    return photograph_views(read_capture(folder), 200, 0)


def test_photographs_become_a_scene_and_a_page(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = ("--steps", "150", "--gaussians", "600", "--sh-degree", "0")
    assert run(folder, "-o", tmp_path / "scene.ply", *steps) == 0
    out, err = capsys.readouterr()
    assert out.startswith("600 Gaussians from 14 pictures of 40x30, 150 steps, cpu, ")
    found = re.search(
        r"PSNR ([\d.]+) dB on 2 held-out pictures \([\d.]+ to [\d.]+, too few to say much\), SSIM ([\d.]+); "
        r"comparison: \S+scene\.png; page: ",
        out,
    )
    assert found
    assert float(found[1]) > 20
    assert float(found[2]) > 0.75
    # Every tenth of the way, with what is left.
    said, *lines = err.splitlines()
    assert said.startswith("16 photographs, used at 40x30: 150 steps to 600 Gaussians on the CPU, with about 0.1 GiB")
    assert len(lines) == 9
    for number, line in enumerate(lines, 1):
        assert re.fullmatch(
            rf"step {number * 15} of 150: loss 0\.\d+, \d+ Gaussians, PSNR [\d.]+ dB, SSIM [\d.]+ on 2 held-out "
            r"pictures; "
            r"\d+ s left",
            line,
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "scene.cameras.json", "scene.checkpoint.npz", "scene.comparison.html", "scene.ply", "scene.png",
        "scene.quality.json",
    ]  # fmt: skip
    said = json.loads((tmp_path / "scene.quality.json").read_text())
    assert said["held_out"] is True
    assert [picture["name"] for picture in said["pictures"]] == ["00.png", "08.png"]
    assert f"{said['psnr']:.1f}" == found[1]
    assert said["psnr"] == pytest.approx(sum(picture["psnr"] for picture in said["pictures"]) / 2)
    assert len(read_scene(tmp_path / "scene.ply")) == 600


def test_the_page_has_photographs_renders_and_differences(tmp_path: Path, folder: Path) -> None:
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, "--page", tmp_path / "b.html") == 0
    page = (tmp_path / "b.html").read_text()
    assert not (tmp_path / "a.comparison.html").exists()
    said = json.loads((tmp_path / "a.quality.json").read_text())
    numbers = re.findall(r"<h2>(.*)</h2><p>PSNR (.*) dB, SSIM (.*)</p>", page)
    worst = sorted(said["pictures"], key=lambda picture: picture["psnr"])
    assert numbers == [(each["name"], f"{each['psnr']:.2f}", f"{each['ssim']:.3f}") for each in worst]
    assert f"On average PSNR {said['psnr']:.2f} dB, SSIM {said['ssim']:.3f}." in page
    found = re.findall(r'<img alt="photograph of ([^"]*)" [^>]*src="data:image/jpeg;base64,([^"]*)">', page)
    assert [name for name, _ in found] == [name for name, _, _ in numbers]
    for name, data in found:
        with Image.open(folder / "images" / name) as taken, Image.open(io.BytesIO(base64.b64decode(data))) as shown:
            assert np.abs(np.asarray(shown, dtype=float) - np.asarray(taken)).mean() < 5


@pytest.mark.parametrize(("name", "loss"), [("a.splat", "spherical harmonics"), ("a.spz", ""), ("a.ply", "")])
def test_scenes_are_written_in_every_format_and_judged_as_written(
    tmp_path: Path, folder: Path, views: Views, capsys: pytest.CaptureFixture[str], name: str, loss: str
) -> None:
    assert run(folder, "-o", tmp_path / name, *SMALL) == 0
    scene = read_scene(tmp_path / name)
    assert len(scene) == 300
    said = json.loads((tmp_path / "a.quality.json").read_text())
    assert said["psnr"] == pytest.approx(judge(scene, views.select(HoldOut().choose(views))).psnr, abs=1e-3)
    assert (tmp_path / "a.comparison.html").exists()
    warned = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert ("harmonics" in " ".join(warned)) == bool(loss)


# Going on


def test_a_fit_that_goes_on_gives_the_same_scene(tmp_path: Path, views: Views) -> None:
    for strategy in ("grow", "default", "mcmc"):
        options = FitOptions(steps=40, gaussians=400, sh_degree=1, strategy=strategy)
        whole = Trainer(views, options)
        whole.fit(lambda *_: None)
        path = tmp_path / f"{strategy}.npz"
        first = Trainer(views, options)
        assert first.fit(lambda *_: None, stop=lambda first=first: first.done == 23) == 23  # type: ignore[misc]
        write_checkpoint(path, first, digest_of(first))
        second = Trainer(views, options)
        resume(path, second, digest_of(second))
        assert second.done == 23
        steps: list[int] = []
        second.fit(lambda taken, _, steps=steps: steps.extend(taken))  # type: ignore[misc]
        assert steps == list(range(24, 41))
        for value, again in zip(whole.gaussians().tensors, second.gaussians().tensors, strict=True):
            assert torch.equal(value, again), strategy
        assert len(whole.table) > 300


class Failing:
    """Stops a fit before a step, in one of the ways in which that happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException | None) -> None:
        step = Trainer.step

        def failing(trainer: Trainer, steps: range) -> float:
            if at in steps and error is not None:
                raise error
            return step(trainer, steps)

        monkeypatch.setattr(Trainer, "step", failing)


def test_an_interrupted_fit_of_photographs_goes_on_to_the_same_bytes(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whole").mkdir()
    assert run(folder, "-o", tmp_path / "whole" / "a.ply", *SMALL) == 0
    out = tmp_path / "a.ply"
    fit = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda t, report, stop: fit(t, report, lambda: t.done == 13))
    monkeypatch.setattr(fit_command, "catch_interrupt", interrupted_once)
    assert run(folder, "-o", out, *SMALL) == 130
    err = capsys.readouterr().err
    assert "interrupted after 13 of 40 steps; the scene as fitted so far, " in err
    assert f"run the same command with --resume to continue from {tmp_path / 'a.checkpoint.npz'}" in " ".join(
        err.split()
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.cameras.json", "a.checkpoint.npz", "a.ply", "whole"]
    monkeypatch.undo()
    # Nothing is started anew over it by mistake.
    assert run(folder, "-o", out, *SMALL) == 1
    assert "this is the checkpoint of an unfinished fit; continue it with --resume" in capsys.readouterr().err
    assert run(folder, "-o", out, *SMALL, "--resume") == 0
    assert out.read_bytes() == (tmp_path / "whole" / "a.ply").read_bytes()


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError("No space left")],
    ids=lambda e: type(e).__name__,
)
def test_what_was_fitted_before_a_failure_is_kept(
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
) -> None:
    Failing(monkeypatch, 22, error)
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, "--checkpoint-every", "10") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"splat: (fitting 300 Gaussians .* needs more memory|No space left)", err)
    assert f"splat: the scene after 21 of 40 steps, {len(read_scene(tmp_path / 'a.ply'))} Gaussians, is in" in err
    monkeypatch.undo()
    # The checkpoint is that of step 20.
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, "--resume") == 0
    assert "step 24 of 40" in capsys.readouterr().err


def test_a_failure_in_the_first_step_leaves_what_was_there(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.ply").write_bytes(b"before")
    Failing(monkeypatch, 1, MemoryError())
    with pytest.raises(NotEnoughMemory, match="fitting 300 Gaussians to 16 pictures of 40x30 needs more memory"):
        run(folder, "-o", tmp_path / "a.ply", *SMALL)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.ply": b"before"}


def test_an_unfinished_scene_does_not_replace_one_that_was_there(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = tmp_path / "a.ply", tmp_path / "a.unfinished.ply"
    assert run(folder, "-o", out, *SMALL) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(fit_command, "write_checkpoint", lambda *_: (_ for _ in ()).throw(full))
    capsys.readouterr()
    assert run(folder, "-o", out, *SMALL, "--checkpoint-every", "20", "--seed", "1") == 1
    assert f"the scene after 20 of 40 steps, {len(read_scene(other))} Gaussians, is in {other}" in (
        capsys.readouterr().err
    )
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before} == before
    assert {*after} - {*before} == {"a.unfinished.ply", "a.unfinished.cameras.json"}
    monkeypatch.undo()
    # So it is with Ctrl-C, and whoever goes on gets the whole scene.
    fit = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda t, report, stop: fit(t, report, lambda: t.done == 13))
    monkeypatch.setattr(fit_command, "catch_interrupt", interrupted_once)
    assert run(folder, "-o", out, *SMALL, "--seed", "1") == 130
    assert out.read_bytes() == before["a.ply"]
    assert other.read_bytes() != after["a.unfinished.ply"]
    monkeypatch.undo()
    assert run(folder, "-o", out, *SMALL, "--seed", "1", "--resume") == 0
    assert out.read_bytes() != before["a.ply"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, views: Views) -> tuple[Path, Views]:
    trainer = Trainer(views, FitOptions(steps=9, gaussians=60, sh_degree=0))
    trainer.fit(lambda *_: None, stop=lambda: trainer.done == 2)
    path = tmp_path_factory.mktemp("checkpoints") / "a.npz"
    write_checkpoint(path, trainer, "pictures")
    return path, views


def fresh(views: Views, **options: Any) -> Trainer:
    values = {"steps": 9, "gaussians": 60, "sh_degree": 0, **options}
    return Trainer(views, FitOptions(**values))


@pytest.mark.parametrize(
    ("options", "pictures", "message"),
    [
        ({"steps": 8}, "pictures", "of a fit of 9 steps, not 8; give as many --steps, or more, .*, or remove"),
        ({"gaussians": 70}, "pictures", "of a fit with other --gaussians: required 70, found 60"),
        ({"seed": 1}, "pictures", "of a fit with other --seed: required 1, found 0"),
        ({"strategy": "default"}, "pictures", "of a fit with other --strategy: required default, found grow"),
        (
            {},
            "others",
            "of a fit to other pictures, cameras or points; give those, .*, or remove the file",
        ),
    ],
)
def test_the_checkpoint_of_another_fit(
    checkpoint: tuple[Path, Views], options: dict[str, Any], pictures: str, message: str
) -> None:
    with pytest.raises(SceneError, match=message):
        resume(checkpoint[0], fresh(checkpoint[1], **options), pictures)


def test_a_checkpoint_of_pictures_of_another_size_says_how_to_go_on(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda t, report, stop: fit(t, report, lambda: t.done == 2))
    monkeypatch.setattr(fit_command, "catch_interrupt", interrupted_once)
    half = (folder, "-o", tmp_path / "a.ply", *SMALL, "--max-size", "20")
    assert run(*half) == 130
    capsys.readouterr()
    monkeypatch.undo()
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, "--resume") == 1
    said = capsys.readouterr().err
    assert (
        "a.checkpoint.npz: it is the checkpoint of a fit to pictures of 20x15 pixels, not 40x30; give its --max-"
        in said
    )
    assert "or remove the file to begin anew" in said
    assert run(*half, "--resume") == 0


NAMES = ["fit", "shards", *(f"{n}{m}" for n in ("means", "quats", "scales", "opacities", "constant", "bands")
                  for m in ("", ".exp_avg", ".exp_avg_sq")), "count.pull", "count.seen"]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"means": None}, "a checkpoint of this fit is required, with means; found"),
        ({"means": np.zeros((60, 2), np.float32)}, r"means must be float32 of shape \[60, 3\], found float32 of"),
        ({"means": np.zeros((9999, 3), np.float32)}, "1 to 60 Gaussians are required, found 9999"),
        ({"means": np.float32(1)}, "1 to 60 Gaussians are required, found 0"),
        *[({name: np.full((60, *shape), value, np.float32)}, rf"{name.removeprefix('count.')} must be finite numbers")
          for name, shape in (("scales", (3,)), ("means.exp_avg", (3,)), ("opacities", ()), ("count.pull", ()))
          for value in (np.nan, -np.inf)],
        ({"scales.exp_avg_sq": np.full((60, 3), -1, np.float32)}, "scales.exp_avg_sq must be finite .* of at least 0"),
        ({"scales": np.full((60, 3), 90, np.float32)}, "Gaussians of finite sizes .* are required, found 60 others"),
        ({"quats": np.zeros((60, 4), np.float32)}, "Gaussians .* with rotations are required, found 60 others"),
        ({"scales.exp_avg": np.zeros((60, 3))}, r"scales.exp_avg must be float32 .*, found float64"),
        ({"count.seen": np.zeros(3, np.float32)}, r"seen must be float32 of shape \[60\], found float32 of \[3\]"),
        ({"shards": np.array([30, 20])}, r"the numbers of Gaussians of each process, 60 in all; found int64 of \[2\]"),
        ({"shards": np.array([70, -10])}, r"60 in all; found int64 of \[2\]"),
        ({"shards": np.array([60.0])}, r"60 in all; found float64 of \[1\]"),
        ({"fit": np.frombuffer(b"[]", np.uint8)}, "a checkpoint is required, found something else"),
        ({"fit": np.frombuffer(b"[" * 9000, np.uint8)}, "a checkpoint is required, found something else"),
        ({"fit": np.frombuffer(b'{"done": 3}', np.uint8)}, "of a fit by another version of splat; go on with that one"),
        ({"fit": np.zeros(20000, np.uint8)}, "something else: it has no description"),
        ({"fit": np.array([{}], object)}, "fit is damaged, or not an array: plain numbers are required, found objects"),
    ],
)  # fmt: skip
def test_checkpoints_that_are_something_else(
    tmp_path: Path, checkpoint: tuple[Path, Views], changes: dict[str, Any], message: str
) -> None:
    arrays, _ = read_npz(checkpoint[0], NAMES)
    arrays.update(changes)
    np.savez(tmp_path / "a.npz", **{name: value for name, value in arrays.items() if value is not None})
    trainer = fresh(checkpoint[1])
    before = {name: value.clone() for name, value in trainer.table.parameters.items()}
    with pytest.raises(SceneError, match=message):
        resume(tmp_path / "a.npz", trainer, "pictures")
    assert trainer.done == 0
    assert all(torch.equal(value, trainer.table.parameters[name]) for name, value in before.items())


def test_damaged_checkpoints_are_refused_and_never_crash(tmp_path: Path, checkpoint: tuple[Path, Views]) -> None:
    whole = checkpoint[0].read_bytes()
    generator = np.random.default_rng(1)
    trainer = fresh(checkpoint[1])
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        if generator.random() < 0.3:
            del damaged[int(generator.integers(len(damaged))) :]
        for place in generator.integers(len(damaged) or 1, size=3 if damaged else 0):
            damaged[place] = generator.integers(256)
        (tmp_path / "a.npz").write_bytes(damaged)
        with contextlib.suppress(SceneError):
            resume(tmp_path / "a.npz", trainer, "pictures")
        refused += trainer.done == 0
        trainer.done = 0
    assert refused > 50


# What is said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume"], "a.checkpoint.npz: a checkpoint is required for --resume, found none; start without it"),
        (["--downscale", "9"], "at least 8x8 pixels are required, found 4x3"),
        (["--images", "nowhere"], "nowhere: a folder of pictures is required for --images, found none"),
    ],
)
def test_options_that_cannot_be_followed(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, *arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_options_of_photographs_are_for_photographs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-o", tmp_path / "a.ply", "--downscale", "2") == 1
    assert (
        "--images, --lenses, --masks, --background, --downscale and --max-size are for a folder of photographs"
        in capsys.readouterr().err
    )
    assert run("-o", tmp_path / "a.ply", "--resume") == 1
    assert "--resume needs a checkpoint: name it with --checkpoint FILE.npz" in capsys.readouterr().err


def test_times_are_said_as_people_say_them() -> None:
    assert [duration(seconds) for seconds in (0.4, 59, 61, 7384)] == ["0 s", "59 s", "1 min 1 s", "2 h 3 min"]


@pytest.mark.parametrize("measured", [False, True])
def test_the_first_gaussians_are_small_where_there_are_many(views: Views, measured: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    places = torch.rand(400, 3, generator=generator)
    points = torch.cat([places[:200] * 0.1, 1 + 20 * places[200:]])
    given = replace(views, points=points, colors=torch.zeros_like(points), measured=measured)
    table = Trainer(given, FitOptions(steps=1, gaussians=400, sh_degree=0)).table
    deviations = table.parameters["scales"].exp()[:, 0]
    # Uniform ones of random points near the cameras would fill the pictures.
    assert 20 * deviations[:200].median() < deviations[200:].median()


@pytest.mark.parametrize(("measured", "outliers"), [(False, 90), (True, 15)])
def test_a_few_points_far_away_do_not_make_a_scene_large(views: Views, measured: bool, outliers: int) -> None:
    """Steps of the centres are in units of the extent; random points are where cameras see far into the distance."""
    points = torch.rand(1000, 3, generator=torch.Generator().manual_seed(0))
    points[:outliers] *= 1000

    def extent(points: Tensor) -> float:
        given = replace(views, points=points, colors=torch.zeros_like(points), measured=measured)
        return Trainer(given, FitOptions(steps=1, gaussians=1000, sh_degree=0)).extent

    assert 0.5 * extent(points) < extent(points[outliers:]) < 3**0.5 / 2
    assert extent(points[:1].expand(5, 3)) > 0, "also of points in one place"


def test_quality_is_measured_ten_times_but_not_at_the_end() -> None:
    assert [step for step in range(1, 41) if fit_progress.measured_at(range(step, step + 1), 40)] == list(
        range(4, 40, 4)
    )
    assert [step for step in range(1, 4) if fit_progress.measured_at(range(step, step + 1), 3)] == [1, 2]


def test_photographs_are_made_as_small_as_the_machine_needs(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = shutil.copytree(folder, tmp_path / "large")
    for path in (large / "images").iterdir():
        Image.open(path).resize((800, 600)).save(path)
    monkeypatch.setattr(Trainer, "fit", lambda trainer, report, stop: 0)
    for options, size in (((), "480x360"), (("--max-size", "200"), "200x150"), (("--downscale", "2"), "400x300")):
        run(large, "-o", tmp_path / f"{size}.ply", *options)
        err = capsys.readouterr().err
        assert f"16 photographs, used at {size}: 2000 steps to 30000 Gaussians on the CPU" in err


@pytest.mark.parametrize(("steps", "gaussians"), [(1, 5000), (500, 7500), (2000, 30_000), (9000, 30_000)])
def test_fewer_steps_have_fewer_gaussians(steps: int, gaussians: int) -> None:
    assert default_size(photographs=True, device="cpu").gaussians_after(steps) == gaussians


def test_the_time_is_said_before_it_has_passed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 10_000, 3))
    monkeypatch.setattr(fit_progress.time, "monotonic", lambda: next(now))
    with fit_progress.fit_progress(1000, 0, "2 pictures", lines=True) as report:
        for step in range(1, 26):
            report(step, 0.1, 100, None)
    assert capsys.readouterr().err == "about 49 min 0 s to go, more if many Gaussians are added\n"
