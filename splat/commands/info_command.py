"""The command `splat info`: what a scene holds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..scene.coordinates import shown_offset
from ..scene.file_input import LeftOutWarning
from ..scene.formats import ENDINGS, FORMATS, WRITERS, losses_of, read_scene, suffix_of
from ..scene.gaussians import Gaussians, SceneError
from ..scene.image import check_picture, write_png
from ..scene.summary import QUANTILES, histogram_picture, scene_quantiles, visible_box
from .camera_arguments import taken_beside
from .command_files import file_argument, scene_argument
from .memory import enough_memory
from .printing import print_error, print_result
from .warnings_printed import printed_warnings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `info`."""
    parser.add_argument("scene", type=scene_argument, metavar="SCENE", help=f"the scene to read ({ENDINGS})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--histograms", type=file_argument(check_picture), metavar="OUT.png", help="the file to write histograms to"
    )


def run(args: argparse.Namespace) -> int:
    """Print what the scene holds; return 0, or 1 if it could not be read or the picture not written."""
    try:
        with enough_memory(lambda: f"reading {args.scene}", "choose a scene of fewer Gaussians"):
            with printed_warnings() as caught:
                scene = read_scene(args.scene)
            left_out = sum(each.message.left_out for each in caught if isinstance(each.message, LeftOutWarning))
            report = _report(args.scene, scene, left_out)
            if args.histograms:
                cameras = [picture.camera for picture in taken_beside(args.scene, scene)]
                write_png(args.histograms, histogram_picture(scene, cameras))
    except (SceneError, OSError) as error:
        print_error(error)
        return 1
    for line in json.dumps(report, indent=2).split("\n") if args.json else _lines(report):
        print_result(line)
    return 0


def _report(path: Path, scene: Gaussians, left_out: int) -> dict[str, Any]:
    return {
        "file": str(path),
        "format": FORMATS[suffix_of(path)].describe(path),
        "bytes": path.stat().st_size,
        "gaussians": len(scene),
        "left_out": left_out,
        "sh_degree": scene.degree,
        "antialiased": scene.antialiased,
        "up": scene.up,
        "offset": list(scene.offset),
        "visible_box": visible_box(scene),
        "quantiles": scene_quantiles(scene),
        "losses": {suffix: losses_of(suffix, scene) for suffix in WRITERS},
    }


def _lines(report: dict[str, Any]) -> list[str]:
    lines = [
        f"{report['file']}: {report['format']}, {report['bytes']} bytes",
        f"{report['gaussians']} Gaussians, SH degree {report['sh_degree']}; not finite and left out: "
        f"{report['left_out']}",
    ]
    if report["antialiased"]:
        lines.append("to be drawn antialiased")
    if report["up"]:
        lines.append(f"up is {report['up']}")
    if any(report["offset"]):
        lines.append(f"coordinates of a map; in memory the offset {shown_offset(report['offset'])} is taken off them")
    digits = 10 if any(report["offset"]) else 4
    if report["quantiles"]:
        lines += ["", " " * 10 + "".join(f"{name:>12}" for name in QUANTILES)]
    for name, values in report["quantiles"].items():
        lines.append(
            f"{name:10}" + "".join(f" {value:11.{digits if name in 'xyz' else 4}g}" for value in values.values())
        )
    if report["visible_box"]:
        lower, upper = (", ".join(f"{x:.{digits}g}" for x in corner) for corner in report["visible_box"].values())
        lines += ["", f"96 % of what is visible, along each axis: {lower} to {upper}"]
    losses = [f"{suffix}: {loss}" for suffix, phrases in report["losses"].items() for loss in phrases]
    if losses:
        lines += ["", "what other formats would lose", *losses]
    return lines
