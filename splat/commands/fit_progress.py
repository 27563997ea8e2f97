"""The progress of a fit: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..fit.picture_quality import Quality
from ..fit.strategies import passes
from .printing import print_progress
from .progress_bar import duration, progress_bar

Report = Callable[[int, float, int, "Quality | None"], None]
"""Takes a step, its loss, the number of Gaussians, and their quality where it was measured."""
_MEASURED = 10
"""How often the quality is measured."""
_FIRST, _LONG = 20, 10.0
"""The step after which the time is estimated, if that is more than these seconds."""


def measured_at(taken: range, steps: int) -> bool:
    """Whether the quality is measured, and a line written, after these steps; the last one has lines of its own."""
    return taken[-1] < steps and passes(taken, max(steps // _MEASURED, 1))


@contextmanager
def fit_progress(steps: int, done: int, kind: str, lines: bool) -> Iterator[Report]:
    """Progress on standard error: a bar if that is a terminal, otherwise lines, if `lines`.

    `done` steps were taken before. `kind` says what the quality was measured on.
    """
    start = time.monotonic()
    last, said = "", not lines
    with progress_bar("fit", steps, done) as show:

        def report(step: int, loss: float, count: int, quality: Quality | None) -> None:
            nonlocal last, said
            words = f"loss {loss:.4f}, {count} Gaussians"
            if quality is not None:
                last = f", PSNR {quality.psnr:.1f} dB, SSIM {quality.ssim:.3f} on {kind}"
            if show(step, words + last):
                return
            left = (time.monotonic() - start) / (step - done) * (steps - step)
            if not said and step - done >= _FIRST:
                said = True
                if left > _LONG:
                    print_progress(f"about {duration(left)} to go, more if many Gaussians are added")
            elif lines and quality is not None:
                print_progress(f"step {step} of {steps}: {words}{last}; {duration(left)} left")

        yield report
