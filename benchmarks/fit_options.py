"""What the options of `fit` change in how held-out photographs are shown: at equal steps, over several seeds.

Usage: fit_options.py FOLDER [EVERY [SEEDS [OPTION...]]]: one in EVERY photographs (8) is held out; SEEDS (3) fits each.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from measure import table

from splat.fit import views as drawing
from splat.fit.adapted_quality import judge_adapted
from splat.fit.camera_corrections import CameraCorrections
from splat.fit.drawn_lenses import AS_TAKEN, LENSES
from splat.fit.photograph_views import Preparation, photograph_views
from splat.fit.picture_quality import Quality, judge
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.ops.arguments import RasterizeMode
from splat.ops.rendering import rasterization
from splat.photos.folders import read_capture

STEPS, GAUSSIANS, SIZE = 600, 12_000, 240
OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "--appearance affine": {"appearance": "affine"},
    "--refine-cameras": {"refine_cameras": True},
    "--lenses as-taken": {},
    "antialiased": {},
    "none, cameras disturbed": {},
    "--refine-cameras, cameras disturbed": {"refine_cameras": True},
}
"""What `fit` is given. It has no option to be antialiased: docs/fit.md says why."""
DISTURBED = 0.006
"""Radians, and shares of the scene's extent, by which cameras are turned and moved: the root mean square."""


def main(folder: Path, every: int, seeds: int, chosen: list[str]) -> None:
    """Fit with each of the options, and print the table."""
    torch.set_num_threads(1)  # the pictures are small
    warnings.simplefilter("ignore")
    read = partial(_read, folder, every)
    trained, judged = read(0, SIZE)
    print(
        f"{folder}: {len(trained)} photographs, {len(judged)} held out, of {trained.sizes[0]}; {STEPS} steps to "
        f"{GAUSSIANS} Gaussians; means of {seeds} seeds, and half of what they spread by"
    )
    rows = [row for option in chosen for row in _measured(option, read, seeds)]
    table(["option", "CPU s", "held-out photographs", "PSNR", "SSIM"], rows)


def _read(folder: Path, every: int, seed: int, size: int, lenses: str = LENSES[0]) -> tuple[Views, Views]:
    views = photograph_views(read_capture(folder), GAUSSIANS // 3, seed, Preparation(max_size=size, lenses=lenses))
    held_out = list(range(0, len(views), every))
    return views.select([i for i in range(len(views)) if i not in held_out]), views.select(held_out)


def _measured(option: str, read: Callable[..., tuple[Views, Views]], seeds: int) -> list[list[str]]:
    found: dict[str, list[Quality]] = {}
    taken = 0.0
    for seed in range(seeds):
        trained, judged = read(seed, SIZE, AS_TAKEN if AS_TAKEN in option else LENSES[0])
        if "disturbed" in option:
            trained = _disturbed(trained)
        with _mode("antialiased" if option == "antialiased" else "classic"):
            trainer = Trainer(trained, FitOptions(STEPS, GAUSSIANS, 2, seed, **OPTIONS[option]))
            begun = time.process_time()
            trainer.fit(lambda *_: None)
            taken += (time.process_time() - begun) / seeds
            ways = _ways(option, trainer, judged, partial(read, seed))
        for way, quality in ways.items():
            found.setdefault(way, []).append(quality)
    return [
        [option, f"{taken:.0f}", way, _said([q.psnr for q in qualities], 2), _said([q.ssim for q in qualities], 4)]
        for way, qualities in found.items()
    ]


def _ways(option: str, trainer: Trainer, judged: Views, read: Callable[..., tuple[Views, Views]]) -> dict[str, Quality]:
    """The qualities by what the scene is judged by."""
    scene, extent = trainer.gaussians(), trainer.extent
    ways: dict[str, Quality] = {"as given": judge(scene, judged)}
    if option == "antialiased":
        with _mode("classic"):
            ways |= {
                f"{size} pixels, not antialiased": judge(scene, read(size)[1]) for size in (SIZE // 2, SIZE, 2 * SIZE)
            }
    else:
        ways["colours fitted"] = judge_adapted(scene, judged, extent, False, True).quality
    if option.startswith(("none", "--refine-cameras")):
        ways["camera refined"] = judge_adapted(scene, judged, extent, True, False).quality
    if option in ("none", "--lenses as-taken"):
        ways |= {f"lenses: {way}": judge(scene, read(SIZE, way)[1]) for way in LENSES}
    if option in ("none", "antialiased"):
        ways |= {f"{size} pixels": judge(scene, read(size)[1]) for size in (SIZE // 2, 2 * SIZE)}
    return ways


def _disturbed(views: Views) -> Views:
    extent = Trainer(views, FitOptions(1, 1, 0)).extent
    cameras = CameraCorrections(views.viewmats, extent, 1, common=True)
    drawn = torch.randn(len(views), 6, generator=torch.Generator().manual_seed(5)) / 3**0.5
    changes = drawn * torch.tensor([DISTURBED] * 3 + [DISTURBED * extent] * 3)
    cameras.values.restore({**cameras.values.state(), "": changes / cameras.values.reach})
    return replace(views, viewmats=cameras.corrected())


def _mode(mode: RasterizeMode) -> AbstractContextManager[object]:
    return mock.patch.object(drawing, "rasterization", partial(rasterization, rasterize_mode=mode))


def _said(values: list[float], digits: int) -> str:
    return f"{statistics.fmean(values):.{digits}f} ± {(max(values) - min(values)) / 2:.{digits}f}"


if __name__ == "__main__":
    given = sys.argv[2:]
    main(
        Path(sys.argv[1]),
        int(given[0]) if given else 8,
        int(given[1]) if len(given) > 1 else 3,
        given[2:] or list(OPTIONS),
    )
