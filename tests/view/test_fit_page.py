"""`splat fit --view`: the page follows the fit, pauses and ends it, and the scene is that of a fit without a page."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import MagicMock

import browser
import numpy as np
import photographs
import processes
import pytest
import torch
from command_runs import run

from splat.commands.fit_job import FitJob
from splat.commands.fit_page import FitPage
from splat.fit.photograph_views import photograph_views
from splat.fit.training import FitOptions, Trainer
from splat.photos.folders import read_capture
from splat.scene.camera import FirstView
from splat.scene.formats import read_scene
from splat.scene.gaussians import Gaussians
from splat.view.scene_choices import LoadedScene, loaded_scene
from splat.view.server import Viewer
from splat.view.turns import Turns

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_turns_leave_the_rest_of_the_time_to_others() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    turns = Turns(0.2, clock=lambda: now[0], sleep=sleep)
    for seconds in (1.0, 3.0, 0.5):
        with turns.turn():
            now[0] += seconds

    assert slept == [4.0, 12.0]  # so that 1 of 5 seconds was for turns, and then 3 of 15
    now[0] += 100
    with turns.turn():
        pass
    assert len(slept) == 2, "nobody waits for a time that has passed"


def test_a_turn_that_failed_counts_and_ends() -> None:
    slept: list[float] = []
    turns = Turns(0.5, clock=iter([0.0, 0.0, 0.0, 2.0, 2.0, 4.0, 4.0]).__next__, sleep=slept.append)

    with contextlib.suppress(ZeroDivisionError), turns.turn():
        _ = 1 / 0
    with turns.turn():
        pass

    assert slept == [2.0]


class OpenPages:
    """A viewer with a page, which remembers what it was to follow."""

    pages = 1

    def __init__(self, loaded: LoadedScene) -> None:
        self.first = "scene", loaded
        self.followed: list[Gaussians] = []

    def follow(self, loaded: LoadedScene) -> None:
        self.followed.append(loaded.scene)


def test_what_pages_follow_is_a_copy_and_changes_no_step(tmp_path: Path) -> None:
    pytest.importorskip("viser")
    views = photograph_views(read_capture(photographs.colmap_folder(tmp_path / "garden", count=4)), 100, 0)
    scenes = []
    for pages in (False, True):
        trainer = Trainer(views, FitOptions(steps=6, gaussians=200, sh_degree=1))
        page = FitPage(cast(FitJob, SimpleNamespace(steps=6)), "pictures")
        page.add_controls(MagicMock())
        viewer = OpenPages(loaded_scene(trainer.gaussians(), FirstView(views.cameras()[0][0], None)))
        if pages:
            page.show_on(cast(Viewer, viewer))

        def after(steps: range, loss: float, page: FitPage = page, trainer: Trainer = trainer) -> None:
            page._due = 0.0  # however fast the steps are
            page.after(steps[-1], loss, trainer.total, None, trainer.gaussians, lambda: False)

        trainer.fit(after)
        scenes.append(trainer.gaussians())
        if pages:
            first, *_, last = viewer.followed
            assert len(viewer.followed) == 6
            assert not torch.equal(first.means, last.means), "what an earlier step showed is as it was"

    assert all(torch.equal(one, other) for one, other in zip(scenes[0].tensors, scenes[1].tensors, strict=True))


@contextlib.contextmanager
def fitting(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`splat fit --view` of the built-in scene; yields the process and the page's address."""
    command = [sys.executable, "-m", "splat", "fit", "-o", "scene.ply", "--device", "cpu", "--view", "--port", "0"]
    process = subprocess.Popen(
        [*command, *words], cwd=folder, env=processes.clean_environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"(http://127\.0\.0\.1:\d+) shows the fit", line):
                yield process, found[1]
                break
        else:
            raise AssertionError("no page was opened")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def steps_on(page: Page) -> int:
    """The step that the page shows."""
    found = re.search(r"step (\d+) of", page.get_by_text(re.compile(r"^step \d+ of \d+, loss")).inner_text())
    assert found
    return int(found[1])


@pytest.mark.minutes
@pytest.mark.slow
def test_the_page_follows_pauses_and_ends_the_fit(tmp_path: Path) -> None:
    with browser.open_browser() as chromium, fitting(tmp_path, "--steps", "100000") as (process, url):
        page, wrong = browser.visit(chromium, url)
        line = page.get_by_text(re.compile(r"^step \d+ of 100000, loss \d\.\d+, \d+ Gaussians"))
        line.wait_for(timeout=30000)
        before = browser.picture(page)
        page.wait_for_function("before => !document.body.innerText.includes(before)", arg=line.inner_text())
        page.wait_for_timeout(1500)
        assert np.abs(browser.picture(page) - before).mean() > 0.2, "the picture follows"

        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Go on").wait_for(timeout=30000)
        browser.resting_picture(page)
        paused = steps_on(page)
        page.wait_for_timeout(1500)
        assert steps_on(page) == paused

        browser.unfold(page, "Photographs")
        page.get_by_role("combobox", name="Go to").click()
        page.get_by_role("option").nth(1).click()
        page.locator("img[src^='data:image'], img[src^='blob:']").last.wait_for(timeout=30000)
        page.screenshot(path=tmp_path / "page.png")

        page.get_by_role("button", name="Go on").click()
        page.wait_for_function("step => !document.body.innerText.includes(`step ${step} of`)", arg=paused)
        page.get_by_role("button", name="Stop and save").click()
        assert process.wait(60) == 130
        assert wrong == [] or all("WebSocket" in each or "ERR_CONNECTION" in each for each in wrong)
    (scene,) = tmp_path.glob("scene*.ply")
    assert len(read_scene(scene)) > 1000


@pytest.mark.minutes
@pytest.mark.slow
def test_a_fit_with_a_page_gives_the_same_bytes(tmp_path: Path) -> None:
    words = ["--steps", "20", "--gaussians", "500"]
    folders = tmp_path / "with", tmp_path / "without"
    for folder in folders:
        folder.mkdir()
    with fitting(folders[0], *words) as (process, _):
        assert process.wait(120) == 0
    command = [sys.executable, "-m", "splat", "fit", "-o", "scene.ply", "--device", "cpu", *words]
    subprocess.run(command, cwd=folders[1], check=True, capture_output=True, env=processes.clean_environment())

    one, other = ((folder / "scene.ply").read_bytes() for folder in folders)
    assert one == other


def test_a_port_in_use_is_said_before_pictures_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("viser")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = str(taken.getsockname()[1])
        status, out, err = run(
            capsys, "fit", tmp_path / "missing.npz", "-o", tmp_path / "s.ply", "--view", "--port", port
        )

    assert (status, out) == (1, "")
    assert f"a free port is required, found {port} of 127.0.0.1 in use" in err
