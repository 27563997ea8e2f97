"""The command `splat convert`: write scenes in another format, whole or in part, turned, moved, together."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..scene.camera import UP_AXES, Camera, upright_rotation
from ..scene.camera_list import MOST_CAMERAS, cameras_path, find_cameras
from ..scene.edits import Corner, crop_scene, limit_degree, merge_scenes, scale_scene, shift_scene
from ..scene.file_input import usable
from ..scene.formats import (
    ENDINGS,
    WRITERS,
    WRITTEN_ENDINGS,
    check_scene_output,
    written_suffix,
)
from ..scene.gaussians import Gaussians, SceneError
from ..scene.pruning import Pruning, prune_scene
from ..scene.rotations import rotate_scene, rotation_about_axes
from .camera_arguments import between, taken_beside
from .command_files import add_antialiased_argument, file_argument, load_scene, save_scene, scene_argument
from .memory import enough_memory
from .printing import print_error, print_result
from .warnings_printed import printed_warnings

_ORDER: Final = ("--crop", "--prune", "--up", "--rotate", "--scale", "--translate", "--sh-degree")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `convert`."""
    parser.epilog = f"Whatever their order on the command line, this is done in turn: {', '.join(_ORDER)}."
    parser.add_argument(
        "sources",
        nargs="+",
        type=scene_argument,
        metavar="IN",
        help=f"the scene to read ({ENDINGS}); several are put together, with the highest degree among them",
    )
    parser.add_argument(
        "output", type=file_argument(check_scene_output), metavar="OUT", help=f"the file to write ({WRITTEN_ENDINGS})"
    )
    parser.add_argument(
        "--sh-degree",
        type=int,
        choices=range(5),
        metavar="0-4",
        help="the highest degree of spherical harmonics to keep; default: all that the scene has",
    )
    parser.add_argument(
        "--crop",
        type=_box,
        metavar="X0,Y0,Z0,X1,Y1,Z1",
        help="keep the Gaussians whose centres lie in this box of the scene as it is read",
    )
    parser.add_argument(
        "--prune", type=_opacity, default=0.0, metavar="OPACITY", help="leave out Gaussians of a lower opacity"
    )
    parser.add_argument(
        "--prune-unseen",
        type=between(1, MOST_CAMERAS),
        default=0,
        metavar="CAMERAS",
        help="leave out Gaussians whose centres are in the pictures of fewer of the cameras beside the scene",
    )
    parser.add_argument(
        "--prune-large",
        type=between(1e-6, 1e6),
        default=math.inf,
        metavar="SHARE",
        help="leave out Gaussians whose largest standard deviation is more than this share of the distance to the "
        "nearest of these cameras",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be left, and write nothing")
    parser.add_argument(
        "--up",
        choices=UP_AXES,
        help="turn the scene so that this axis of it points to -y, which is up in COLMAP's axes and in most files",
    )
    parser.add_argument(
        "--rotate",
        type=_vector,
        metavar="X,Y,Z",
        help="turn the scene by these degrees, about the x axis, then the y axis, then the z axis, around the origin",
    )
    parser.add_argument(
        "--scale", type=_factor, metavar="FACTOR", help="make the scene this many times as large, from the origin"
    )
    parser.add_argument("--translate", type=_vector, metavar="X,Y,Z", help="move the scene by so much")
    add_antialiased_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Convert the scenes; return 0, or 1 if one could not be read or written, or nothing is left of them.

    What the output format cannot hold is reported on standard error.
    """
    names = ", ".join(map(str, args.sources))
    try:
        _check_cameras(args)
        with enough_memory(lambda: f"converting {names}", "choose a scene of fewer Gaussians"):
            with printed_warnings():
                whole = merge_scenes([load_scene(path, args.antialiased) for path in args.sources])
                edited, left_out = _edited(whole, args)
                scene = usable(edited, args.output)
            if not len(whole):
                raise SceneError(f"{names}: a scene with Gaussians is required, found none in it")
            if not len(scene):
                raise SceneError(
                    f"{names}: at least one Gaussian must be left to write, found none of {len(whole)}; choose a "
                    "larger --crop, or prune less"
                )
            if not args.dry_run:
                save_scene(args.output, scene)
    except (SceneError, OSError) as error:
        print_error(error)
        return 1
    degree = min(scene.degree, WRITERS[written_suffix(args.output)].max_degree)
    words = f" (left out: {', '.join(f'{count} {reason}' for reason, count in left_out.items())})" if left_out else ""
    written = "not written: --dry-run" if args.dry_run else f"{args.output.stat().st_size} bytes"
    print_result(f"{len(scene)} of {len(whole)} Gaussians{words}, SH degree {degree}, {written}: {args.output}")
    return 0


def _edited(scene: Gaussians, args: argparse.Namespace) -> tuple[Gaussians, dict[str, int]]:
    """What the options make of a scene, in the order of _ORDER, and how many Gaussians each reason leaves out."""
    pruning = Pruning(args.prune, args.prune_unseen, args.prune_large)
    cameras = _cameras(args.sources, scene) if pruning.needs_cameras else []
    if args.crop:
        scene = crop_scene(scene, *args.crop)
    scene, left_out = prune_scene(scene, pruning, cameras)
    if args.up:
        scene = rotate_scene(replace(scene, up=args.up), upright_rotation(args.up))
    if args.rotate:
        scene = rotate_scene(scene, rotation_about_axes(args.rotate))
    if args.scale is not None:
        scene = scale_scene(scene, args.scale)
    if args.translate:
        scene = shift_scene(scene, args.translate)
    return scene if args.sh_degree is None else limit_degree(scene, args.sh_degree), left_out


def _check_cameras(args: argparse.Namespace) -> None:
    """SceneError if the scene is moved, but not the cameras that would be beside it."""
    moves = [f"--{name}" for name in ("up", "rotate", "scale", "translate") if getattr(args, name) is not None]
    if moves and (found := find_cameras(args.output)):
        raise SceneError(
            f"{args.output}: a place without cameras is required for a scene that {moves[0]} moves, found {found}, "
            "which would not be moved along; choose another name or folder, or take them away"
        )


def _cameras(sources: list[Path], scene: Gaussians) -> list[Camera]:
    """Those beside all of the scenes; SceneError if there are none beside one."""
    found = []
    for path in sources:
        taken = taken_beside(path, scene)
        if not taken:
            raise SceneError(
                f"{path}: the cameras that it was fitted to are required, to know what they see, found none beside it; "
                f"put their list there, as {cameras_path(path).name}"
            )
        found += [picture.camera for picture in taken]
    return found


def _numbers(text: str) -> list[float]:
    """Finite numbers between commas; none if one is not a finite number."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        return []
    return values if all(map(math.isfinite, values)) else []


def _box(text: str) -> tuple[Corner, Corner]:
    values = _numbers(text)
    if len(values) != 6 or any(low > high for low, high in zip(values[:3], values[3:], strict=True)):
        raise argparse.ArgumentTypeError(
            f"two corners X0,Y0,Z0,X1,Y1,Z1, the lower one first, are required, found {text[:80]!r}"
        )
    return (values[0], values[1], values[2]), (values[3], values[4], values[5])


def _vector(text: str) -> Corner:
    values = _numbers(text)
    if len(values) != 3 or any(abs(value) > 1e9 for value in values):
        raise argparse.ArgumentTypeError(f"three numbers X,Y,Z up to 1e9 are required, found {text[:40]!r}")
    return values[0], values[1], values[2]


def _factor(text: str) -> float:
    values = _numbers(text)
    if len(values) != 1 or not 1e-9 <= values[0] <= 1e9:
        raise argparse.ArgumentTypeError(f"a number from 1e-9 to 1e9 is required, found {text[:40]!r}")
    return values[0]


def _opacity(text: str) -> float:
    values = _numbers(text)
    if len(values) != 1 or not 0 <= values[0] <= 1:
        raise argparse.ArgumentTypeError(f"an opacity from 0 to 1 is required, found {text[:40]!r}")
    return values[0]
