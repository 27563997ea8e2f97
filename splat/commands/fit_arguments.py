"""The options of `python -m splat fit`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..fit.checkpoints import check_checkpoint
from ..fit.comparison_page import check_page
from ..fit.strategies import STRATEGIES
from ..ops.checks import MAX_COUNT
from ..scene.formats import WRITTEN_ENDINGS, check_scene_output
from ..scene.image import check_picture
from .command_files import file_argument
from .device import add_device_argument


def add_fit_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `fit`."""
    parser.add_argument(
        "sources",
        nargs="*",
        type=Path,
        metavar="FOLDER|IMAGE|SCENE.npz",
        help="a folder of photographs with a COLMAP model or a transforms.json; or one picture; or an .npz file with "
        "images [C, H, W, 3], viewmats [C, 4, 4] (world to camera), Ks [C, 3, 3] (in pixels) and optionally points "
        "[P, 3] and their colors [P, 3]; default: pictures of the built-in scene",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=file_argument(check_scene_output),
        required=True,
        metavar="SCENE",
        help=f"the file to write the scene to ({WRITTEN_ENDINGS})",
    )
    parser.add_argument(
        "--picture",
        type=file_argument(check_picture),
        metavar="OUT.png",
        help="the file to write a comparison to: a picture and the fitted scene next to each other; "
        "default: SCENE.png next to the scene",
    )
    parser.add_argument(
        "--page",
        type=file_argument(check_page),
        metavar="OUT.html",
        help="the file to write a page of pictures and renders to; default: for photographs, SCENE.html next to the "
        "scene",
    )
    parser.add_argument("--steps", type=_count, default=1000, help="optimization steps; default: 1000")
    parser.add_argument("--gaussians", type=_count, default=8000, help="the maximum number of Gaussians; default: 8000")
    parser.add_argument(
        "--strategy",
        choices=tuple(STRATEGIES),
        default="grow",
        help="how Gaussians are added: grow splits those with the largest gradients, evenly up to the maximum; default "
        "clones and splits as the original 3DGS does; mcmc moves dead ones to where opaque ones are; without the "
        "option: grow",
    )
    parser.add_argument(
        "--sh-degree",
        type=int,
        choices=range(4),
        default=2,
        metavar="0-3",
        help="degree of the spherical harmonics: with 0, colours look the same from every direction; default: 2",
    )
    parser.add_argument("--seed", type=_seed, default=0, help="seed of the random numbers; default: 0")
    _add_photograph_arguments(parser)
    _add_checkpoint_arguments(parser)
    add_device_argument(parser)


def _add_photograph_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--images",
        type=Path,
        metavar="FOLDER",
        help="where the photographs are; default: in FOLDER/images for COLMAP, next to transforms.json otherwise",
    )
    parser.add_argument(
        "--downscale", type=_count, default=1, metavar="N", help="divide the photographs' width and height by this"
    )
    parser.add_argument(
        "--max-size",
        type=_count,
        metavar="PIXELS",
        help="shrink photographs whose longer side has more pixels than this",
    )


def _add_checkpoint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        type=file_argument(check_checkpoint),
        metavar="FILE.npz",
        help="keep the state of the fit in this file while it runs; default: for photographs, SCENE.checkpoint.npz",
    )
    parser.add_argument(
        "--checkpoint-every", type=_count, default=500, metavar="STEPS", help="how often; default: every 500 steps"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue from the checkpoint; the scene is the same as without the interruption",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or not 1 <= int(text) <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to {MAX_COUNT} is required, found {text[:40]!r}")
    return int(text)


def _seed(text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isdecimal() or len(digits) > 18:
        raise argparse.ArgumentTypeError(f"a whole number of at most 18 digits is required, found {text[:40]!r}")
    return int(text)
