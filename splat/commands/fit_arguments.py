"""The options of `splat fit`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final, NamedTuple

from ..fit.checkpoints import check_checkpoint
from ..fit.color_maps import APPEARANCES
from ..fit.drawn_lenses import LENSES
from ..fit.held_out import EVERY, HoldOut
from ..fit.strategies import STRATEGIES
from ..ops.checks import MAX_COUNT
from ..page.parts import check_page
from ..scene.formats import ENDINGS, WRITTEN_ENDINGS, check_scene_output
from ..scene.image import check_picture
from .background_argument import add_background_argument
from .command_files import file_argument, scene_argument
from .device import add_device_argument
from .port_argument import add_port_argument


class FitSize(NamedTuple):
    """How much is fitted, if no option says so."""

    steps: int
    gaussians: int
    max_size: int | None = None
    """Pixels of the longer side of photographs."""

    def gaussians_after(self, steps: int) -> int:
        """So many that a fit of fewer steps has time for them: too many at once do not cover what they have to."""
        return min(self.gaussians, max(self.gaussians * steps // self.steps, self.gaussians // 6))


_WITHOUT_PHOTOGRAPHS: Final = FitSize(1000, 8000)
_ON_CPU: Final = FitSize(2000, 30_000, 480)
"""Of photographs: some minutes on two cores."""
_ON_GPU: Final = FitSize(7000, 300_000, 1600)


def default_size(photographs: bool, device: str) -> FitSize:
    """What a fit's options are if they are not given."""
    if not photographs:
        return _WITHOUT_PHOTOGRAPHS
    return _ON_GPU if device == "cuda" else _ON_CPU


def _listed(name: str) -> str:
    few, cpu, gpu = (getattr(size, name) for size in (_WITHOUT_PHOTOGRAPHS, _ON_CPU, _ON_GPU))
    return f"{cpu} for photographs on a CPU, {gpu} on a GPU, {few} for other pictures"


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
        help="the file to write a page of pictures and renders to; default: for photographs, SCENE.comparison.html "
        "next to the scene",
    )
    parser.add_argument("--steps", type=_count, help=f"optimization steps; default: {_listed('steps')}")
    parser.add_argument(
        "--gaussians", type=_count, help=f"the maximum number of Gaussians; default: {_listed('gaussians')}"
    )
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
        metavar="0-3",
        help="degree of the spherical harmonics: with 0, colours look the same from every direction; default: 2, or "
        "that of the scene to begin with if it is higher",
    )
    parser.add_argument("--seed", type=_seed, default=0, help="seed of the random numbers; default: 0")
    parser.add_argument("--verbose", action="store_true", help="print the quality of each picture, too")
    parser.add_argument(
        "--view", action="store_true", help="open a page on this machine that shows the scene while it is fitted"
    )
    add_port_argument(parser, "the page's port")
    _add_picture_arguments(parser)
    _add_photograph_arguments(parser)
    _add_checkpoint_arguments(parser)
    add_device_argument(parser)


def _add_picture_arguments(parser: argparse.ArgumentParser) -> None:
    """What is fitted of each picture, besides the scene."""
    parser.add_argument(
        "--appearance",
        choices=APPEARANCES,
        default="off",
        help="affine: fit an affine map of the colours for each picture, too, for exposure and white balance that "
        "change; the scene is written without them; default: off",
    )
    parser.add_argument(
        "--refine-cameras",
        action="store_true",
        help="correct where each camera stands and looks, too, by a little; the cameras beside the scene are the "
        "corrected ones",
    )


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
        help="shrink photographs whose longer side has more pixels than this; default, without --downscale: "
        f"{_ON_CPU.max_size} on a CPU, {_ON_GPU.max_size} on a GPU",
    )
    parser.add_argument(
        "--lenses",
        choices=LENSES,
        default=LENSES[0],
        help="photographs of lenses that bend straight lines: straighten makes them into those of pinhole cameras; "
        "as-taken draws the scene through the lens, and uses the whole picture; default: straighten",
    )
    parser.add_argument(
        "--masks",
        type=Path,
        metavar="FOLDER",
        help="where the photographs' masks are, pictures of the same names that are black where a photograph is not to "
        "be used; default: in a folder masks beside the photographs' folder, if there is one",
    )
    parser.add_argument(
        "--hold-out",
        type=_hold_out,
        default=HoldOut(),
        metavar="N|NAMES.txt",
        help="measure the scene by every Nth picture, or by those whose names the file has, a line each, and fit it to "
        f"the others; 0: fit to all; default: what the photographs' cameras come with, or {EVERY}",
    )
    add_background_argument(parser)


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
        help="continue from the checkpoint; the scene is the same as without the interruption; with more --steps, a "
        "longer fit, also of one that was complete",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        type=scene_argument,
        metavar="SCENE",
        help=f"the scene whose Gaussians to begin with ({ENDINGS}); default: small spheres at the points",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or not 1 <= int(text) <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to {MAX_COUNT} is required, found {text[:40]!r}")
    return int(text)


def _hold_out(text: str) -> HoldOut:
    if text.isdecimal() and len(text) <= 10:
        if int(text) == 1:
            raise argparse.ArgumentTypeError("0, or a number from 2 on, is required, found 1")
        return HoldOut(every=int(text))
    if not text.lower().endswith(".txt"):
        raise argparse.ArgumentTypeError(f"a whole number or a NAMES.txt is required, found {text[:40]!r}")
    return HoldOut(names=Path(text))


def _seed(text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isdecimal() or len(digits) > 18:
        raise argparse.ArgumentTypeError(f"a whole number of at most 18 digits is required, found {text[:40]!r}")
    return int(text)
