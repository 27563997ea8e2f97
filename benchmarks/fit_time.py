"""Fitting the built-in scene on the CPU: what a step takes, and by strategy, how long until 30 dB.

That is seconds until its held-out pictures are shown so well. Usage: fit_time.py TESTS [SECONDS]: the folder of the
tests, whose reference_ssim.py is SSIM by torch's convolutions; a fit is given up after so many seconds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from measure import table

from splat.fit.losses import training_loss
from splat.fit.picture_views import read_views
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.ops.rendering import rasterization
from splat.scene.builtin import knot_scene
from splat.scene.camera import orbit

TARGET = 30.0
STEPS, GAUSSIANS, EVERY = 1000, 6000, 20
STRATEGIES = ("grow", "default", "mcmc")
SIZE, STEP_GAUSSIANS, TIMED = (480, 270), 20000, 50


def main(tests: str, limit: float) -> None:
    """Time a step, fit with each strategy, and print the tables."""
    sys.path.insert(0, tests)
    # The pictures are small: more threads only wait for each other.
    torch.set_num_threads(1)
    measure_step()
    print()
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


def measure_step() -> None:
    """Milliseconds of CPU of a step and of its loss, and of the same loss by torch's convolutions."""
    import reference_ssim

    scene, (width, height) = knot_scene(), SIZE
    cameras = [orbit(scene, width, height, azimuth=i * 137.508, elevation=20, fov=40, distance=0.9) for i in range(8)]
    viewmats, Ks = torch.stack([c.viewmat for c in cameras]), torch.stack([c.K for c in cameras])
    gaussians = scene.means, scene.quats, scene.scales, scene.opacities, scene.sh
    with torch.no_grad():
        images, _, _ = rasterization(*gaussians, viewmats, Ks, width, height, sh_degree=scene.degree)
    points = scene.means.repeat(-(-STEP_GAUSSIANS // len(scene.means)), 1)[:STEP_GAUSSIANS]
    points = points + 1e-3 * torch.randn(points.shape, generator=torch.Generator().manual_seed(0))
    views = Views(tuple(images.clamp(0, 1)), viewmats, Ks, points, torch.full_like(points, 0.5), measured=True)
    trainer = Trainer(views, FitOptions(TIMED, STEP_GAUSSIANS, 2))

    def step() -> None:
        trainer.step(range(trainer.done + 1, trainer.done + 2))
        trainer.done += 1

    x, y = images[:1].clone().requires_grad_(), images[1:2]
    losses = (
        lambda: training_loss(x[0], y[0]).backward(),
        lambda: reference_ssim.image_loss(x, y, None, 0.8, -0.2).backward(),
    )
    print(f"{len(points)} Gaussians, {width}x{height}, one thread: milliseconds of CPU, the median of {TIMED}")
    table(["a step", "its loss", "by convolutions"], [[f"{median_ms(call):.1f}" for call in (step, *losses)]])


def median_ms(call: Callable[[], object]) -> float:
    """Of CPU, of TIMED calls."""
    times = []
    for _ in range(TIMED):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


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
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 300.0)
