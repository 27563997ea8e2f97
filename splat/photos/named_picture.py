"""Finding a photograph in a folder by a name that a file or a page gives, and reading it small."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..scene.gaussians import SceneError
from .pictures import Bytes, check_unpacking, picture_header, read_resized

_ENDINGS: Final = ("", *(ending for small in (".jpg", ".jpeg", ".png", ".webp") for ending in (small, small.upper())))
"""3DGS's own training writes names without the ending."""


def find_picture(folder: Path, name: str) -> Path | None:
    """The picture of this name in a folder or those in it, with or without its ending; None if there is none.

    What lies outside of the folder is not there, whichever way the name or a link leads to it.
    """
    if not name or "\0" in name or Path(name).drive:  # of Windows: it may be another machine, which would be asked
        return None
    inside = folder.resolve()
    for ending in _ENDINGS:
        try:
            path = (inside / f"{name}{ending}").resolve()
            if path.is_relative_to(inside) and path.is_file():
                return path
        except (OSError, ValueError, RuntimeError):  # a name that no file can have, or links in a circle
            continue
    return None


def read_small(path: Path, most: int, memory: int | None = None) -> Bytes:
    """A picture [H, W, 3], turned as its EXIF says, its longer side at most `most` pixels.

    Raises SceneError if it is none, damaged, or takes more than `memory`, in bytes, if known; OSError if it cannot be
    opened.
    """
    width, height = picture_header(path).shown_size
    if min(width, height) < 1:
        raise SceneError(f"{path}: a picture with pixels is required, found one of {width}x{height}")
    scale = min(1.0, most / max(width, height))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    check_unpacking(path, size, memory)
    return read_resized(path, size, turned=True).colors
