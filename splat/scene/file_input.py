"""Opening scene files that may be damaged or hostile, and leaving out Gaussians that nothing can be done with."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import torch

from .gaussians import Gaussians, SceneError

MOST_TIMES: Final = 100
"""A compressed scene may unpack to this many times the size of its file,"""
ALWAYS_ALLOWED: Final = 2**26
"""or to this many bytes, whichever is more."""


class LeftOutWarning(UserWarning):
    """Gaussians of a scene were left out."""

    def __init__(self, path: Path, left_out: int, total: int) -> None:
        super().__init__(
            f"{path}: left out {left_out} of {total} Gaussians, which have a NaN, an infinity or a rotation of length 0"
        )
        self.left_out = left_out


@contextmanager
def scene_file(path: Path) -> Iterator[BinaryIO]:
    """A seekable file; a SceneError of the block gets its name in front. OSError if it cannot be opened."""
    with path.open("rb") as file:
        try:
            if not file.seekable():  # its size would be unknown
                raise SceneError("a regular file is required, found a pipe or similar; save it to a file first")
            yield file
        except SceneError as error:
            raise SceneError(f"{path}: {error}") from error.__cause__


def bytes_left(file: BinaryIO) -> int:
    """How many bytes follow the position of a seekable file."""
    position = file.tell()
    left = file.seek(0, io.SEEK_END) - position
    file.seek(position)
    return left


def check_unpacked_size(needed: int, size: int) -> None:
    """Raise SceneError if a file of `size` bytes claims to unpack to far more; called before memory is allocated."""
    most = max(MOST_TIMES * size, ALWAYS_ALLOWED)
    if needed > most:
        raise SceneError(
            f"the header says that {needed} bytes are packed into the {size} of the file, more than {MOST_TIMES} times "
            "as many: it is damaged"
        )


def usable(scene: Gaussians, path: Path) -> Gaussians:
    """Those Gaussians that are finite and have a rotation; a LeftOutWarning counts the others."""
    valid = (scene.quats != 0).any(dim=1)
    for value in vars(scene).values():
        others = tuple(range(1, value.ndim))
        valid &= torch.isfinite(value).all(dim=others) if others else torch.isfinite(value)
    left_out = len(scene) - int(valid.sum())
    if not left_out:
        return scene
    warnings.warn(LeftOutWarning(path, left_out, len(scene)), stacklevel=3)
    return scene.select(valid)
