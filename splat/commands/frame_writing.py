"""Rendering and writing the frames of moving pictures one after the other, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from torch import Tensor

from ..scene.camera import Camera
from ..scene.gaussians import SceneError
from ..scene.moving_pictures import is_video, moving_pictures
from .interrupts import INTERRUPTED, catch_interrupt
from .path_arguments import Motion
from .printing import print_error, print_progress, print_warning
from .progress_bar import duration, progress_bar

_SILENCE: Final = 10.0
"""Seconds between two lines of progress, where there is no terminal."""


class _Interrupted(Exception):
    """Leaves what is being written."""


def even_sides(motion: Motion) -> Motion:
    """The same without the last column or row if their number is odd, as H.264 needs it; a warning says so.

    Raises SceneError if nothing would be left.
    """
    width, height = motion.width - motion.width % 2, motion.height - motion.height % 2
    if min(width, height) == 0:
        raise SceneError(
            f"a video has at least 2x2 pixels, found {motion.width}x{motion.height}; choose another --size"
        )
    if (width, height) != (motion.width, motion.height):
        print_warning(
            f"a video has even sides, so {motion.width}x{motion.height} pixels are cut to {width}x{height}; a folder "
            "takes them all"
        )
    cameras = (replace(camera, width=width, height=height) for camera in motion.cameras)
    return motion._replace(cameras=cameras, width=width, height=height)


def write_frames(output: Path, motion: Motion, draw: Callable[[Camera], Tensor]) -> int:
    """Draw and write all frames; return 0, or 130 after Ctrl-C. What is left after that or an error is said.

    Raises what `draw` and `moving_pictures` raise.
    """
    done = 0
    try:
        with (
            catch_interrupt() as interrupted,
            moving_pictures(output, motion.width, motion.height, motion.fps) as write,
            _frame_progress(motion.frames) as show,
        ):
            for camera in motion.cameras:
                if interrupted():
                    raise _Interrupted
                write(draw(camera))
                done += 1
                show(done)
    except _Interrupted:
        print_error(f"interrupted after {done} of {motion.frames} frames; {_left(output, done)}")
        return INTERRUPTED
    except Exception:
        if done:
            print_error(f"{done} of {motion.frames} frames were rendered; {_left(output, done)}")
        raise
    return 0


def _left(output: Path, done: int) -> str:
    """What of moving pictures is there after an early end."""
    return "nothing was written" if is_video(output) or not done else f"they are in {output}"


@contextmanager
def _frame_progress(count: int) -> Iterator[Callable[[int], None]]:
    """Progress on standard error: a bar if that is a terminal, otherwise a line now and then."""
    start = said = time.monotonic()
    with progress_bar("render", count) as show:

        def report(done: int) -> None:
            nonlocal said
            now = time.monotonic()
            if not show(done, "frames") and now - said >= _SILENCE and done < count:
                said = now
                print_progress(f"frame {done} of {count}; {duration((now - start) / done * (count - done))} left")

        yield report
