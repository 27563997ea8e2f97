"""The progress of a fit: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..fit.training import Quality
from .printing import print_progress

Report = Callable[[int, float, int, "Quality | None"], None]
"""Takes a step, its loss, the number of Gaussians, and their quality where it was measured."""
_MEASURED = 10
"""How often the quality is measured."""
_FIRST, _LONG = 20, 10.0
"""The step after which the time is estimated, if that is more than these seconds."""


def measured_at(step: int, steps: int) -> bool:
    """Whether the quality is measured, and a line written, after this step; the last one has lines of its own."""
    return step < steps and step % max(steps // _MEASURED, 1) == 0


@contextmanager
def fit_progress(steps: int, done: int, kind: str, lines: bool) -> Iterator[Report]:
    """Progress on standard error: a bar if that is a terminal, otherwise lines, if `lines`.

    `done` steps were taken before. `kind` says what the quality was measured on.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("fit"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
    )  # fmt: skip
    start = time.monotonic()
    last = ""
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=steps, completed=done)

        def report(step: int, loss: float, count: int, quality: Quality | None) -> None:
            nonlocal last
            words = f"loss {loss:.4f}, {count} Gaussians"
            if quality is not None:
                last = f", PSNR {quality.psnr:.1f} dB, SSIM {quality.ssim:.3f} on {kind}"
            if console.is_terminal:
                progress.update(task, completed=step, description=words + last)
                return
            left = (time.monotonic() - start) / (step - done) * (steps - step)
            if lines and step - done == _FIRST and left > _LONG:
                print_progress(f"about {duration(left)} to go, more if many Gaussians are added")
            elif lines and quality is not None:
                print_progress(f"step {step} of {steps}: {words}{last}; {duration(left)} left")

        yield report


def duration(seconds: float) -> str:
    """Seconds as people say them: 12 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
