"""The options that place the camera, and the camera they give."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from ..scene.camera import UP, UP_AXES, Camera, FirstView, hidden_share, orbit, seen_share
from ..scene.camera_file import MAX_SIDE, read_camera
from ..scene.camera_list import TakenPicture, find_cameras, read_taken, up_of
from ..scene.gaussians import Gaussians, SceneError
from .printing import print_warning

# These options default to None, so that one given together with --camera is noticed.
_SIZE: Final = (800, 600)
_ANY_SHAPE: Final = (600, 600)
"""Of a placed camera for a page, whose shorter side then shows as much as a picture's, whatever its shape."""
_PLACE: Final[dict[str, Any]] = {"azimuth": 45.0, "elevation": 20.0, "fov": 40.0, "distance": 0.9, "up": None}
_LEAST_SEEN: Final = 0.01
"""Of a scene, in a picture that it was fitted to."""
_MOST_HIDDEN: Final = 0.5
"""Of the middle half of a scene from the first camera; if it is more, one is tried"""
_CLOSER: Final = (0.9, 0.6, 0.4)
"""at these distances from that half."""
_UP: Final = "-y"
"""What is up in files that do not say, which mostly have the axes of COLMAP's cameras."""


def add_camera_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --camera and, for cameras without a file, the options that place one."""
    parser.add_argument(
        "--camera",
        type=Path,
        metavar="FILE.json",
        help="take the camera, and the picture's size, from this file, as `splat view` saves it; default, if no option "
        "says where to look from: the first of the cameras that the scene was fitted to, if they are beside it "
        "(SCENE.cameras.json or cameras.json)",
    )
    parser.add_argument(
        "--azimuth",
        type=between(-3600, 3600),
        metavar="DEGREES",
        help="direction of the camera, counter-clockwise from the front as seen from above; default: 45",
    )
    parser.add_argument(
        "--elevation",
        type=between(-90, 90),
        metavar="DEGREES",
        help="angle of the camera above the horizon, -90 to 90; default: 20",
    )
    parser.add_argument(
        "--fov",
        type=between(1, 170),
        metavar="DEGREES",
        help="field of view along the shorter side; default: 40",
    )
    parser.add_argument(
        "--distance",
        type=between(1e-3, 1e3),
        metavar="FACTOR",
        help="distance of the camera; at 1 the scene's bounding sphere just fits; default: 0.9, or nearer if more than "
        "half of the scene's middle half would be hidden",
    )
    parser.add_argument(
        "--up",
        choices=UP_AXES,
        help="the axis of the scene that points up; default: as its file says, else -y, as COLMAP has it; y for the "
        "built-in scene",
    )
    parser.set_defaults(wrong_usage=parser.error)


def add_size_argument(parser: argparse.ArgumentParser) -> None:
    """Declare --size, for pictures without a camera file."""
    parser.add_argument("--size", type=_size, metavar="WxH", help="size of the picture in pixels; default: 800x600")


def check_camera_arguments(args: argparse.Namespace, beside: Collection[str] = ()) -> None:
    """End the program with status 2 if --camera is given together with an option that it overrides."""
    if args.camera is not None:
        _refuse(args, "--camera", [name for name in ("size", *_PLACE) if name not in beside])


def refuse_camera_arguments(args: argparse.Namespace, option: str) -> None:
    """End the program with status 2 if an option is given that says where the camera is, as `option` does."""
    _refuse(args, option, ["camera", *_PLACE])


def _refuse(args: argparse.Namespace, option: str, names: list[str]) -> None:
    given = [f"--{name}" for name in names if getattr(args, name, None) is not None]
    if given:
        args.wrong_usage(f"{option} already says where the camera is; leave out {', '.join(given)}")


def find_view(args: argparse.Namespace, scene: Gaussians, path: Path | None) -> FirstView:
    """How the scene of a file, or the built-in one for None, is first seen.

    By the camera of --camera; or the one that the options place; or, if no option says where, the first of the cameras
    that the scene was fitted to, if they are beside it.

    Raises:
        SceneError: if the file holds no camera, or nothing in the scene is visible.
        OSError: if the file cannot be opened.
    """
    return find_views(args, scene, path, with_taken=False)[0]


def find_views(
    args: argparse.Namespace, scene: Gaussians, path: Path | None, with_taken: bool = True
) -> tuple[FirstView, list[TakenPicture]]:
    """The same, and the pictures that the scene was fitted to; of these none, unless the view needs them, if not asked.

    Raises as `find_view`.
    """
    placed = args.camera is not None or any(getattr(args, name) is not None for name in _PLACE)
    taken = taken_beside(path, scene) if path and (with_taken or not placed) else []
    return _first_view(args, scene, [picture.camera for picture in taken]), taken


def _first_view(args: argparse.Namespace, scene: Gaussians, cameras: list[Camera]) -> FirstView:
    if args.camera is not None:
        return FirstView(read_camera(args.camera, scene), UP[args.up] if args.up else None)
    size = getattr(args, "size", None)
    if cameras and all(getattr(args, name) is None for name in _PLACE):
        return FirstView(cameras[0].of_size(*(size or _shown_size(cameras[0]))), up_of(cameras))
    place = {name: default if getattr(args, name) is None else getattr(args, name) for name, default in _PLACE.items()}
    place["up"] = axis = args.up or scene.up or _UP
    placed_size = size or (_SIZE if hasattr(args, "size") else _ANY_SHAPE)
    return FirstView(_least_hidden(args, scene, placed_size, place), UP[axis])


def _least_hidden(args: argparse.Namespace, scene: Gaussians, size: tuple[int, int], place: dict[str, Any]) -> Camera:
    """The camera at this place; nearer to the scene's middle half if that is hidden from it, as in a large room."""
    camera = orbit(scene, *size, **place)
    hidden = hidden_share(camera, scene) if args.distance is None else 0.0
    for distance in _CLOSER:
        if hidden <= _MOST_HIDDEN:
            break
        closer = orbit(scene, *size, **{**place, "distance": distance}, outside=0.25)
        if (share := hidden_share(closer, scene)) < hidden:
            camera, hidden = closer, share
    return camera


