"""The file formats of scenes, by the ending of the file's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from .compressed_ply_writer import compressed_losses, write_compressed
from .file_input import opened_file, usable
from .file_output import check_writable
from .gaussians import Gaussians, SceneError
from .ply import ply_kind, read_ply
from .ply_writer import write_ply
from .sog_file import read_sog, sog_version
from .sog_writer import sog_losses, write_sog
from .splat_file import read_splat, splat_losses, write_splat
from .spz import read_spz, spz_header, write_spz
from .spz_values import spz_losses


class SceneFormat(NamedTuple):
    """What can be done with files of one format."""

    describe: Callable[[Path], str]
    """The format and the version of a file, from its header."""
    read: Callable[[Path], Gaussians]
    write: Callable[[Path, Gaussians], None]
    max_degree: int
    """The highest degree of spherical harmonics."""
    losses: Callable[[Gaussians], list[str]]
    """What it cannot hold of a scene, beyond its precision, a phrase each."""


def _no_losses(scene: Gaussians) -> list[str]:
    return []


def _describe_spz(path: Path) -> str:
    header = spz_header(path)
    steps = "half precision" if header.version == 1 else f"steps of 1/{2**header.fractional_bits}"
    return f".spz version {header.version}, centres in {steps}"


# Longer endings first: `.compressed.ply` ends in `.ply` too.
FORMATS: Final = {
    ".compressed.ply": SceneFormat(ply_kind, read_ply, write_compressed, 3, compressed_losses),
    ".ply": SceneFormat(ply_kind, read_ply, write_ply, 4, _no_losses),
    ".splat": SceneFormat(lambda path: ".splat", read_splat, write_splat, 0, splat_losses),
    ".sog": SceneFormat(lambda path: f".sog version {sog_version(path)}", read_sog, write_sog, 3, sog_losses),
    ".spz": SceneFormat(_describe_spz, read_spz, write_spz, 4, spz_losses),
}
ENDINGS: Final = ", ".join(FORMATS)


def suffix_of(path: Path) -> str:
    """The ending of a scene's name, in small letters; SceneError if no format has it."""
    name = path.name.lower()
    for suffix in FORMATS:
        if name.endswith(suffix):
            return suffix
    raise SceneError(f"{path}: the name of a scene must end in one of {ENDINGS}")


def read_scene(path: str | Path) -> Gaussians:
    """Read the Gaussians of a file of any format, on the CPU; warnings say what is left out or not used.

    Raises:
        SceneError: if the file is damaged, or its name has none of the endings.
        OSError: if it cannot be opened.
    """
    path = Path(path)
    with opened_file(path):  # a file that is missing is missing, whatever its name ends in
        pass
    return FORMATS[suffix_of(path)].read(path)


def check_scene_output(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_scene` would because of the name, before any work is done."""
    path = Path(path)
    return check_writable(path, suffix_of(path), "scenes")


def losses_of(suffix: str, scene: Gaussians) -> list[str]:
    """What a file with this ending cannot hold of a scene, beyond its precision, a phrase each."""
    return FORMATS[suffix].losses(scene)


def write_scene(path: str | Path, scene: Gaussians) -> None:
    """Write a scene in the format of the name's ending; `losses_of` says what is lost.

    The file appears complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not fit or the format cannot hold the scene, OSError if it cannot be written.
    """
    path = check_scene_output(path)
    FORMATS[suffix_of(path)].write(path, usable(scene, path))
