"""The command `splat render`: render a picture of a scene, or moving ones."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Final

import torch

from ..ops.checks import image_bytes
from ..scene.camera import Camera
from ..scene.formats import ENDINGS
from ..scene.gaussians import Gaussians, SceneError
from ..scene.image import check_picture, write_png
from ..scene.moving_pictures import check_moving_pictures, is_video, require_encoder
from ..view.drawing import rasterized
from .background_argument import add_background_argument
from .camera_arguments import add_camera_arguments, add_size_argument, find_view
from .command_files import add_antialiased_argument, file_argument, load_scene, scene_argument
from .device import DeviceError, add_device_argument, find_device
from .frame_writing import even_sides, write_frames
from .memory import GAUSSIAN_BYTES, enough_memory, try_memory
from .path_arguments import add_path_arguments, check_path_arguments, find_motion
from .printing import print_error, print_result

_PICTURE: Final = ".png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `render`."""
    parser.add_argument(
        "scene",
        nargs="?",
        type=scene_argument,
        metavar="SCENE",
        help=f"the scene to render ({ENDINGS}); default: a built-in one",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=file_argument(_check_output),
        required=True,
        metavar="OUT",
        help="the file to write the picture to, .png; with --path, a video, .mp4, or a folder for the frames",
    )
    add_path_arguments(parser)
    add_size_argument(parser)
    add_camera_arguments(parser)
    add_background_argument(parser)
    add_antialiased_argument(parser)
    add_device_argument(parser)
    parser.add_argument(
        "--sh-degree",
        type=int,
        choices=range(5),
        metavar="0-4",
        help="the highest degree of spherical harmonics to use; default: all that the scene has",
    )


def run(args: argparse.Namespace) -> int:
    """Render and write what was asked for.

    Returns 0, or 1 if the scene, the device or a file failed, or 130 if the frames of a path were interrupted.
    """
    start = time.perf_counter()
    _check_usage(args)
    try:
        if args.path is not None and is_video(args.output):
            require_encoder()
        scene = load_scene(args.scene, args.antialiased)
        device = find_device(args.device)
        if args.path is not None:
            return _render_path(args, scene, device, start)
        camera = find_view(args, scene, args.scene).camera
        size = f"{camera.width}x{camera.height}"
        with enough_memory(lambda: f"rendering {len(scene)} Gaussians at {size}", _remedy(args)):
            write_png(args.output, _render(args, scene.to(device), camera))
    except (SceneError, OSError, DeviceError) as error:
        print_error(error)
        return 1
    seconds = time.perf_counter() - start
    print_result(f"{len(scene)} Gaussians, {size}, {device.type}, {seconds:.2f} s: {args.output}")
    return 0


def _check_output(text: str) -> Path:
    """The file or folder to write to; ValueError or OSError if it cannot be written."""
    path = Path(text)
    if _is_picture(path):
        return check_picture(path)
    if is_video(path) or not path.suffix or text.endswith(("/", os.sep)) or path.is_dir():
        return check_moving_pictures(path)
    raise ValueError(
        f"the name must end in .png, or with --path in .mp4, or be a folder's, without an ending, found {text!r}"
    )


def _is_picture(path: Path) -> bool:
    return path.name.lower().endswith(_PICTURE)


def _check_usage(args: argparse.Namespace) -> None:
    """End the program with status 2 if options contradict each other."""
    check_path_arguments(args)
    picture = _is_picture(args.output)
    if args.path is None and not picture:
        args.wrong_usage(
            f"one picture is written as PNG, so the name must end in .png, found {str(args.output)!r}; "
            "--path makes moving pictures"
        )
    if args.path is not None and picture:
        args.wrong_usage(f"--path makes many pictures: name an .mp4 file or a folder, not {str(args.output)!r}")


def _render_path(args: argparse.Namespace, scene: Gaussians, device: torch.device, start: float) -> int:
    """Render the frames of a path and write them; return the exit status."""
    motion = find_motion(args, scene)
    if is_video(args.output):
        motion = even_sides(motion)
    facts = f"{motion.frames} frames of {motion.width}x{motion.height}"
    with enough_memory(lambda: f"rendering {facts}, {len(scene)} Gaussians,", _remedy(args)):
        there = scene.to(device)
        status = write_frames(args.output, motion, lambda camera: _render(args, there, camera))
    if status == 0:
        seconds = time.perf_counter() - start
        print_result(f"{len(scene)} Gaussians, {facts}, {device.type}, {seconds:.2f} s: {args.output}")
    return status


def _remedy(args: argparse.Namespace) -> str:
    """What needs less memory."""
    size = "a smaller --size" if args.camera is None else "a smaller size in the camera file"
    return f"choose {size}, or a scene of fewer Gaussians"


def _render(args: argparse.Namespace, scene: Gaussians, camera: Camera) -> torch.Tensor:
    """The picture [H, W, 3] of a camera."""
    degree = scene.degree if args.sh_degree is None else min(args.sh_degree, scene.degree)
    try_memory(image_bytes(1, camera.height, camera.width, 3) + GAUSSIAN_BYTES * len(scene), scene.means.device)
    background = scene.means.new_tensor([args.background])
    images, _, _ = rasterized(scene, camera, scene.sh, sh_degree=degree, backgrounds=background)
    return images[0]
