"""`splat fit` in several processes: the scene of one, errors once, and nothing lost on the way."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fit_program as program
import photographs
import processes
import pytest
import torch
import warm_python
from PIL import Image

from splat.fit.shards import ALONE, Shards
from splat.fit.strategies import STRATEGIES, passes
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import render
from splat.scene.formats import read_scene

pytestmark = [pytest.mark.slow]

SMALL = ("--steps", "41", "--gaussians", "300", "--sh-degree", "1", "--device", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs, some of which are smaller than the others."""
    made = photographs.colmap_folder(tmp_path_factory.mktemp("photographs") / "garden", count=16)
    for number, path in enumerate(sorted((made / "images").iterdir())):
        if number % 3 == 1:
            with Image.open(path) as image:
                image.resize((image.width // 2, image.height // 2)).save(path)
    return made


def run_ranks(words: list[list[Any]], cwd: Path) -> list[processes.Done]:
    """A command of Python in each of several processes, as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(len(words)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}

    def run(rank: int) -> processes.Done:
        environ = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"}
        return warm_python.run(words[rank], cwd=cwd, env=environ, check=False, limit=120)

    with ThreadPoolExecutor(len(words)) as threads:
        return list(threads.map(run, range(len(words))))


def fit_in(count: int, *words: Any, cwd: Path) -> list[processes.Done]:
    return run_ranks([["-m", "splat", "fit", *words, *SMALL]] * count, cwd)


@pytest.mark.parametrize(
    "name", [name if name == "grow" else pytest.param(name, marks=pytest.mark.minutes) for name in program.OPTIONS]
)
def test_a_step_is_for_the_mean_of_the_processes_pictures(tmp_path: Path, folder: Path, name: str) -> None:
    """Against the same sums in one process: what each rank has got of gradients, and what strategies have counted."""
    done = run_ranks([[program.__file__, folder, tmp_path, name]] * 3, tmp_path)
    assert [each.returncode for each in done] == [0, 0, 0], done[0].stderr
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(3)]
    assert found[0]["pictures"] == found[1]["pictures"] == found[2]["pictures"], "every process has all of them"

    trainer = Trainer(program.views(folder), FitOptions(**program.OPTIONS[name]))
    # In the order that the Gaussians have in the exchange: it decides between those of the same depth.
    rows = torch.cat([torch.arange(len(trainer.table))[rank::3] for rank in range(3)])
    trainer.table.rebuild(rows, {}, rows[:0])
    views = [trainer._view_at(step) for step in program.STEPS]
    assert len({trainer.views.sizes[view] for view in views}) == 2, "of two sizes"
    scene = trainer.table.activated()
    losses, pull = [], torch.zeros(len(trainer.table))
    for view in views:
        viewmats = trainer.cameras.viewmats_of([view]) if trainer.cameras else None
        image, meta = render(scene, trainer.views, view, 0, trainer.strategy.absgrad, viewmats)
        means2d: Any = meta["means2d"]
        means2d.retain_grad()
        loss = trainer._loss(image, view)
        loss.backward(retain_graph=True)
        losses.append(float(loss.detach()))
        gradients = means2d.absgrad if trainer.strategy.absgrad else means2d.grad
        pull += (gradients[0] * torch.tensor(trainer.views.sizes[view]) / 2).norm(dim=1)
    if name == "mcmc":
        (len(views) * trainer.strategy.penalty(scene, len(trainer.table), trainer.extent)).backward()
    assert [each["loss"] for each in found] == [pytest.approx(sum(losses) / 3, rel=1e-5)] * 3
    for each in trainer.table.parameters:
        gradient = trainer.table.parameters[each].grad
        assert gradient is not None
        expected = gradient / 3
        mine = torch.cat([ranks["gradients"][each] for ranks in found])
        assert (mine - expected).abs().max() <= 1e-4 * expected.abs().max(), each
    if name != "mcmc":
        mine = torch.cat([ranks["counts"]["pull"] for ranks in found])
        torch.testing.assert_close(mine, pull, rtol=1e-3, atol=1e-6)
    for part in trainer.picture_parameters.values():
        rows = [row.grad for row in part.rows]
        assert sum(row is not None for row in rows) == 3


@pytest.mark.minutes
def test_four_processes_fit_as_well_as_one(tmp_path: Path) -> None:
    """The built-in scene, at an equal number of pictures."""
    words = ["fit", "-o", "a.ply", "--steps", "800", "--gaussians", "2000", "--device", "cpu"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    (tmp_path / "one").mkdir()
    one = processes.run([sys.executable, "-m", "splat", *words], cwd=tmp_path / "one")
    four = processes.run([sys.executable, *torchrun, "-m", "splat", *words], cwd=tmp_path)
    psnrs = [float(re.findall(r"PSNR ([\d.]+) dB", done.stdout)[0]) for done in (one, four)]
    assert psnrs[1] > psnrs[0] - 1, psnrs
    scenes = [read_scene(tmp_path / place / "a.ply") for place in ("one", ".")]
    assert len(scenes[0]) == len(scenes[1]) == 2000
    assert four.stdout.count("\n") == 2, "one process prints"


@pytest.mark.minutes
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_interrupted_fit_goes_on_with_the_same_and_with_another_number(
    tmp_path: Path, folder: Path, strategy: str
) -> None:
    for place in ("whole", "same", "other"):
        (tmp_path / place).mkdir()
    options = ("--strategy", strategy, "--refine-cameras", "--appearance", "affine")
    whole = fit_in(2, folder, "-o", "a.ply", *options, cwd=tmp_path / "whole")
    assert [done.returncode for done in whole] == [0, 0], whole[0].stderr
    assert whole[1].stdout + whole[1].stderr == ""
    # A signal to one of them stops all.
    words = [program.__file__, "interrupted", 21, "fit", folder, "-o", "a.ply", *options, *SMALL]
    for place in ("same", "other"):
        done = run_ranks([words] * 2, tmp_path / place)
        assert [each.returncode for each in done] == [130, 130], done[0].stderr
        assert done[0].stderr.count("interrupted after 22 of 41 steps") == 1
        assert "interrupted" not in done[1].stderr
    resumed = fit_in(2, folder, "-o", "a.ply", "--resume", *options, cwd=tmp_path / "same")
    assert resumed[0].returncode == 0, resumed[0].stderr
    assert (tmp_path / "same" / "a.ply").read_bytes() == (tmp_path / "whole" / "a.ply").read_bytes()
    resumed = fit_in(3, folder, "-o", "a.ply", "--resume", *options, cwd=tmp_path / "other")
    assert resumed[0].returncode == 0, resumed[0].stderr
    assert len(read_scene(tmp_path / "other" / "a.ply")) == len(read_scene(tmp_path / "whole" / "a.ply"))


@pytest.mark.minutes
def test_ctrl_c_reaches_all_twice_and_saves_once(tmp_path: Path, folder: Path) -> None:
    """A terminal sends it to all processes, and torchrun passes it on."""
    words: list[Any] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words += ["-m", "splat", "fit", folder, "-o", "a.ply", "--steps", "100000", "--gaussians", "300"]
    running = subprocess.Popen(
        [sys.executable, *map(str, words), "--device", "cpu"], cwd=tmp_path, env=processes.clean_environment(),
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert running.stderr is not None
    said = ""
    while "to go" not in said:
        line = running.stderr.readline()
        assert line, said
        said += line
    os.killpg(running.pid, signal.SIGINT)
    said += running.communicate(timeout=60)[1]
    assert len(re.findall("splat: interrupted after", said)) == 1, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.cameras.json", "a.checkpoint.npz", "a.ply"]


def test_a_rank_that_dies_ends_the_others(tmp_path: Path, folder: Path) -> None:
    words = ["fit", folder, "-o", "a.ply", *SMALL]
    alive, dead = run_ranks([["-m", "splat", *words], [program.__file__, "dead", 5, *words]], tmp_path)
    assert dead.returncode == 9
    assert alive.returncode == 1
    assert re.search("splat: rank 0 of 2: another rank has ended, or does not answer", alive.stderr), alive.stderr


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([], ["--steps", "40"], "all ranks must have the same steps; rank 0 has 41, rank 1 has 40"),
        pytest.param([], ["--images", "none"], "rank 1 of 2: ", marks=pytest.mark.minutes),
        pytest.param(["--images", "none"], ["--images", "none"], "none: ", marks=pytest.mark.minutes),
    ],
    ids=["steps", "one fails", "all fail"],
)
def test_what_fails_before_the_first_step_is_said_once(
    tmp_path: Path, folder: Path, first: list[str], second: list[str], message: str
) -> None:
    words = ["-m", "splat", "fit", folder, "-o", "a.ply", *SMALL]
    done = run_ranks([[*words, *first], [*words, *second]], tmp_path)
    assert [each.returncode for each in done] == [1, 1]
    said = [line for line in (done[0].stderr + done[1].stderr).splitlines() if line.startswith("splat: ")]
    assert len(said) == 1, said
    assert message in said[0]


@pytest.mark.minutes
def test_an_environment_that_is_not_torchruns_is_refused(tmp_path: Path) -> None:
    environ = {"RANK": "x", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    done = warm_python.run_python(
        "import sys; from splat.cli import main; sys.exit(main(sys.argv[1:]))", "fit", "-o", "a.ply", *SMALL,
        cwd=tmp_path, env=environ, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "RANK must be a whole number, as torchrun sets it, found 'x'" in done.stderr


def test_the_parts_of_shards_add_up() -> None:
    for count in range(1, 6):
        for total in range(12):
            rows = torch.arange(total)
            shards = [Shards(rank, count) for rank in range(count)]
            assert [each.part(total) for each in shards] == [len(each.own(rows)) for each in shards]
            assert torch.equal(torch.cat([each.own(rows) for each in shards]).sort().values, rows)
    assert ALONE.counts(7) == [7]


def test_a_multiple_among_several_steps_is_not_missed() -> None:
    taken = [range(1, 4), range(4, 7), range(7, 10), range(10, 12)]
    assert [passes(steps, 5) for steps in taken] == [False, True, False, True]
