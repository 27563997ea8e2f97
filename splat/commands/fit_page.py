"""The page of `splat fit --view`: the scene as it is now, how far the fit is, and pausing and ending it.

Pages get copies: a fit that is looked at gives the same scene. They take little of its time: a copy is made while a
page is open, and drawing has turns (`Turns`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image

from ..fit.picture_quality import Quality
from ..fit.shards import Shards
from ..fit.views import Views
from ..scene.camera import FirstView
from ..scene.camera_list import TakenPicture, up_of
from ..scene.gaussians import Gaussians
from ..scene.image import to_8_bit
from ..scene.names import one_line
from ..view.camera_controls import set_value
from ..view.drawing import Picture
from ..view.open_page import ViewerOptions
from ..view.prominence import Prominence
from ..view.scene_choices import SceneChoices
from ..view.server import Viewer, check_viewer, open_viewer
from ..view.turns import Turns
from .fit_job import FitJob
from .fit_work import FitWork
from .printing import print_progress
from .view_command import PHOTOGRAPH_SIDE, draw_in_memory, measure_in_memory

if TYPE_CHECKING:
    import viser

HOST: Final = "127.0.0.1"
_DRAWING: Final = 0.2
"""Of the time, what pictures for pages take at most."""
_COPYING: Final = 0.05
"""Of the time, what copies for pages take at most."""
_LEAST: Final = 0.5
"""Seconds between two copies, at least."""
_TICK: Final = 0.05


class FitPage:
    """What the pages of one fit show besides the scene, and what was asked for there."""

    def __init__(self, job: FitJob, kind: str) -> None:
        """`kind` says what the quality is measured on."""
        self._steps, self._kind = job.steps, kind
        self._measured: list[tuple[int, float]] = []
        self._viewer: Viewer | None = None
        self._due = 0.0
        self._paused = False
        self.stopped = False
        """Whether a page asked for the end."""

    def add_controls(self, gui: viser.GuiApi) -> None:
        """Add the panel's first folder, which all pages share."""
        from viser import uplot

        with gui.add_folder("Fit"):
            self._bar = gui.add_progress_bar(0.0, color="green")
            self._words = gui.add_markdown("no step yet")
            self._plot = gui.add_uplot(
                (np.zeros(1), np.zeros(1)),
                (uplot.Series(label="step"), uplot.Series(label="PSNR", stroke="green", width=2)),
                scales={"x": uplot.Scale(time=False)},
                title=f"PSNR in dB on {self._kind}",
                legend=uplot.Legend(show=False),
                height=140,
                visible=False,
            )
            self._pause = gui.add_button("Pause")
            stop = gui.add_button("Stop and save")
        self._pause.on_click(lambda _: self._turn_pause())
        stop.on_click(lambda _: self._stop())

    def show_on(self, viewer: Viewer) -> None:
        """Have the pages of a viewer follow the fit."""
        self._viewer = viewer

    def after(
        self, step: int, loss: float, count: int, quality: Quality | None, scene: Callable[[], Gaussians],
        ended: Callable[[], bool],
    ) -> None:  # fmt: skip
        """Show what there is after a step, if it is time to, and wait for as long as the fit is to pause."""
        if quality is not None:
            self._measured.append((step, quality.psnr))
        now = time.monotonic()
        if self._viewer is not None and self._viewer.pages and (now >= self._due or self._paused):
            self._show(self._viewer, step, loss, count, scene())
            spent = time.monotonic() - now
            self._due = now + max(_LEAST, spent / _COPYING)
        while self._paused and not ended():
            time.sleep(_TICK)

    def _show(self, viewer: Viewer, step: int, loss: float, count: int, scene: Gaussians) -> None:
        set_value(self._bar, 100 * step / self._steps)
        last = f", PSNR {self._measured[-1][1]:.2f} dB after step {self._measured[-1][0]}" if self._measured else ""
        self._words.content = f"step {step} of {self._steps}, loss {loss:.4f}, {count} Gaussians{last}"
        if len(self._measured) > 1:
            steps, decibels = np.array(self._measured, np.float64).T
            self._plot.data = (steps, decibels)
            self._plot.visible = True
        _, first = viewer.first
        # Not the fit's own tensors, which the next step changes.
        copy = replace(scene, **{name: getattr(scene, name).clone() for name in ("means", "quats", "scales")})
        viewer.follow(replace(first, scene=copy, prominence=Prominence(copy, first.middle)))

    def _turn_pause(self) -> None:
        self._paused = not self._paused
        self._pause.label = "Go on" if self._paused else "Pause"

    def _stop(self) -> None:
        self.stopped = True


def check_view(job: FitJob, shards: Shards) -> None:
    """Raise ValueError or ViewError if the fit cannot have a page, before pictures are read."""
    if shards.count > 1:
        raise ValueError(f"--view is for a single process, found {shards.count}; leave it out")
    check_viewer(HOST, job.port)


@contextmanager
def fit_page(job: FitJob, work: FitWork, kind: str) -> Iterator[FitPage]:
    """Serve the page of a fit until the block ends. Raises as `open_viewer`."""
    page, views, name = FitPage(job, kind), work.views, one_line(job.output.name)
    cameras, names = views.cameras()
    scene = work.trainer.gaussians()
    first = FirstView(cameras[0], up_of(cameras)), [TakenPicture(*pair) for pair in zip(names, cameras, strict=True)]
    choices = SceneChoices({name: None}, lambda path: scene, lambda scene, path: first)
    options = ViewerOptions(
        choices, draw_in_memory, job.background, job.sh_degree, measure_in_memory,
        photograph=lambda name: _photograph(views, names, name), turn=Turns(_DRAWING).turn, panel=page.add_controls,
    )  # fmt: skip
    with open_viewer(HOST, job.port, options, name) as viewer:
        print_progress(f"{viewer.url} shows the fit")
        page.show_on(viewer)
        yield page


def _photograph(views: Views, names: list[str], name: str) -> Picture | None:
    """One of the pictures, small."""
    if name not in names:
        return None
    with Image.fromarray(to_8_bit(views.target(names.index(name)))) as image:
        image.thumbnail((PHOTOGRAPH_SIDE, PHOTOGRAPH_SIDE))
        return np.asarray(image)
