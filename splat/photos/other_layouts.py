"""What a folder without cameras seems to be, and what makes photographs with cameras of it: words for an error."""

from __future__ import annotations

import shlex
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Final

PICTURES: Final = (".jpg", ".jpeg", ".png", ".heic", ".tif", ".tiff", ".webp")
_MOST_ENTRIES: Final = 100_000
"""Of a folder, that are looked at."""
_MOST_FOLDERS: Final = 100
"""Of a folder, that are looked into."""
_USUAL: Final = ("images", "input", "color", "rgb")
_OTHERS: Final = ("depth", "mask", "label", "instance", "semantic", "normal", "confidence")
"""What is in a folder's name whose pictures are not photographs."""
_NERFSTUDIO: Final = "Nerfstudio makes a transforms.json of it: ns-process-data"
_KINDS: Final = (
    (("keyframes/cameras", "keyframes/corrected_cameras"), "the raw data of Polycam", "polycam --data {folder}"),
    (("metadata.json",), "perhaps a capture of Record3D", "record3d --data {folder}"),
    (("opensfm",), "a project of OpenDroneMap", "odm --data {folder}"),
    ((".xml",), "{name}, perhaps the cameras of Metashape", "metashape --data PICTURES --xml {found}"),
    ((".csv",), "{name}, perhaps the cameras of RealityCapture", "realitycapture --data PICTURES --csv {found}"),
    ((".mp4", ".mov", ".avi", ".mkv"), "a video", "video --data {found}"),
)
"""Files, folders or endings that tell a kind, its name, and what Nerfstudio's tool is told."""


def advice(path: Path) -> str:
    """What was found in a folder, and a command that makes cameras of it, if there is one."""
    if (path / "poses_bounds.npy").is_file():
        return (
            "poses_bounds.npy, which is not read: copy the model of COLMAP here that it was made of, its folder sparse"
        )
    pictures = picture_folder(path)
    for signs, name, command in _KINDS:
        found = next((place for sign in signs if (place := _found(path, sign))), None)
        if found is not None:
            words = command.format(folder=shell_word(path), found=shell_word(found))
            return f"{name.format(name=found.name)}. {_NERFSTUDIO} {words} --output-dir FOLDER"
    if database := _found(path, ".db"):
        return (
            f"{database.name}, perhaps COLMAP's database, which has no cameras yet: colmap mapper --database_path "
            f"{shell_word(database)} --image_path {shell_word(pictures or 'PICTURES')} --output_path "
            f"{shell_word(path / 'sparse')}"
        )
    if pictures:
        return (
            f"{len(pictures_in(pictures))} pictures without cameras. COLMAP computes cameras from pictures: colmap "
            f"automatic_reconstructor --image_path {shell_word(pictures)} --workspace_path {shell_word(path)}; then "
            f"fit {shell_word(path)}"
        )
    return "none, and no pictures"


def picture_folder(path: Path) -> Path | None:
    """The folder that seems to have the pictures: the given one, or that of those in it which has most; None if none.

    ScanNet calls it color, others rgb or frames; depths and masks have as many.
    """
    if pictures_in(path):
        return path
    folders = [place for place in islice(entries(path), _MOST_FOLDERS) if place.is_dir() and not place.is_symlink()]
    likely = [place for place in folders if not any(word in place.name.lower() for word in _OTHERS)]
    counts = {place: (place.name in _USUAL, count) for place in likely if (count := len(pictures_in(place)))}
    return max(counts, key=lambda place: counts[place], default=None)


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of a folder, not of those in it, by their names' endings."""
    return [path for path in entries(folder) if path.suffix.lower() in PICTURES]


def entries(folder: Path) -> list[Path]:
    """What is in a folder, in order; not what is hidden, and macOS's `._*` for each file it copies."""
    found = islice(folder.iterdir(), _MOST_ENTRIES) if folder.is_dir() else ()
    return sorted(path for path in found if path.name[0] != "." and path.name != "__MACOSX")


def _found(folder: Path, sign: str) -> Path | None:
    if not sign.startswith("."):
        return folder / sign if (folder / sign).exists() else None
    return next((path for path in entries(folder) if path.suffix.lower() == sign), None)


def shell_word(path: Path | str) -> str:
    """A path as one word of a shell's command."""
    return subprocess.list2cmdline([str(path)]) if sys.platform == "win32" else shlex.quote(str(path))
