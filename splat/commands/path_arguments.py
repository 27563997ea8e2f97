"""The options that move the camera, and the cameras they give."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from ..scene.camera import Camera
from ..scene.camera_motion import cameras_along, cameras_around
from ..scene.camera_path import FPS, SECONDS, read_path
from ..scene.gaussians import Gaussians
from ..view.pose import aim_of
from .camera_arguments import between, check_camera_arguments, find_up, find_view, refuse_camera_arguments
from .warnings_printed import printed_warnings

ORBIT: Final = "orbit"
"""The value of --path for a turn about the scene."""
_SECONDS: Final = 6.0
_FPS: Final = 30.0


class Motion(NamedTuple):
    """The cameras of moving pictures, all of one size."""

    cameras: Iterator[Camera]
    width: int
    height: int
    frames: int
    """How many there are."""
    fps: float


def add_path_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --path, --seconds and --fps."""
    parser.add_argument(
        "--path",
        metavar="FILE.json|orbit",
        help="make moving pictures: along the keyframes of this file, Nerfstudio's camera_path.json, "
        "or a list of the cameras that a scene was fitted to; or one turn about the scene",
    )
    parser.add_argument(
        "--seconds",
        type=between(*SECONDS),
        metavar="SECONDS",
        help="how long the path takes; default: as its file says, or 6",
    )
    parser.add_argument(
        "--fps", type=between(*FPS), metavar="1-120", help="pictures a second; default: as the file says, or 30"
    )


def check_path_arguments(args: argparse.Namespace) -> None:
    """End the program with status 2 if the options that place and move the camera contradict each other."""
    if args.path is None:
        given = [f"--{name}" for name in ("seconds", "fps") if getattr(args, name) is not None]
        if given:
            args.wrong_usage(f"{' and '.join(given)} need --path: without it, one picture is rendered")
        check_camera_arguments(args)
    elif args.path == ORBIT:
        check_camera_arguments(args, beside=("up",))
    else:
        refuse_camera_arguments(args, "--path FILE")


def find_motion(args: argparse.Namespace, scene: Gaussians) -> Motion:
    """The cameras of --path for the scene of a file or the built-in one, as `args.scene` says.

    Raises:
        SceneError: if a file holds no path or no camera, or nothing in the scene is visible.
        OSError: if a file cannot be opened.
    """
    if args.path == ORBIT:
        first = find_view(args, scene, args.scene).camera
        count, fps = _count(args.seconds or _SECONDS, args.fps or _FPS)
        up = find_up(args, scene, args.scene)
        cameras = cameras_around(first, aim_of(first, up, scene.middle()).look_at, up, count)
        return Motion(cameras, first.width, first.height, count, fps)
    with printed_warnings():
        path = read_path(Path(args.path), scene)
    count, fps = _count(args.seconds or path.seconds or _SECONDS, args.fps or path.fps or _FPS)
    first, *others = path.keyframes
    if args.size:
        first = first.of_size(*args.size)
        path = replace(path, keyframes=(first, *others))
    return Motion(cameras_along(path, count), first.width, first.height, count, fps)


def _count(seconds: float, fps: float) -> tuple[int, float]:
    """How many pictures there are, and how many a second."""
    return max(round(seconds * fps), 1), fps
