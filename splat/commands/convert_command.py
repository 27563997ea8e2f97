"""The command `python -m splat convert`: write a scene in another format, whole or a part of it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from ..scene.edits import Corner, crop_scene, limit_degree, prune_scene, scale_scene
from ..scene.file_input import usable
from ..scene.formats import (
    ENDINGS,
    FORMATS,
    check_scene_output,
    read_scene,
    suffix_of,
)
from ..scene.gaussians import Gaussians, SceneError
from .command_files import file_argument, save_scene
from .memory import enough_memory
from .printing import print_error, print_result
from .warnings_printed import printed_warnings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `convert`."""
    parser.add_argument("source", type=Path, metavar="IN", help=f"the scene to read ({ENDINGS})")
    parser.add_argument(
        "output", type=file_argument(check_scene_output), metavar="OUT", help=f"the file to write ({ENDINGS})"
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
        help="keep the Gaussians whose centres lie in this box of the scene as it is read; write it as --crop=-1,...",
    )
    parser.add_argument(
        "--scale", type=_factor, metavar="FACTOR", help="make the scene this many times as large, from the origin"
    )
    parser.add_argument("--prune", type=_opacity, metavar="OPACITY", help="leave out Gaussians of a lower opacity")


def run(args: argparse.Namespace) -> int:
    """Convert the scene; return 0, or 1 if it could not be read or written, or nothing is left of it.

    What the output format cannot hold is reported on standard error.
    """
    try:
        with enough_memory(lambda: f"converting {args.source}", "choose a scene of fewer Gaussians"):
            with printed_warnings():
                whole = read_scene(args.source)
                scene = usable(_edited(whole, args), args.output)
            if not len(whole):
                raise SceneError(f"{args.source}: a scene with Gaussians is required, found none in it")
            if not len(scene):
                raise SceneError(
                    f"{args.source}: at least one Gaussian must be left to write, found none of {len(whole)}; choose a "
                    "larger --crop or a lower --prune"
                )
            save_scene(args.output, scene)
            size = args.output.stat().st_size
    except (SceneError, OSError) as error:
        print_error(error)
        return 1
    degree = min(scene.degree, FORMATS[suffix_of(args.output)].max_degree)
    print_result(f"{len(scene)} of {len(whole)} Gaussians, SH degree {degree}, {size} bytes: {args.output}")
    return 0


def _edited(scene: Gaussians, args: argparse.Namespace) -> Gaussians:
    """What the options make of a scene."""
    if args.crop:
        scene = crop_scene(scene, *args.crop)
    if args.prune is not None:
        scene = prune_scene(scene, args.prune)
    if args.scale is not None:
        scene = scale_scene(scene, args.scale)
    return scene if args.sh_degree is None else limit_degree(scene, args.sh_degree)


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
