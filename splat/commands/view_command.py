"""The command `splat view`: look at scenes in a browser."""

from __future__ import annotations

import argparse
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch

from ..ops.checks import image_bytes
from ..photos.named_picture import find_picture, read_small
from ..scene.camera import Camera
from ..scene.formats import ENDINGS
from ..scene.gaussians import Gaussians, SceneError
from ..view.clicks import Click, Point, point_seen
from ..view.drawing import Look, Picture, draw
from ..view.open_page import UploadOptions, ViewerOptions
from ..view.origin import is_host_name, is_loopback
from ..view.scene_choices import LoadedScene, SceneChoices, find_scenes, loaded_scene
from ..view.server import ViewError, open_viewer
from .background_argument import add_background_argument
from .camera_arguments import (
    add_camera_arguments,
    check_camera_arguments,
    find_view,
    find_views,
)
from .command_files import add_antialiased_argument, load_scene
from .device import DeviceError, add_device_argument, find_device
from .interrupts import catch_interrupt
from .memory import GAUSSIAN_BYTES, available_memory, enough_memory, try_memory
from .port_argument import add_port_argument
from .printing import print_error, print_result, print_warning

PHOTOGRAPH_SIDE: Final = 640
"""Pixels of the longer side of a photograph on a page."""
_AT_ONCE: Final = 4
"""Photographs that are read at once, for all pages: each may take such a part of the memory."""
_UPLOAD: Final = 512 * 2**20
"""Bytes of a scene that a page may upload."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `view`."""
    parser.add_argument(
        "scenes",
        nargs="*",
        type=Path,
        metavar="SCENE",
        help=f"the scenes to choose from ({ENDINGS}), and folders of them; default: a built-in one",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address to listen on; default: 127.0.0.1, which only this machine can reach",
    )
    add_port_argument(parser, "the port")
    parser.add_argument(
        "--allow-name",
        action="append",
        default=[],
        type=_name,
        metavar="NAME",
        help="a name of this machine by which pages may reach it, besides IP addresses and localhost; may be repeated",
    )
    parser.add_argument("--open", action="store_true", help="open the page in this machine's browser")
    add_camera_arguments(parser)
    add_background_argument(parser)
    add_antialiased_argument(parser)
    add_device_argument(parser)
    parser.add_argument(
        "--photographs",
        type=Path,
        metavar="FOLDER",
        help="show the photographs that a scene was fitted to beside it; FOLDER has them by the names in the list of "
        "cameras beside the scene",
    )
    parser.add_argument(
        "--allow-upload",
        action="store_true",
        help=f"let pages upload scenes of up to {_UPLOAD >> 20} MB, which each page shows for itself",
    )
    parser.add_argument(
        "--sh-degree",
        type=int,
        choices=range(5),
        default=4,
        metavar="0-4",
        help="the highest degree of spherical harmonics to start with; default: all that the scene has",
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C; return 0, or 1 if a scene, the device or the address failed."""
    check_camera_arguments(args, beside=("up",))
    try:
        device = find_device(args.device)
        scenes = find_scenes(args.scenes)
        browser = _browser() if args.open else None
        choices = SceneChoices(
            scenes, lambda path: _read(args, path, device), lambda scene, path: find_views(args, scene, path)
        )
        photograph = _photographs(args.photographs) if args.photographs else None
        upload = UploadOptions(_UPLOAD, lambda path: _uploaded(args, path, device), available_memory)
        allowed = upload if args.allow_upload else None
        options = ViewerOptions(
            choices, draw_in_memory, args.background, args.sh_degree, measure_in_memory, photograph, allowed
        )
        with (
            catch_interrupt() as interrupted,
            open_viewer(args.host, args.port, options, next(iter(scenes)), args.allow_name) as viewer,
        ):
            print_result(f"{viewer.url} shows {len(scenes)} scene{'s'[: len(scenes) > 1]}; Ctrl-C ends it", flush=True)
            if not is_loopback(args.host):
                more = " and upload others" if args.allow_upload else ""
                print_warning(f"everybody who can reach {args.host} can see the scenes{more}")
            if browser is not None:
                browser.open(viewer.url)
            while not interrupted():
                time.sleep(0.1)
    except (SceneError, OSError, DeviceError, ViewError) as error:
        print_error(error)
        return 1
    return 0


def _read(args: argparse.Namespace, path: Path | None, device: torch.device) -> Gaussians:
    return load_scene(path, args.antialiased).to(device)


def _uploaded(args: argparse.Namespace, path: Path, device: torch.device) -> LoadedScene:
    scene = _read(args, path, device)
    return loaded_scene(scene, find_view(args, scene, path))


def draw_in_memory(look: Look, camera: Camera) -> Picture:
    """As `draw`, or NotEnoughMemory."""
    with _enough_memory(look, camera):
        return draw(look, camera)


def measure_in_memory(look: Look, camera: Camera, click: Click) -> Point | None:
    """As `point_seen`, or NotEnoughMemory."""
    with _enough_memory(look, camera):
        return point_seen(look, camera, click)


def _photographs(folder: Path) -> Callable[[str], Picture | None]:
    """Reads the photographs of a folder by their names."""
    if not folder.is_dir():
        raise NotADirectoryError(f"--photographs: a folder is required, found {str(folder)!r}")

    turns = threading.Semaphore(_AT_ONCE)

    def read(name: str) -> Picture | None:
        path = find_picture(folder, name)
        if path is None:
            return None
        with turns, enough_memory(lambda: f"reading the photograph {path}", "make it smaller first"):
            there = available_memory()
            return read_small(path, PHOTOGRAPH_SIDE, None if there is None else there // _AT_ONCE)

    return read


@contextmanager
def _enough_memory(look: Look, camera: Camera) -> Iterator[None]:
    count, size = len(look.scene), f"{camera.width}x{camera.height}"
    with enough_memory(
        lambda: f"drawing {count} Gaussians at {size}", "make the page smaller, or choose another scene"
    ):
        pixels = image_bytes(1, camera.height, camera.width, 3)
        try_memory(pixels + GAUSSIAN_BYTES * count, look.scene.means.device)
        yield


def _browser() -> webbrowser.BaseBrowser:
    try:
        return webbrowser.get()
    except webbrowser.Error as error:
        raise ViewError(
            "--open needs a browser, found none on this machine; leave it out, and open the printed address yourself"
        ) from error


def _name(text: str) -> str:
    if not is_host_name(text):
        raise argparse.ArgumentTypeError(f"a name such as desk.example, without a port, is required, found {text!r}")
    return text
