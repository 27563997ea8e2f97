"""The command `python -m splat render`: render one picture of a scene."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from ..ops.checks import image_bytes
from ..ops.rendering import rasterization
from ..scene.camera import Camera
from ..scene.formats import ENDINGS
from ..scene.gaussians import Gaussians, SceneError
from ..scene.image import check_picture, write_png
from .camera_arguments import (
    add_background_argument,
    add_camera_arguments,
    add_size_argument,
    check_camera_arguments,
    find_view,
)
from .command_files import file_argument, load_scene
from .device import DeviceError, add_device_argument, find_device
from .memory import GAUSSIAN_BYTES, enough_memory, try_memory
from .printing import print_error, print_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `render`."""
    parser.add_argument(
        "scene",
        nargs="?",
        type=Path,
        metavar="SCENE",
        help=f"the scene to render ({ENDINGS}); default: a built-in one",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=file_argument(check_picture),
        required=True,
        metavar="OUT.png",
        help="the file to write the picture to",
    )
    add_size_argument(parser)
    add_camera_arguments(parser)
    add_background_argument(parser)
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
    check_camera_arguments(args)
    try:
        scene = load_scene(args.scene)
        device = find_device(args.device)
        camera = find_view(args, scene, args.scene).camera
        size = f"{camera.width}x{camera.height}"
        degree = scene.degree if args.sh_degree is None else min(args.sh_degree, scene.degree)
        with enough_memory(
            lambda: f"rendering {len(scene)} Gaussians at {size}",
            f"choose a smaller {'--size' if args.camera is None else 'size in the camera file'}, "
            "or a scene of fewer Gaussians",
        ):
            image = _render(scene.to(device), camera, args.background, degree)
            write_png(args.output, image)
    except (SceneError, OSError, DeviceError) as error:
        print_error(error)
        return 1
    seconds = time.perf_counter() - start
    print_result(f"{len(scene)} Gaussians, {size}, {device.type}, {seconds:.2f} s: {args.output}")
    return 0


def _render(scene: Gaussians, camera: Camera, background: tuple[float, float, float], degree: int) -> torch.Tensor:
    width, height = camera.width, camera.height
    device = scene.means.device
    try_memory(image_bytes(1, height, width, 3) + GAUSSIAN_BYTES * len(scene), device)
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
            backgrounds=torch.tensor([background], dtype=torch.float32, device=device),
        )
    return images[0]