def find_up(args: argparse.Namespace, scene: Gaussians, path: Path | None) -> tuple[float, float, float]:
    """The direction that is up in a scene: as --up says, the pictures it was fitted to, its file, or most files."""
    if args.up is None:
        taken = taken_beside(path, scene) if path else []
        found = up_of([picture.camera for picture in taken]) if taken else None
        if found is not None:
            return found
    return UP[args.up or scene.up or _UP]


def _shown_size(camera: Camera) -> tuple[int, int]:
    """The camera's size, or a larger one of its shape: photographs are made smaller for a fit."""
    scale = max(max(_SIZE) / max(camera.width, camera.height), 1)
    return max(round(camera.width * scale), 1), max(round(camera.height * scale), 1)


def taken_beside(path: Path, scene: Gaussians) -> list[TakenPicture]:
    """The pictures that a scene was fitted to; none if there are none, or, with a warning, if they are not its own."""
    found = find_cameras(path)
    try:
        taken = read_taken(found, scene) if found else []
        if taken and seen_share(taken[0].camera, scene) < _LEAST_SEEN:
            raise SceneError(f"{found}: cameras that see the scene are required, found the first one looking past it")
    except (SceneError, OSError) as error:
        print_warning(f"the cameras beside the scene are not used: {error}")
        return []
    return taken


def _size(text: str) -> tuple[int, int]:
    width, cross, height = text.lower().partition("x")
    if not (
        cross
        and width.isdecimal()
        and height.isdecimal()
        and 0 < int(width) <= MAX_SIDE
        and 0 < int(height) <= MAX_SIDE
    ):
        raise argparse.ArgumentTypeError(f"a size like 800x600, each side 1 to {MAX_SIDE}, is required, found {text!r}")
    return int(width), int(height)


class between:
    """A number in a closed range, as an argparse type."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __call__(self, text: str) -> float:
        """The number; ArgumentTypeError if it is none or outside."""
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not self.low <= value <= self.high:
            raise argparse.ArgumentTypeError(f"a number from {self.low:g} to {self.high:g} is required, found {text!r}")
        return value
