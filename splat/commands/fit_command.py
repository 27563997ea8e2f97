"""The command `python -m splat fit`: fit a scene to pictures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from .._kernelwheel.cli import MB, find_resources
from ..fit.adapted_quality import judge_adapted
from ..fit.checkpoints import digest_of, resume, write_checkpoint
from ..fit.comparison_page import write_comparison
from ..fit.fit_memory import FitMemory
from ..fit.perceptual import measure_lpips
from ..fit.photograph_views import Preparation, photograph_views
from ..fit.quality_file import write_quality
from ..fit.training import FitOptions, Quality, Trainer
from ..fit.views import Views, read_views
from ..photos.folders import check_no_capture, is_capture, read_capture
from ..scene.camera import Camera
from ..scene.camera_list import write_cameras
from ..scene.gaussians import SceneError
from .command_files import save_scene
from .device import DeviceError, find_device
from .fit_arguments import add_fit_arguments, default_size
from .fit_outputs import Judged, Outputs, find_outputs, judged_by, pictures_size, say_quality, write_picture
from .fit_progress import fit_progress, measured_at
from .interrupts import INTERRUPTED, noted_interrupt
from .memory import NotEnoughMemory, enough_memory
from .printing import print_error, print_progress
from .warnings_printed import printed_warnings

_SMALL = 100_000
"""Pixels. With fewer, waking other threads takes longer than the work they do."""
_REMEDY = "choose fewer --gaussians, or smaller or fewer pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `fit`."""
    add_fit_arguments(parser)


class _Work(NamedTuple):
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

    def judge(self) -> Judged:
        """How well the scene shows them at the end."""
        trainer, judged, held_out = self.trainer, self.judged, bool(self.held_out)
        scene = trainer.gaussians()
        refined, recolored = bool(trainer.cameras) and held_out, bool(trainer.appearance)
        adapted = judge_adapted(scene, judged, trainer.extent, refined, recolored) if refined or recolored else None
        return Judged(judged, held_out, trainer.quality(judged), adapted, measure_lpips(scene, judged))


def run(args: argparse.Namespace) -> int:
    """Fit the scene and write it.

    Returns 0 if the scene was written, 1 if the pictures, the device or a file failed, and 130 if the fit was
    interrupted. If something was fitted before a failure or an interrupt, the scene fitted so far was written.
    """
    start = time.perf_counter()
    what = "reading the pictures"
    try:
        photographs = len(args.sources) == 1 and is_capture(args.sources[0])
        outputs = find_outputs(args, photographs)
        device = find_device(args.device)
        args = _sized(args, photographs, device)
        with enough_memory(lambda: what, _REMEDY):
            with printed_warnings():
                views = _read(args, photographs, device)
            what = f"fitting {args.gaussians} Gaussians to {len(views)} pictures of {pictures_size(views)}"
            work = _prepare(args, views.to(device))
            trainer = work.trainer
            digest = digest_of(trainer) if outputs.checkpoint else ""
            if args.resume and outputs.checkpoint:
                resume(outputs.checkpoint, trainer, digest)
        with _threads(views, device), noted_interrupt() as interrupted:
            failure = _fit(args, work, outputs, digest, interrupted, photographs, what)
            if failure is not None and trainer.done == 0:
                raise failure
            with enough_memory(lambda: what, _REMEDY):
                scene = trainer.gaussians()
                save_scene(outputs.scene, scene)
                write_cameras(outputs.cameras, *work.cameras())
                if failure is not None:
                    return _say_failed(args, trainer, failure)
                if interrupted():
                    return _say_interrupted(args, trainer, outputs, digest)
        with _threads(views, device), enough_memory(lambda: what, _REMEDY):
            judged = work.judge()
            facts = _facts(args, work, device, time.perf_counter() - start)
            if outputs.page:
                title = f"{outputs.scene.name}: photographs and renders"
                line = f"{facts}; {judged.kind}."
                write_comparison(outputs.page, title, line, scene, judged.views, judged.quality)
            if outputs.quality:
                write_quality(
                    outputs.quality, judged.quality, judged.views.names, judged.held_out, judged.adapted,
                    judged.perceptual,
                )  # fmt: skip
            write_picture(outputs.picture, scene, judged.views, trainer.options.sh_degree)
        if outputs.checkpoint:
            outputs.checkpoint.unlink(missing_ok=True)  # resuming from it would only give this scene again
    except (SceneError, OSError, DeviceError, ValueError) as error:
        print_error(error)
        return 1
    say_quality(outputs, judged, facts, args.verbose)
    return 0


