"""The command `python -m splat fit`: fit a scene to pictures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from .._kernelwheel.cli import MB, find_resources
from ..fit.checkpoints import check_checkpoint, digest_of, resume, write_checkpoint
from ..fit.comparison_page import check_page, write_comparison
from ..fit.fit_memory import FitMemory
from ..fit.photograph_views import Preparation, photograph_views
from ..fit.quality_file import check_quality, write_quality
from ..fit.training import FitOptions, Quality, Trainer, render
from ..fit.views import Views, read_views
from ..photos.folders import check_no_capture, is_capture, read_capture
from ..scene.camera import Camera
from ..scene.camera_list import cameras_path, check_cameras, write_cameras
from ..scene.formats import written_suffix
from ..scene.gaussians import Gaussians, SceneError
from ..scene.image import check_picture, write_png
from .command_files import save_scene
from .device import DeviceError, find_device
from .fit_arguments import add_fit_arguments, default_size
from .fit_progress import fit_progress, measured_at
from .interrupts import INTERRUPTED, noted_interrupt
from .memory import NotEnoughMemory, enough_memory
from .printing import print_error, print_progress, print_result
from .warnings_printed import printed_warnings

_FEW = 4
"""Pictures that say little about others."""
_SMALL = 100_000
"""Pixels. With fewer, waking other threads takes longer than the work they do."""
_REMEDY = "choose fewer --gaussians, or smaller or fewer pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `fit`."""
    add_fit_arguments(parser)


class _Outputs(NamedTuple):
    """The files to write."""

    scene: Path
    picture: Path
    page: Path | None
    checkpoint: Path | None
    quality: Path | None
    cameras: Path


class _Work(NamedTuple):
    """What is fitted, and what it is judged by."""

    trainer: Trainer
    judged: Views
    held_out: bool

    def cameras(self) -> tuple[list[Camera], list[str]]:
        """The cameras and their pictures' names; the first one, which people see first, is one that was fitted to."""
        cameras, names = self.trainer.views.cameras()
        if not self.held_out:
            return cameras, names
        others, their_names = self.judged.cameras()
        return cameras + others, names + their_names

    def kind(self) -> str:
        """What it is judged by, in words."""
        if self.held_out:
            return f"{len(self.judged)} held-out picture{'s' if len(self.judged) > 1 else ''}"
        return f"the picture{'s' if len(self.judged) > 1 else ''} it was fitted to"


def run(args: argparse.Namespace) -> int:
    """Fit the scene and write it.

    Returns 0 if the scene was written, 1 if the pictures, the device or a file failed, and 130 if the fit was
    interrupted. If something was fitted before a failure or an interrupt, the scene fitted so far was written.
    """
    start = time.perf_counter()
    what = "reading the pictures"
    try:
        photographs = len(args.sources) == 1 and is_capture(args.sources[0])
        outputs = _outputs(args, photographs)
        device = find_device(args.device)
        args = _sized(args, photographs, device)
        with enough_memory(lambda: what, _REMEDY):
            with printed_warnings():
                views = _read(args, photographs, device)
            what = f"fitting {args.gaussians} Gaussians to {len(views)} pictures of {_size(views)}"
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
            quality = trainer.quality(work.judged)
            seconds = time.perf_counter() - start
            facts = _facts(args, work, views, device, seconds)
            if outputs.page:
                title = f"{outputs.scene.name}: photographs and renders"
                write_comparison(outputs.page, title, f"{facts}; {work.kind()}.", scene, work.judged, quality)
            if outputs.quality:
                write_quality(outputs.quality, quality, work.judged.names, work.held_out)
            _write_picture(outputs.picture, scene, work.judged, trainer.options.sh_degree)
        if outputs.checkpoint:
            outputs.checkpoint.unlink(missing_ok=True)  # resuming from it would only give this scene again
    except (SceneError, OSError, DeviceError, ValueError) as error:
        print_error(error)
        return 1
    _say_quality(args, work, outputs, quality, facts)
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


