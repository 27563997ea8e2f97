"""The files of commands: options that name them, and reading and writing scenes with warnings printed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..scene.builtin import knot_scene
from ..scene.formats import losses_of, read_scene, write_scene, written_suffix
from ..scene.gaussians import Gaussians
from ..scene.scene_folders import scene_in
from .memory import enough_memory
from .printing import print_warning
from .warnings_printed import printed_warnings


def file_argument(check: Callable[[str], Path]) -> Callable[[str], Path]:
    """The type of an option that names a file to write; `check` raises ValueError or OSError if it cannot be."""

    def checked(text: str) -> Path:
        try:
            return check(text)
        except (ValueError, OSError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


def scene_argument(text: str) -> Path:
    """The type of an argument that names a scene: its file, or a folder that stands for one."""
    path = Path(text)
    try:
        return (scene_in(path) if path.is_dir() else None) or path
    except OSError:  # reading it says why
        return path


def add_antialiased_argument(parser: argparse.ArgumentParser) -> None:
    """Declare --antialiased and --no-antialiased."""
    parser.add_argument(
        "--antialiased",
        action=argparse.BooleanOptionalAction,
        help="whether the scene was fitted to be drawn antialiased, whatever its file says; default: as the file says",
    )


def load_scene(path: Path | None, antialiased: bool | None = None) -> Gaussians:
    """The scene of a file, on the CPU; the built-in one for None. Warnings are printed.

    `antialiased` says how it is to be drawn, whatever its file says.

    Raises:
        NotEnoughMemory: if it does not fit in memory.
        SceneError, OSError: as `read_scene`.
    """
    with (
        enough_memory(lambda: f"reading {path or 'the built-in scene'}", "choose a scene of fewer Gaussians"),
        printed_warnings(),
    ):
        scene = read_scene(path) if path else knot_scene()
        return scene if antialiased is None else replace(scene, antialiased=antialiased)


def save_scene(path: Path, scene: Gaussians) -> None:
    """Write a scene in the format of the name's ending, and print what it cannot hold. Raises as `write_scene`."""
    with printed_warnings():
        write_scene(path, scene)
        for loss in losses_of(written_suffix(path), scene):
            print_warning(f"{path}: {loss}")
