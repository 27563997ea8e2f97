"""The pictures and the trainer of `splat fit`."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..fit.adapted_quality import judge_adapted
from ..fit.drawn_lenses import AS_TAKEN, LENSES
from ..fit.fit_memory import FitMemory, fit_bytes, scene_bytes
from ..fit.perceptual import measure_lpips
from ..fit.photograph_views import Preparation, photograph_views
from ..fit.picture_quality import judge
from ..fit.picture_views import read_views
from ..fit.shards import Shards
from ..fit.training import FitOptions, Trainer
from ..fit.views import Views, check_bright
from ..photos.folders import check_no_capture, read_capture
from ..scene.camera import Camera
from ..scene.gaussians import Gaussians
from .fit_job import FitJob
from .fit_outputs import Judged, Outputs, pictures_size
from .memory import available_memory
from .printing import print_progress
from .process_group import local_count


class FitWork(NamedTuple):
    """What is fitted, and what it is judged by."""

    trainer: Trainer
    views: Views
    """All pictures, with the cameras as given."""
    held_out: list[int]

    @property
    def judged(self) -> Views:
        """The pictures that the scene is judged by."""
        return self.views.select(self.held_out) if self.held_out else self.trainer.refined_views()

    def cameras(self) -> tuple[list[Camera], list[str]]:
        """The cameras as far as they were refined, and their pictures' names; those fitted to come first, as people see
        the first one first."""
        cameras, names = self.trainer.refined_views().cameras()
        if not self.held_out:
            return cameras, names
        others, their_names = self.judged.cameras()
        return cameras + others, names + their_names

    def judge(self, scene: Gaussians) -> Judged:
        """How well the scene shows them at the end."""
        trainer, judged, held_out = self.trainer, self.judged, bool(self.held_out)
        refined, recolored = bool(trainer.cameras) and held_out, bool(trainer.appearance)
        adapted = judge_adapted(scene, judged, trainer.extent, refined, recolored) if refined or recolored else None
        return Judged(judged, held_out, judge(scene, judged), adapted, measure_lpips(scene, judged))


def read_pictures(job: FitJob, outputs: Outputs, shards: Shards) -> Views:
    """All pictures that the command names, none of which is replaced; a line says how photographs are used."""
    points = max(job.gaussians // 3, 1)
    there = available_memory()
    reading = None if there is None else there // local_count(shards)
    scene = scene_bytes(-(-job.gaussians // shards.count), job.sh_degree)
    # CUDA reports a lack of memory itself.
    memory = FitMemory(reading, reading if job.device.type == "cpu" else None, scene)
    if not job.photographs:
        for source in job.sources:
            check_no_capture(source)
        others = job.images, job.masks, job.downscale != 1, job.max_size, any(job.background), job.lenses != LENSES[0]
        if any(others):
            raise ValueError(
                "--images, --lenses, --masks, --background, --downscale and --max-size are for a folder of "
                "photographs, or a .json file"
            )
        views = read_views(job.sources, points, job.seed, memory)
        outputs.check_apart(job.sources)
        return views
    if job.lenses == AS_TAKEN and shards.count > 1:
        raise ValueError(
            f"--lenses {AS_TAKEN} is for a single process, found {shards.count}: processes do not share what is drawn "
            "through lenses; leave out one of them"
        )
    capture = read_capture(job.sources[0], job.images, job.masks)
    files = [path for photograph in capture.photographs for path in (photograph.path, photograph.mask) if path]
    outputs.check_apart([*job.sources, *files])
    preparation = Preparation(job.downscale, job.max_size, _bytes(job.background), job.lenses)
    views = photograph_views(capture, points, job.seed, preparation, memory)
    if shards.first:
        several = f", in {shards.count} processes" if shards.count > 1 else ""
        each = " each" if several else ""
        needed = fit_bytes(views.sizes, 3 + any(mask is not None for mask in views.masks), scene)
        print_progress(
            f"{len(views)} photographs, used at {pictures_size(views)}: {job.steps} steps to {job.gaussians} "
            f"Gaussians on the {'GPU' if job.device.type == 'cuda' else 'CPU'}{several}, with about "
            f"{math.ceil(10 * needed / 2**30) / 10} GiB of memory{each}; --max-size, --steps and "
            "--gaussians say otherwise"
        )
    return views


def _bytes(color: tuple[float, float, float]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in color)
    return red, green, blue


def prepare_fit(job: FitJob, views: Views, shards: Shards) -> FitWork:
    """A trainer for the pictures that are not held out."""
    held_out = job.hold_out.choose(views)
    trained = views.select([i for i in range(len(views)) if i not in held_out])
    if len(trained) < 2 and (job.refine_cameras or job.appearance != "off"):
        raise ValueError("--appearance and --refine-cameras are for several pictures to fit to, found 1")
    check_bright(str(job.sources[0]) if job.sources else "the built-in scene", views)
    degree = job.sh_degree if len(views) > 1 else 0
    options = FitOptions(job.steps, job.gaussians, degree, job.seed, job.strategy, job.appearance, job.refine_cameras)
    return FitWork(Trainer(trained, options, shards, job.begin), views, held_out)
