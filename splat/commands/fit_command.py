"""The command `python -m splat fit`: fit a scene to pictures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..fit.training import FitOptions, Trainer, render
from ..fit.views import Views, read_views
from ..ops.checks import MAX_COUNT
from ..scene.gaussians import SceneError
from ..scene.image import check_picture, write_png
from ..scene.ply_writer import check_scene_file, write_ply
from .device import DeviceError, add_device_argument, find_device
from .interrupts import INTERRUPTED, noted_interrupt
from .memory import enough_memory

_TEST_EVERY = 8
"""One picture in this many is held out to measure the quality, if there are that many."""
_SMALL = 100_000
"""Pixels. With fewer, waking other threads takes longer than the work they do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `fit`."""
    parser.add_argument(
        "sources",
        nargs="*",
        type=Path,
        metavar="IMAGE|SCENE.npz",
        help="one picture, or an .npz file with images [C, H, W, 3], viewmats [C, 4, 4] (world to camera), "
        "Ks [C, 3, 3] (in pixels) and optionally points [P, 3] and their colors [P, 3]; "
        "default: pictures of the built-in scene",
    )
    parser.add_argument(
        "-o", "--output", type=_scene_file, required=True, metavar="SCENE.ply", help="the file to write the scene to"
    )
    parser.add_argument(
        "--picture",
        type=_picture,
        metavar="OUT.png",
        help="the file to write a comparison to: a picture and the fitted scene next to each other; "
        "default: SCENE.png next to SCENE.ply",
    )
    parser.add_argument("--steps", type=_count, default=1000, help="optimization steps; default: 1000")
    parser.add_argument("--gaussians", type=_count, default=8000, help="the maximum number of Gaussians; default: 8000")
    parser.add_argument(
        "--sh-degree",
        type=int,
        choices=range(4),
        default=2,
        metavar="0-3",
        help="degree of the spherical harmonics: with 0, colours look the same from every direction; default: 2",
    )
    parser.add_argument("--seed", type=_seed, default=0, help="seed of the random numbers; default: 0")
    add_device_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Fit the scene and write it.

    Returns 0 if the scene was written, 1 if the pictures, the device or a file failed, and 130 if the fit was
    interrupted, in which case the scene fitted so far was written.
    """
    start = time.perf_counter()
    what = "reading the pictures"
    try:
        picture = args.picture or check_picture(args.output.with_suffix(".png"))
        device = find_device(args.device)
        with enough_memory(lambda: what, "choose fewer --gaussians, or smaller or fewer pictures"):
            views = read_views(args.sources, max(args.gaussians // 3, 1), args.seed)
            width, height = views.size
            what = f"fitting {args.gaussians} Gaussians to {len(views)} pictures of {width}x{height}"
            views = views.to(device)
            held_out = range(0, len(views), _TEST_EVERY) if len(views) >= _TEST_EVERY else range(0)
            trained = views.select([i for i in range(len(views)) if i not in held_out])
            judged = views.select(held_out) if held_out else views
            degree = args.sh_degree if len(views) > 1 else 0
            trainer = Trainer(trained, FitOptions(args.steps, args.gaussians, degree, args.seed))
            with _threads(views, device):
                with noted_interrupt() as interrupted:
                    with _progress(args.steps) as report:
                        done = trainer.fit(
                            lambda step, loss: report(step, loss, len(trainer.parameters["means"])), interrupted
                        )
                    scene = trainer.gaussians()
                    write_ply(args.output, scene)
                if interrupted():
                    return _say_interrupted(args, done, len(scene))
                quality = trainer.quality(judged)
            with torch.no_grad():
                image, _ = render(scene, judged, 0, degree)
            write_png(picture, torch.cat([judged.images[0], image], dim=1))
    except (SceneError, OSError, DeviceError, ValueError) as error:
        print(f"splat: {error}", file=sys.stderr)
        return 1
    seconds = time.perf_counter() - start
    pictures = "picture" if len(trained) == 1 else "pictures"
    kind = f"{len(judged)} held-out pictures" if held_out else f"the {pictures} it was fitted to"
    print(
        f"{len(scene)} Gaussians from {len(trained)} {pictures} of {width}x{height}, {args.steps} steps, "
        f"{device.type}, {seconds:.1f} s: {args.output}\nPSNR {quality:.1f} dB on {kind}; comparison: {picture}"
    )
    return 0


def _say_interrupted(args: argparse.Namespace, done: int, gaussians: int) -> int:
    print(
        f"splat: interrupted after {done} of {args.steps} steps; the scene as fitted so far, {gaussians} Gaussians, is "
        f"in {args.output}",
        file=sys.stderr,
    )
    return INTERRUPTED


@contextmanager
def _threads(views: Views, device: torch.device) -> Iterator[None]:
    """Use a single thread if there is too little work for more."""
    before = torch.get_num_threads()
    width, height = views.size
    if device.type == "cpu" and width * height < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[int, float, int], None]]:
    """A progress bar on standard error, if that is a terminal."""
    columns = (
        TextColumn("fit"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=steps)

        def report(step: int, loss: float, count: int) -> None:
            progress.update(task, completed=step, description=f"loss {loss:.4f}, {count} Gaussians")

        yield report


def _scene_file(text: str) -> Path:
    try:
        return check_scene_file(text)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _picture(text: str) -> Path:
    try:
        return check_picture(text)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or not 1 <= int(text) <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to {MAX_COUNT} is required, found {text[:40]!r}")
    return int(text)


def _seed(text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isdecimal() or len(digits) > 18:
        raise argparse.ArgumentTypeError(f"a whole number of at most 18 digits is required, found {text[:40]!r}")
    return int(text)
