"""The command `splat export`: write a scene as a page that draws it in the reader's browser."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ..page.parts import check_page
from ..page.scene_page import PageView, in_page_units, write_scene_page
from ..scene.coordinates import NO_OFFSET
from ..scene.edits import limit_degree
from ..scene.formats import ENDINGS, losses_of
from ..scene.gaussians import SceneError
from .background_argument import add_background_argument
from .camera_arguments import add_camera_arguments, check_camera_arguments, find_view
from .command_files import add_antialiased_argument, file_argument, load_scene, scene_argument
from .memory import enough_memory
from .printing import print_error, print_result, print_warning


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `export`."""
    parser.add_argument(
        "scene",
        nargs="?",
        type=scene_argument,
        metavar="SCENE",
        help=f"the scene to export ({ENDINGS}); default: a built-in one",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=file_argument(check_page),
        required=True,
        metavar="OUT.html",
        help="the page to write: one file, which loads nothing",
    )
    add_camera_arguments(parser)
    add_background_argument(parser)
    add_antialiased_argument(parser)
    parser.add_argument(
        "--sh-degree",
        type=int,
        choices=range(5),
        default=4,
        metavar="0-4",
        help="the highest degree of spherical harmonics to keep; default: all that the scene has",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page; return 0, or 1 if the scene or a file failed."""
    check_camera_arguments(args, beside=("up",))
    name = args.scene or "the built-in scene"
    try:
        scene = load_scene(args.scene, args.antialiased)
        view = PageView(*find_view(args, scene, args.scene), args.background)
        with enough_memory(lambda: f"exporting {name}", "choose a scene of fewer Gaussians"):
            # A page has coordinates of its own, so it loses nothing of a map's.
            scene = replace(limit_degree(scene, min(args.sh_degree, scene.degree)), offset=NO_OFFSET)
            scene, view = in_page_units(scene, view)
            write_scene_page(args.output, args.scene.name if args.scene else "splat", scene, view)
            for loss in losses_of(".spz", replace(scene, up=None)):  # a page is told what is up
                print_warning(f"{args.output}: {loss}")
    except (SceneError, OSError) as error:
        print_error(error)
        return 1
    size = args.output.stat().st_size
    print_result(f"{len(scene)} Gaussians, SH degree {scene.degree}, {size} bytes: {args.output}")
    return 0