def _sized(args: argparse.Namespace, photographs: bool, device: torch.device) -> argparse.Namespace:
    """The options, with what they are where they are not given."""
    size = default_size(photographs, device.type)
    found = argparse.Namespace(**vars(args))
    found.steps = args.steps or size.steps
    found.gaussians = args.gaussians or (size.gaussians_after(found.steps) if photographs else size.gaussians)
    if args.downscale == 1 and not args.max_size:
        found.max_size = size.max_size
    return found


def _read(args: argparse.Namespace, photographs: bool, device: torch.device) -> Views:
    points = max(args.gaussians // 3, 1)
    there = find_resources().memory_mb
    reading = None if there is None else there * MB
    memory = FitMemory(reading, reading if device.type == "cpu" else None)  # CUDA reports a lack of memory itself
    if not photographs:
        for source in args.sources:
            check_no_capture(source)
        if args.images or args.masks or args.downscale != 1 or args.max_size or any(args.background):
            raise ValueError(
                "--images, --masks, --background, --downscale and --max-size are for a folder of photographs, or a "
                ".json file"
            )
        return read_views(args.sources, points, args.seed, memory)
    capture = read_capture(args.sources[0], args.images, args.masks)
    preparation = Preparation(args.downscale, args.max_size, _bytes(args.background))
    views = photograph_views(capture, points, args.seed, preparation, memory)
    print_progress(
        f"{len(views)} photographs, used at {pictures_size(views)}: {args.steps} steps to {args.gaussians} Gaussians "
        f"on the {'GPU' if device.type == 'cuda' else 'CPU'}; --max-size, --steps and --gaussians say otherwise"
    )
    return views


def _bytes(color: tuple[float, float, float]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in color)
    return red, green, blue


def _prepare(args: argparse.Namespace, views: Views) -> _Work:
    held_out = args.hold_out.choose(views)
    trained = views.select([i for i in range(len(views)) if i not in held_out])
    if len(trained) < 2 and (args.refine_cameras or args.appearance != "off"):
        raise ValueError("--appearance and --refine-cameras are for several pictures to fit to, found 1")
    degree = args.sh_degree if len(views) > 1 else 0
    options = FitOptions(
        args.steps, args.gaussians, degree, args.seed, args.strategy, args.appearance, args.refine_cameras
    )
    return _Work(Trainer(trained, options), views, held_out)


def _fit(
    args: argparse.Namespace,
    work: _Work,
    outputs: Outputs,
    digest: str,
    interrupted: Callable[[], bool],
    photographs: bool,
    what: str,
) -> Exception | None:
    """Take the steps, writing checkpoints; return the error that ended the fit early, if there was one."""
    trainer = work.trainer
    try:
        with (
            enough_memory(lambda: what, _REMEDY),
            fit_progress(
                args.steps, trainer.done, judged_by(work.judged, bool(work.held_out)), lines=photographs
            ) as report,
        ):

            def after(step: int, loss: float) -> None:
                measured = measured_at(step, args.steps) and (photographs or sys.stderr.isatty())
                quality: Quality | None = trainer.quality(work.judged) if measured else None
                report(step, loss, len(trainer.table), quality)
                if outputs.checkpoint and step % args.checkpoint_every == 0:
                    write_checkpoint(outputs.checkpoint, trainer, digest)

            trainer.fit(after, interrupted)
    except (NotEnoughMemory, OSError) as error:
        return error
    return None


def _facts(args: argparse.Namespace, work: _Work, device: torch.device, seconds: float) -> str:
    count, size = len(work.trainer.views), pictures_size(work.views)
    return (
        f"{len(work.trainer.table)} Gaussians from {count} picture{'s' if count > 1 else ''} of {size}, "
        f"{args.steps} steps, {device.type}, {seconds:.1f} s"
    )


def _say_interrupted(args: argparse.Namespace, trainer: Trainer, outputs: Outputs, digest: str) -> int:
    """Write a checkpoint, if checkpoints are kept, and say where the files are."""
    more = ""
    if outputs.checkpoint:
        write_checkpoint(outputs.checkpoint, trainer, digest)
        more = f"; run the same command with --resume to continue from {outputs.checkpoint}"
    print_error(
        f"interrupted after {trainer.done} of {args.steps} steps; the scene as fitted so far, "
        f"{len(trainer.table)} Gaussians, is in {args.output}{more}"
    )
    return INTERRUPTED


def _say_failed(args: argparse.Namespace, trainer: Trainer, failure: Exception) -> int:
    print_error(failure)
    print_error(
        f"the scene after {trainer.done} of {args.steps} steps, {len(trainer.table)} Gaussians, is in {args.output}"
    )
    return 1


@contextmanager
def _threads(views: Views, device: torch.device) -> Iterator[None]:
    """Use a single thread if there is too little work for more."""
    before = torch.get_num_threads()
    if device.type == "cpu" and max(width * height for width, height in views.sizes) < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