def _outputs(args: argparse.Namespace, photographs: bool) -> _Outputs:
    """The files that the options name or imply; ValueError or OSError if one cannot be written."""
    stem = args.output.name[: -len(written_suffix(args.output))]
    picture = args.picture or check_picture(args.output.with_name(f"{stem}.png"))
    page, checkpoint, quality = args.page, args.checkpoint, None
    if photographs:
        quality = check_quality(args.output.with_name(f"{stem}.quality.json"))
        page = page or check_page(args.output.with_name(f"{stem}.comparison.html"))
        checkpoint = checkpoint or check_checkpoint(args.output.with_name(f"{stem}.checkpoint.npz"))
    if args.resume and checkpoint is None:
        raise ValueError("--resume needs a checkpoint: name it with --checkpoint FILE.npz")
    if args.resume and not checkpoint.exists():
        raise ValueError(f"{checkpoint}: a checkpoint is required for --resume, found none; start without it")
    if checkpoint and checkpoint.exists() and not args.resume:
        raise ValueError(
            f"{checkpoint}: this is the checkpoint of an unfinished fit; continue it with --resume, or remove the file"
        )
    cameras = check_cameras(cameras_path(args.output))
    return _Outputs(args.output, picture, page, checkpoint, quality, cameras)


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
        f"{len(views)} photographs, used at {_size(views)}: {args.steps} steps to {args.gaussians} Gaussians on the "
        f"{'GPU' if device.type == 'cuda' else 'CPU'}; --max-size, --steps and --gaussians say otherwise"
    )
    return views


def _bytes(color: tuple[float, float, float]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in color)
    return red, green, blue


def _prepare(args: argparse.Namespace, views: Views) -> _Work:
    held_out = args.hold_out.choose(views)
    trained = views.select([i for i in range(len(views)) if i not in held_out])
    judged = views.select(held_out) if held_out else views
    degree = args.sh_degree if len(views) > 1 else 0
    options = FitOptions(args.steps, args.gaussians, degree, args.seed, args.strategy)
    return _Work(Trainer(trained, options), judged, bool(held_out))


def _fit(
    args: argparse.Namespace,
    work: _Work,
    outputs: _Outputs,
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
            fit_progress(args.steps, trainer.done, work.kind(), lines=photographs) as report,
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


@torch.no_grad()
def _write_picture(path: Path, scene: Gaussians, judged: Views, degree: int) -> None:
    image, _ = render(scene, judged, 0, degree)
    write_png(path, torch.cat([judged.target(0), image], dim=1))


def _size(views: Views) -> str:
    sizes = views.sizes
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return f"{'' if len(set(sizes)) == 1 else 'up to '}{width}x{height}"


def _facts(args: argparse.Namespace, work: _Work, views: Views, device: torch.device, seconds: float) -> str:
    count = len(work.trainer.views)
    return (
        f"{len(work.trainer.table)} Gaussians from {count} picture{'s' if count > 1 else ''} of {_size(views)}, "
        f"{args.steps} steps, {device.type}, {seconds:.1f} s"
    )


def _say_quality(args: argparse.Namespace, work: _Work, outputs: _Outputs, quality: Quality, facts: str) -> None:
    """Print what was made, and how good it is."""
    if args.verbose:
        names = work.judged.names or [f"picture {view + 1}" for view in range(len(work.judged))]
        for name, psnr, ssim in zip(names, quality.psnrs, quality.ssims, strict=True):
            print_result(f"{name}: PSNR {psnr:.2f} dB, SSIM {ssim:.3f}")
    page = f"; page: {outputs.page}" if outputs.page else ""
    print_result(f"{facts}: {args.output}")
    spread = ""
    if len(quality.psnrs) > 1:
        few = ", too few to say much" if work.held_out and len(quality.psnrs) < _FEW else ""
        spread = f" ({min(quality.psnrs):.1f} to {max(quality.psnrs):.1f}{few})"
    judged = f"PSNR {quality.psnr:.1f} dB on {work.kind()}{spread}, SSIM {quality.ssim:.3f}"
    print_result(f"{judged}; comparison: {outputs.picture}{page}")


def _say_interrupted(args: argparse.Namespace, trainer: Trainer, outputs: _Outputs, digest: str) -> int:
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
