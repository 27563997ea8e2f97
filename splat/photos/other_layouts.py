"""What a folder without cameras seems to be, and what makes photographs with cameras of it: words for an error."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

_PICTURES: Final = (".jpg", ".jpeg", ".png", ".heic", ".tif", ".tiff", ".webp")
_VIDEOS: Final = (".mp4", ".mov", ".avi", ".mkv")
_MOST_ENTRIES: Final = 100_000
"""Of a folder, that are looked at."""
_NERFSTUDIO: Final = "Nerfstudio makes a transforms.json of it: ns-process-data"


def advice(path: Path) -> str:
    """What was found in a folder, and a command that makes cameras of it, if there is one."""
    for look in _LOOKS:
        if found := look(path):
            return found
    return "none, and no pictures"


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of a folder, not of those in it, by their names' endings."""
    return sorted(path for path in _entries(folder) if path.suffix.lower() in _PICTURES)


def _entries(folder: Path) -> list[Path]:
    return list(islice(folder.iterdir(), _MOST_ENTRIES)) if folder.is_dir() else []


def _with_ending(folder: Path, *endings: str) -> Path | None:
    return next((path for path in sorted(_entries(folder)) if path.suffix.lower() in endings), None)


def _word(path: Path | str) -> str:
    """A path as one word of a shell's command."""
    return shlex.quote(str(path))


def _inside(path: Path) -> str | None:
    for folder in sorted(_entries(path)):
        # As 3DGS's convert.py leaves it, too: its first model is in `distorted`, of the pictures in `input`.
        if (folder / "sparse").is_dir() or (folder / "transforms.json").is_file():
            pictures = f" --images {_word(path / 'input')}" if (path / "input").is_dir() else ""
            return f"some in {folder}: fit that one{pictures}"
    return None


def _polycam(path: Path) -> str | None:
    if not any((path / "keyframes" / name).is_dir() for name in ("cameras", "corrected_cameras")):
        return None
    return f"the raw data of Polycam. {_NERFSTUDIO} polycam --data {_word(path)} --output-dir FOLDER"


def _record3d(path: Path) -> str | None:
    if not ((path / "metadata.json").is_file() and any((path / name).is_dir() for name in ("rgb", "EXR_RGBD"))):
        return None
    return f"a capture of Record3D. {_NERFSTUDIO} record3d --data {_word(path)} --output-dir FOLDER"


def _opendronemap(path: Path) -> str | None:
    if not (path / "opensfm").is_dir():
        return None
    return f"a project of OpenDroneMap. {_NERFSTUDIO} odm --data {_word(path)} --output-dir FOLDER"


def _metashape(path: Path) -> str | None:
    file = _with_ending(path, ".xml")
    if file is None:
        return None
    return (
        f"{file.name}, perhaps the cameras of Metashape. {_NERFSTUDIO} metashape --data PICTURES --xml {_word(file)} "
        "--output-dir FOLDER"
    )


def _realitycapture(path: Path) -> str | None:
    file = _with_ending(path, ".csv")
    if file is None:
        return None
    return (
        f"{file.name}, perhaps the cameras of RealityCapture. Export them for COLMAP there, or {_NERFSTUDIO} "
        f"realitycapture --data PICTURES --csv {_word(file)} --output-dir FOLDER"
    )


def _llff(path: Path) -> str | None:
    if not (path / "poses_bounds.npy").is_file():
        return None
    return "poses_bounds.npy, which is not read: copy the model of COLMAP here that it was made of, its folder sparse"


def _database(path: Path) -> str | None:
    file = _with_ending(path, ".db")
    if file is None:
        return None
    return (
        f"{file.name}, perhaps COLMAP's database, which has no cameras yet: colmap mapper --database_path "
        f"{_word(file)} --image_path {_word(_picture_folder(path) or 'PICTURES')} "
        f"--output_path {_word(path / 'sparse')}"
    )


def _pictures(path: Path) -> str | None:
    folder = _picture_folder(path)
    if folder is None:
        return None
    return (
        f"{len(pictures_in(folder))} pictures without cameras. COLMAP computes cameras from pictures: colmap "
        f"automatic_reconstructor --image_path {_word(folder)} --workspace_path {_word(path)}; then "
        f"fit {_word(path / 'dense' / '0')}"
    )


def _video(path: Path) -> str | None:
    file = _with_ending(path, *_VIDEOS)
    return None if file is None else f"a video. {_NERFSTUDIO} video --data {_word(file)} --output-dir FOLDER"


def _picture_folder(path: Path) -> Path | None:
    return next((place for place in (path, path / "images", path / "input") if pictures_in(place)), None)


_LOOKS: Final[tuple[Callable[[Path], str | None], ...]] = (
    _inside, _polycam, _record3d, _opendronemap, _metashape, _realitycapture, _llff, _database, _pictures, _video,
)  # fmt: skip
