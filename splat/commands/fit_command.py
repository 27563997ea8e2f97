"""The command `splat fit`: fit a scene to pictures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from typing import NamedTuple

import torch

from ..fit.checkpoints import digest_of, resume, write_checkpoint
from ..fit.picture_quality import Quality
from ..fit.quality_file import write_quality
from ..fit.shards import Shards
from ..fit.strategies import passes
from ..fit.training import Trainer
from ..fit.views import Views
from ..scene.camera_list import cameras_path, write_cameras
from ..scene.gaussians import SceneError
from ..view.server import ViewError
from .command_files import load_scene, save_scene
from .device import DeviceError, find_device
from .fit_arguments import add_fit_arguments
from .fit_job import FitJob, fit_job
from .fit_outputs import (
    Outputs,
    find_outputs,
    judged_by,
    locked_outputs,
    pictures_size,
    say_quality,
    write_page,
    write_picture,
)
from .fit_page import FitPage, check_view, fit_page
from .fit_progress import fit_progress, measured_at
from .fit_work import FitWork, prepare_fit, read_pictures
from .interrupts import INTERRUPTED, catch_interrupt, unwound_signals
from .memory import NotEnoughMemory, enough_memory
from .output_lock import locked
from .printing import print_error
from .process_group import LostRankError, RankError, agreed, check_same, joined_processes, own_device
from .warnings_printed import printed_warnings

_SMALL = 100_000
"""Pixels. With fewer, waking other threads takes longer than the work they do."""
_REMEDY = "choose fewer --gaussians, or smaller or fewer pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `fit`."""
    add_fit_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Fit the scene and write it; as one of several processes, with the others.

    Returns 0 if the scene was written, 1 if the pictures, the device or a file failed, and 130 if the fit was
    interrupted. If something was fitted before a failure or an interrupt, the scene fitted so far was written.
    """
    first = True
    try:
        with unwound_signals(), ExitStack() as locks:
            with joined_processes() as shards:
                first = shards.first
                finished = _fitted(args, shards, locks)
            return finished if isinstance(finished, int) else _finish(finished)
    except RankError as error:
        if first:
            print_error(error)
        return 1
    except (SceneError, OSError, DeviceError, LostRankError, ValueError, ViewError) as error:
        print_error(error)
        return 1


class _Finished(NamedTuple):
    """A fit that took all its steps, on rank 0."""

    job: FitJob
    work: FitWork
    outputs: Outputs
    before: int
    """Steps that were taken earlier."""
    start: float


def _fitted(args: argparse.Namespace, shards: Shards, locks: ExitStack) -> int | _Finished:
    """Take the steps and write the scene; the exit status, if nothing is left to do. `locks` hold its files."""
    start = time.perf_counter()
    what = "reading the pictures"
    with agreed(shards), enough_memory(lambda: what, _REMEDY):
        begin = load_scene(args.begin) if args.begin else None
        job = fit_job(args, own_device(find_device(args.device), shards), begin)
        if job.view:
            check_view(job, shards)
        for path in locked_outputs(job) if shards.first else ():
            locks.enter_context(locked(path))
        outputs = find_outputs(job)
        with printed_warnings(shown=shards.first):
            views = read_pictures(job, outputs, shards)
            what = f"fitting {job.gaussians} Gaussians to {len(views)} pictures of {pictures_size(views)}"
            work = prepare_fit(job, views.to(job.device), shards)
        trainer = work.trainer
        digest = digest_of(trainer) if outputs.checkpoint or shards.count > 1 else ""
        if job.resume and outputs.checkpoint:
            resume(outputs.checkpoint, trainer, digest)
    before = trainer.done
    check_same(shards, {**asdict(trainer.options), "pictures": digest, "steps taken": trainer.done})
    with _threads(views, job.device), catch_interrupt(also_sigterm=True, patient=shards.count > 1) as interrupted:
        with fit_page(job, work, judged_by(work.judged, bool(work.held_out))) if job.view else nullcontext() as page:

            def ended() -> bool:
                return interrupted() or (page is not None and page.stopped)

            failure = _fit(job, work, outputs, digest, ended, what, page)
        if failure is not None and trainer.done == 0:
            raise failure
        stopped, failed = shards.any(ended()), shards.any(failure is not None)
        with enough_memory(lambda: what, _REMEDY):
            scene = trainer.gaussians()
            if shards.first:
                path = outputs.unfinished if stopped or failed else outputs.scene
                save_scene(path, scene)
                write_cameras(cameras_path(path), *work.cameras(), scene.offset)
            if failed:
                return _say_failed(job, trainer, outputs, failure)
            if stopped:
                return _say_interrupted(job, trainer, outputs, digest)
            written = passes(range(trainer.done, trainer.done + 1), job.checkpoint_every)
            if outputs.checkpoint and not written:  # for a longer fit
                write_checkpoint(outputs.checkpoint, trainer, digest)
    return _Finished(job, work, outputs, before, start) if shards.first else 0


def _finish(finished: _Finished) -> int:
    """Judge the scene as it was written, which few formats hold exactly, and write what shows how good it is."""
    job, work, outputs, before, start = finished
    scene = load_scene(outputs.scene).with_offset(work.views.offset).to(job.device)
    with _threads(work.views, job.device), enough_memory(lambda: "judging the scene", _REMEDY):
        judged = work.judge(scene)
        facts = _facts(job, work, before, time.perf_counter() - start)
        if outputs.page:
            write_page(outputs.page, f"{outputs.scene.name}: photographs and renders", facts, scene, judged)
        if outputs.quality:
            write_quality(
                outputs.quality, judged.quality, judged.views.names, judged.held_out, judged.adapted,
                judged.perceptual,
            )  # fmt: skip
        write_picture(outputs.picture, scene, judged.views)
    say_quality(outputs, judged, facts, job.verbose)
    return 0


def _fit(
    job: FitJob,
    work: FitWork,
    outputs: Outputs,
    digest: str,
    ended: Callable[[], bool],
    what: str,
    page: FitPage | None,
) -> Exception | None:
    """Take the steps, writing checkpoints; return the error that ended the fit early, if there was one."""
    trainer, shards = work.trainer, work.trainer.shards
    # Of several processes, the one that shows progress decides for all.
    shown = job.photographs or job.view or shards.any(shards.first and sys.stderr.isatty())
    failures: list[Exception] = []
    progress = fit_progress(job.steps, trainer.done, judged_by(work.judged, bool(work.held_out)), lines=job.photographs)
    try:
        with enough_memory(lambda: what, _REMEDY), progress if shards.first else nullcontext() as report:

            def after(steps: range, loss: float) -> None:
                measured = shown and measured_at(steps, job.steps)
                quality: Quality | None = trainer.quality(work.judged) if measured else None
                if report:
                    report(steps[-1], loss, trainer.total, quality)
                if outputs.checkpoint and passes(steps, job.checkpoint_every):
                    try:
                        write_checkpoint(outputs.checkpoint, trainer, digest)
                    except OSError as error:  # on rank 0: the others go on until it stops them
                        failures.append(error)
                if page:
                    page.after(steps[-1], loss, trainer.total, quality, trainer.gaussians, stop)

            def stop() -> bool:
                return ended() or bool(failures)

            trainer.fit(after, stop)
    except (NotEnoughMemory, OSError) as error:
        if shards.count > 1:
            raise  # what the others do now needs this rank
        failures.append(error)
    return failures[0] if failures else None


def _facts(job: FitJob, work: FitWork, before: int, seconds: float) -> str:
    earlier = f" ({before} of them before)" if before else ""
    begun = f", begun with {len(job.begin)} of a scene," if job.begin else ""
    count, size = len(work.trainer.views), pictures_size(work.views)
    return (
        f"{work.trainer.total} Gaussians{begun} from {count} picture{'s' if count > 1 else ''} of {size}, "
        f"{job.steps} steps{earlier}, {job.device.type}, {seconds:.1f} s"
    )


def _say_interrupted(job: FitJob, trainer: Trainer, outputs: Outputs, digest: str) -> int:
    """Write a checkpoint, if checkpoints are kept, and say where the files are."""
    more = ""
    if outputs.checkpoint:
        write_checkpoint(outputs.checkpoint, trainer, digest)
        more = f"; run the same command with --resume to continue from {outputs.checkpoint}"
    if not trainer.shards.first:
        return INTERRUPTED
    print_error(
        f"interrupted after {trainer.done} of {job.steps} steps; the scene as fitted so far, "
        f"{trainer.total} Gaussians, is in {outputs.unfinished}{more}"
    )
    return INTERRUPTED


def _say_failed(job: FitJob, trainer: Trainer, outputs: Outputs, failure: Exception | None) -> int:
    if failure is not None:  # on the rank that failed
        print_error(failure)
        print_error(
            f"the scene after {trainer.done} of {job.steps} steps, {trainer.total} Gaussians, is in "
            f"{outputs.unfinished}"
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
