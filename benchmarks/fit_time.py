"""Fitting the built-in scene on the CPU, by strategy: seconds until its held-out pictures are shown at 30 dB.

Usage: fit_time.py [SECONDS], after which a fit is given up.
"""

from __future__ import annotations

import sys
import time

import torch
from measure import table

from splat.fit.picture_views import read_views
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views

TARGET = 30.0
STEPS, GAUSSIANS, EVERY = 1000, 6000, 20
STRATEGIES = ("grow", "default", "mcmc")


def main(limit: float) -> None:
    """Fit with each strategy and print the table."""
    # The pictures are small: more threads only wait for each other.
    torch.set_num_threads(1)
    views = read_views([], GAUSSIANS // 3, 0)
    held_out = range(0, len(views), 8)
    trained, judged = views.select([i for i in range(len(views)) if i not in held_out]), views.select(held_out)
    width, height = views.sizes[0]
    print(
        f"{len(trained)} pictures of {width}x{height}, {len(judged)} held out; {STEPS} steps to {GAUSSIANS} Gaussians, "
        f"one thread; measured every {EVERY} steps, which is not counted"
    )
    rows = [[strategy, *measure(strategy, trained, judged, limit)] for strategy in STRATEGIES]
    table(["strategy", f"s to {TARGET:.0f} dB", "steps", "Gaussians", "s in all", "steps", "Gaussians", "dB"], rows)


def measure(strategy: str, trained: Views, judged: Views, limit: float) -> list[str]:
    """What a fit has when it reaches the target, and at its end."""
    trainer = Trainer(trained, FitOptions(STEPS, GAUSSIANS, 2, strategy=strategy))
    seconds, reached, quality = 0.0, ["-", "-", "-"], 0.0
    start = time.perf_counter()

    def stop() -> bool:
        nonlocal seconds, reached, quality, start
        if trainer.done % EVERY and trainer.done < STEPS:
            return False
        seconds += time.perf_counter() - start
        quality = trainer.quality(judged).psnr
        if quality >= TARGET and reached[0] == "-":
            reached = [f"{seconds:.1f}", str(trainer.done), str(len(trainer.table))]
        start = time.perf_counter()
        return seconds > limit

    trainer.fit(lambda *_: None, stop)
    return [*reached, f"{seconds:.1f}", str(trainer.done), str(len(trainer.table)), f"{quality:.2f}"]


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 300.0)
