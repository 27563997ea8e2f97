"""The command `python -m splat render`: render one picture of a scene."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from PIL import ImageColor

from ..ops.rendering import rasterization
from ..scene import camera as cameras
from ..scene.builtin import knot_scene
from ..scene.formats import READABLE, read_scene
from ..scene.gaussians import Gaussians, SceneError
from ..scene.image import check_picture, write_png
from .device import DeviceError, add_device_argument, find_device
from .memory import enough_memory, try_memory
from .warnings_printed import printed_warnings

# The least that the operators allocate: colour, opacity and last Gaussian of each pixel; projection of each Gaussian.
_PIXEL_BYTES = 20
_GAUSSIAN_BYTES = 48


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `render`."""
    parser.add_argument(
        "scene",
        nargs="?",
        type=Path,
        metavar="SCENE",
        help=f"the scene to render ({READABLE}); default: a built-in one",
    )
    parser.add_argument(
        "-o", "--output", type=_output, required=True, metavar="OUT.png", help="the file to write the picture to"
    )
    parser.add_argument(
        "--size", type=_size, default=(800, 600), metavar="WxH", help="size of the picture in pixels; default: 800x600"
    )
    parser.add_argument(
        "--azimuth",
        type=_between(-3600, 3600),
        default=45.0,
        metavar="DEGREES",
        help="direction of the camera, counter-clockwise from the front as seen from above; default: 45",
    )
    parser.add_argument(
        "--elevation",
        type=_between(-90, 90),
        default=20.0,
        metavar="DEGREES",
        help="angle of the camera above the horizon, -90 to 90; default: 20",
    )
    parser.add_argument(
        "--fov",
        type=_between(1, 170),
        default=40.0,
        metavar="DEGREES",
        help="field of view along the shorter side; default: 40",
    )
    parser.add_argument(
        "--distance",
        type=_between(1e-3, 1e3),
        default=0.9,
        metavar="FACTOR",
        help="distance of the camera; at 1 the scene's bounding sphere just fits; default: 0.9",
    )
    parser.add_argument(
        "--up",
        choices=cameras.UP_AXES,
        default="y",
        help="the axis of the scene that points up; write negative ones as --up=-y; default: y",
    )
    parser.add_argument(
        "--background",
        type=_color,
        default="black",
        metavar="COLOR",
        help="background colour: a name, #rrggbb, or r,g,b from 0 to 255; default: black",
    )
    add_device_argument(parser)
    parser.add_argument(
        "--sh-degree",
        type=int,
        choices=range(5),
        metavar="0-4",
        help="the highest degree of spherical harmonics to use; default: all that the scene has",
    )


def run(args: argparse.Namespace) -> int:
    """Render the picture and write it; return 0, or 1 if the scene, the device or a file failed."""
    start = time.perf_counter()
    try:
        with (
            enough_memory(lambda: f"reading {args.scene or 'the built-in scene'}", "choose a scene of fewer Gaussians"),
            printed_warnings(),
        ):
            scene = read_scene(args.scene) if args.scene else knot_scene()
        device = find_device(args.device)
        degree = scene.degree if args.sh_degree is None else min(args.sh_degree, scene.degree)
        with enough_memory(
            lambda: f"rendering {len(scene)} Gaussians at {args.size[0]}x{args.size[1]}",
            "choose a smaller --size, or a scene of fewer Gaussians",
        ):
            image = _render(scene.to(device), args, degree)
            write_png(args.output, image)
    except (SceneError, OSError, DeviceError) as error:
        print(f"splat: {error}", file=sys.stderr)
        return 1
    seconds = time.perf_counter() - start
    width, height = args.size
    print(f"{len(scene)} Gaussians, {width}x{height}, {device.type}, {seconds:.2f} s: {args.output}")
    return 0


def _render(scene: Gaussians, args: argparse.Namespace, degree: int) -> torch.Tensor:
    width, height = args.size
    camera = cameras.orbit(
        scene,
        width,
        height,
        azimuth=args.azimuth,
        elevation=args.elevation,
        fov=args.fov,
        distance=args.distance,
        up=args.up,
    )
    device = scene.means.device
    try_memory(_PIXEL_BYTES * width * height + _GAUSSIAN_BYTES * len(scene), device)
    with torch.no_grad():
        images, _, _ = rasterization(
            scene.means,
            scene.quats,
            scene.scales,
            scene.opacities,
            scene.sh,
            camera.viewmat[None].to(device),
            camera.K[None].to(device),
            width,
            height,
            near_plane=camera.near,
            sh_degree=degree,
            backgrounds=torch.tensor([args.background], dtype=torch.float32, device=device),
        )
    return images[0]


def _output(text: str) -> Path:
    try:
        return check_picture(text)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _size(text: str) -> tuple[int, int]:
    width, cross, height = text.lower().partition("x")
    if not (
        cross and width.isdecimal() and height.isdecimal() and 0 < int(width) <= 16384 and 0 < int(height) <= 16384
    ):
        raise argparse.ArgumentTypeError(f"a size like 800x600, each side 1 to 16384, is required, found {text!r}")
    return int(width), int(height)


class _between:
    """A number in a closed range, as an argparse type."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __call__(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not self.low <= value <= self.high:
            raise argparse.ArgumentTypeError(f"a number from {self.low:g} to {self.high:g} is required, found {text!r}")
        return value


def _color(text: str) -> tuple[float, float, float]:
    parts = text.split(",")
    try:
        # Pillow knows the names of CSS and #rrggbb.
        values = [float(part) for part in parts] if len(parts) == 3 else list(ImageColor.getrgb(text)[:3])
    except ValueError:
        values = []
    if len(values) != 3 or not all(0 <= value <= 255 for value in values):
        raise argparse.ArgumentTypeError(f"a colour name, #rrggbb, or r,g,b from 0 to 255 is required, found {text!r}")
    return values[0] / 255, values[1] / 255, values[2] / 255
