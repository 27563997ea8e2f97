"""Fits that go on: a complete one with more steps, and one that begins with the Gaussians of a scene."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fit_runs import SMALL, interrupted_once, run
from scene_files import some_scene

from splat.commands import fit_command
from splat.fit.checkpoints import digest_of, is_complete, resume, write_checkpoint
from splat.fit.learning_rates import learning_rates
from splat.fit.photograph_views import photograph_views
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.photos.folders import read_capture
from splat.scene.edits import shift_scene
from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import Gaussians, SceneError

pytestmark = [pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def views(folder: Path) -> Views:
    return photograph_views(read_capture(folder), 100, 0)


def fitted(views: Views, options: FitOptions, until: int, begin: Gaussians | None = None) -> Trainer:
    trainer = Trainer(views, options, begin=begin)
    trainer.fit(lambda *_: None, stop=lambda: trainer.done == until)
    return trainer


def test_the_schedule_of_a_longer_fit_is_that_of_its_steps(tmp_path: Path, views: Views) -> None:
    options = FitOptions(steps=20, gaussians=300, sh_degree=1)
    first = fitted(views, options, 20)
    write_checkpoint(tmp_path / "a.npz", first, digest_of(first))
    longer = Trainer(views, replace(options, steps=200))
    resume(tmp_path / "a.npz", longer, digest_of(longer))
    assert (longer.done, longer.first, longer.total) == (20, first.first, first.total)
    assert longer.options.degree_at(21) == 0
    longer.fit(lambda *_: None, stop=lambda: longer.done == 21)
    gradient = longer.table.parameters["bands"].grad
    assert gradient is not None
    assert gradient.any(), "harmonics that were fitted stay in use"
    rates = {group["name"]: group["lr"] for group in longer.table.optimizer.param_groups}
    assert rates == learning_rates(21, 200, longer.extent)
    shorter = Trainer(views, replace(options, steps=19))
    with pytest.raises(
        SceneError, match="checkpoint of a fit of 20 steps, not 19; give as many --steps, or more, with"
    ):
        resume(tmp_path / "a.npz", shorter, digest_of(shorter))


def test_a_complete_fit_goes_on_with_more_steps(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, kept = tmp_path / "a.ply", tmp_path / "a.checkpoint.npz"
    assert run(folder, "-o", out, *SMALL) == 0
    assert is_complete(kept)
    before = out.read_bytes()
    # With as many steps it is the same scene again; with more, one that is interrupted does not replace it.
    assert run(folder, "-o", out, *SMALL, "--resume") == 0
    assert out.read_bytes() == before
    longer = (folder, "-o", out, *SMALL, "--steps", "60", "--resume")
    with monkeypatch.context() as patch:
        fit = Trainer.fit
        patch.setattr(Trainer, "fit", lambda t, report, stop: fit(t, report, lambda: t.done == 45))
        patch.setattr(fit_command, "catch_interrupt", interrupted_once)
        assert run(*longer) == 130
    assert out.read_bytes() == before
    assert (tmp_path / "a.unfinished.ply").exists()
    assert not is_complete(kept)
    capsys.readouterr()
    assert run(*longer) == 0
    assert "300 Gaussians from 14 pictures of 40x30, 60 steps (45 of them before), cpu" in capsys.readouterr().out
    assert out.read_bytes() != before
    assert is_complete(kept)


@pytest.mark.parametrize(("every", "steps"), [(20, [20, 40]), (15, [15, 30, 40])])
def test_the_last_checkpoint_is_written_once(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, every: int, steps: list[int]
) -> None:
    written: list[int] = []

    def write(path: Path, trainer: Trainer, pictures: str) -> None:
        written.append(trainer.done)
        write_checkpoint(path, trainer, pictures)

    monkeypatch.setattr(fit_command, "write_checkpoint", write)

    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, "--checkpoint-every", str(every)) == 0

    assert written == steps
    assert is_complete(tmp_path / "a.checkpoint.npz")


def test_a_fit_begins_with_the_gaussians_of_a_scene(views: Views) -> None:
    options = FitOptions(steps=20, gaussians=300, sh_degree=2)
    cut = r"the scene to begin with are of degree 3, which is cut to 2"
    for degree, said in ((1, nullcontext()), (3, pytest.warns(UserWarning, match=cut))):
        scene = some_scene(50, degree=degree)
        with said:
            found = Trainer(views, options, begin=scene).gaussians()
        torch.testing.assert_close(found.means, scene.means)
        torch.testing.assert_close(found.scales, scene.scales)
        torch.testing.assert_close(found.opacities, scene.opacities.clamp(1e-6, 1 - 1e-6))
        kept = min(scene.sh.shape[1], 9)
        assert torch.equal(found.sh[:, :kept], scene.sh[:, :kept])
        assert not found.sh[:, kept:].any()
    scene = some_scene(50, degree=1)
    with pytest.warns(UserWarning, match="is drawn antialiased, and a fit is not"):
        Trainer(views, options, begin=replace(scene, antialiased=True))
    far = (500_000.0, 4_600_000.0, 300.0)
    moved = Trainer(replace(views, offset=far), options, begin=shift_scene(scene, far)).gaussians()
    torch.testing.assert_close(moved.means, scene.means, rtol=0, atol=1e-5)
    assert moved.offset == far
    for wrong in (some_scene(301), some_scene(0)):
        with pytest.raises(SceneError, match=f"of 1 to --gaussians 300 Gaussians is required .*, found {len(wrong)}"):
            Trainer(views, options, begin=wrong)
    with pytest.raises(SceneError, match=r"the pictures show is required, .* in 16 of 16 pictures"):
        Trainer(views, options, begin=shift_scene(scene, (0, 1000, 0)))


def test_a_fit_that_began_so_goes_on_to_the_same_scene(tmp_path: Path, views: Views) -> None:
    options = FitOptions(steps=60, gaussians=300, sh_degree=1)
    begin = fitted(views, FitOptions(steps=10, gaussians=60, sh_degree=1), 10).gaussians()
    whole = fitted(views, options, 60, begin)
    first = fitted(views, options, 13, begin)
    write_checkpoint(tmp_path / "a.npz", first, digest_of(first))
    second = Trainer(views, options)
    resume(tmp_path / "a.npz", second, digest_of(second))
    second.fit(lambda *_: None)
    assert all(torch.equal(*pair) for pair in zip(whole.gaussians().tensors, second.gaussians().tensors, strict=True))


def test_the_command_begins_with_any_scene(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "-o", tmp_path / "a.glb", *SMALL) == 0
    said = []
    for begin in ((), ("--from", tmp_path / "a.glb")):
        capsys.readouterr()
        assert run(folder, "-o", tmp_path / "b.ply", *SMALL, "--steps", "2", *begin) == 0
        said.append(capsys.readouterr().out)
    points, scene = (float(words.partition("PSNR ")[2].partition(" ")[0]) for words in said)
    assert scene > points + 2
    assert said[1].startswith("300 Gaussians, begun with 300 of a scene, from 14 pictures of 40x30, 2 steps, cpu")
    # Room for all of its Gaussians is made, unless the command says how many there may be.
    write_scene(tmp_path / "many.ply", some_scene(9000))
    assert run("-o", tmp_path / "c.ply", "--steps", "1", "--from", tmp_path / "many.ply") == 0
    assert len(read_scene(tmp_path / "c.ply")) == 9000
    assert read_scene(tmp_path / "c.ply").degree == 3
    assert run(folder, "-o", tmp_path / "d.ply", *SMALL, "--from", tmp_path / "many.ply") == 1
    assert "a scene of 1 to --gaussians 300 Gaussians is required to begin with, found 9000" in capsys.readouterr().err
    assert run(folder, "-o", tmp_path / "d.ply", *SMALL, "--from", tmp_path / "none.ply") == 1
    assert not (tmp_path / "d.ply").exists()
