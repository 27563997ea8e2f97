"""The file formats of scenes, by the ending of the file's path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from .compressed_ply_writer import compressed_losses, write_compressed
from .file_input import opened_file, usable
from .file_output import check_writable
from .gaussians import Gaussians, SceneError
from .gltf_file import describe_gltf, read_gltf
from .gltf_writer import gltf_losses, write_glb, write_gltf
from .ksplat_file import ksplat_header, read_ksplat
from .ply import ply_kind, read_ply
from .ply_writer import write_ply
from .sog_file import read_sog, sog_version
from .sog_meta import META
from .sog_writer import sog_losses, write_sog
from .splat_file import read_splat, splat_losses, write_splat
from .spz import read_spz, spz_header, write_spz
from .spz_values import spz_losses
from .streamed_sog import LOD_META, read_streamed, streamed_levels


class SceneFormat(NamedTuple):
    """How files of one format are read."""

    describe: Callable[[Path], str]
    """The format and the version of a file, from its header."""
    read: Callable[[Path], Gaussians]
    alone: bool = True
    """Whether the file is all of the scene, and does not name others beside it."""


class SceneWriter(NamedTuple):
    """How files of one format are written."""

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


def _describe_ksplat(path: Path) -> str:
    header = ksplat_header(path)
    return f".ksplat version {header.major}.{header.minor}, compression level {header.level}"


def _describe_streamed(path: Path) -> str:
    return f"streamed SOG, the finest of {streamed_levels(path)} levels of detail"


# Longer endings first: `.compressed.ply` ends in `.ply` too.
FORMATS: Final = {
    ".compressed.ply": SceneFormat(ply_kind, read_ply),
    ".ply": SceneFormat(ply_kind, read_ply),
    ".splat": SceneFormat(lambda path: ".splat", read_splat),
    ".ksplat": SceneFormat(_describe_ksplat, read_ksplat),
    ".sog": SceneFormat(lambda path: f".sog version {sog_version(path)}", read_sog),
    ".spz": SceneFormat(_describe_spz, read_spz),
    ".glb": SceneFormat(describe_gltf, read_gltf),
    ".gltf": SceneFormat(describe_gltf, read_gltf, alone=False),
    f"/{LOD_META}": SceneFormat(_describe_streamed, read_streamed, alone=False),
    f"/{META}": SceneFormat(lambda path: f".sog version {sog_version(path)}, unpacked", read_sog, alone=False),
}
WRITERS: Final = {
    ".compressed.ply": SceneWriter(write_compressed, 3, compressed_losses),
    ".ply": SceneWriter(write_ply, 4, _no_losses),
    ".splat": SceneWriter(write_splat, 0, splat_losses),
    ".sog": SceneWriter(write_sog, 3, sog_losses),
    ".spz": SceneWriter(write_spz, 4, spz_losses),
    ".glb": SceneWriter(write_glb, 3, gltf_losses),
    ".gltf": SceneWriter(write_gltf, 3, gltf_losses),
}
ENDINGS: Final = ", ".join(FORMATS)
WRITTEN_ENDINGS: Final = ", ".join(WRITERS)


def suffix_of(path: Path) -> str:
    """The ending of a scene's name, in small letters; SceneError if no format has it."""
    return _ending(path, FORMATS, "a scene")


def written_suffix(path: Path) -> str:
    """The same of a scene that is written: not all formats are."""
    return _ending(path, WRITERS, "a scene to write")


def _ending(path: Path, endings: Iterable[str], what: str) -> str:
    for suffix in endings:
        if _ends_in(path, suffix):
            return suffix
    raise SceneError(f"{path}: the name of {what} must end in one of {', '.join(endings)}")


def is_scene(path: Path) -> bool:
    """Whether a format has this ending."""
    return any(_ends_in(path, suffix) for suffix in FORMATS)


def _ends_in(path: Path, suffix: str) -> bool:
    return f"/{path.name}".lower().endswith(suffix)


def read_scene(path: str | Path) -> Gaussians:
    """Read the Gaussians of a file of any format, on the CPU; warnings say what is left out or not used.

    Raises:
        SceneError: if the file is damaged, or its name has none of the endings.
        OSError: if it cannot be opened.
    """
    path = Path(path)
    if path.is_dir():
        found = sum(is_scene(each) for each in path.iterdir())
        raise IsADirectoryError(
            f"{path}: the file of a scene is required, or a folder with one scene or of 3DGS's training, found a "
            f"folder with {found} scenes; name one"
        )
    with opened_file(path):  # a file that is missing is missing, whatever its name ends in
        pass
    scene = FORMATS[suffix_of(path)].read(path)
    return scene.placed(scene.coordinates)


def check_scene_output(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_scene` would because of the name, before any work is done."""
    path = Path(path)
    return check_writable(path, written_suffix(path), "scenes")


def losses_of(suffix: str, scene: Gaussians) -> list[str]:
    """What a file with this ending cannot hold of a scene, beyond its precision, a phrase each."""
    losses = WRITERS[suffix].losses(scene)
    if scene.up not in (None, "-y") and not suffix.endswith(".ply"):
        losses.append(f"that {scene.up} is up is dropped; `splat convert --up {scene.up}` turns the scene as most are")
    return losses


def write_scene(path: str | Path, scene: Gaussians) -> None:
    """Write a scene in the format of the name's ending; `losses_of` says what is lost.

    The file appears complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not fit or the format cannot hold the scene, OSError if it cannot be written.
    """
    path = check_scene_output(path)
    WRITERS[written_suffix(path)].write(path, usable(scene, path))
