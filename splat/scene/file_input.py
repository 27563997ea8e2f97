"""Opening files that may be damaged or hostile, and leaving out Gaussians that cannot be drawn."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

import torch

from .gaussians import Gaussians, SceneError
from .names import quoted

MOST_TIMES: Final = 100
"""A compressed scene may unpack to this many times the size of its file,"""
ALWAYS_ALLOWED: Final = 2**26
"""or to this many bytes, whichever is more."""

_SQUARED: Final = (1e-10, 1e15)
"""Numbers that float32 squares without much of an error, and `normalize` divides by their length."""
_LARGE: Final = 2**20
"""So many bytes may be asked of a file without a look at its size."""
_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_WEB_PAGES: Final = (b"<!doctype html", b"<html")
_LOOKED_AT: Final = 256
"""Bytes of a file, to tell what stands in its place."""


class LeftOutWarning(UserWarning):
    """Gaussians of a scene were left out."""

    def __init__(self, path: Path, left_out: int, total: int) -> None:
        super().__init__(
            f"{path}: left out {left_out} of {total} Gaussians, which have a NaN, an infinity or a rotation of length 0"
        )
        self.left_out = left_out


@contextmanager
def opened_file(path: Path) -> Iterator[BinaryIO]:
    """A regular file, to read from: whatever is read from outside is opened here.

    Raises SceneError if it is a pipe, a socket or a device, or not the file itself, OSError if it cannot be opened.
    """
    _check_regular(path, path.stat())  # before opening, since some devices do something then
    with _InputFile(io.FileIO(path, opener=_open_without_waiting)) as file:
        _check_regular(path, os.fstat(file.fileno()))
        _check_itself(path, file.read(_LOOKED_AT))
        file.seek(0)
        yield file


class _InputFile(io.BufferedReader):
    """A file that makes no room for more than it has: Python itself makes room for whatever a header asks for."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LARGE:
            size = min(size, bytes_left(self))
        return super().read(size)


def _open_without_waiting(name: str, flags: int) -> int:
    if sys.platform == "win32":
        return os.open(name, flags)
    # What has become a pipe meanwhile would be waited for, and a terminal would become this program's.
    return os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _check_regular(path: Path, found: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        words = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}.get(kind, "a device")
        raise SceneError(f"{path}: a regular file is required, found {words}; save it to a file first")


def _check_itself(path: Path, start: bytes) -> None:
    """SceneError if this is what clones and downloads leave in a file's place."""
    if start.startswith(_LFS_POINTER):
        raise SceneError(
            f"{path}: the file itself is required, found a pointer of Git LFS to it; to fix: git lfs pull, in its clone"
        )
    if start.lstrip().lower().startswith(_WEB_PAGES):
        raise SceneError(
            f"{path}: the file itself is required, found a web page, perhaps the one that shows it; download the raw "
            "file"
        )


@contextmanager
def scene_file(path: Path) -> Iterator[BinaryIO]:
    """The same; a SceneError of the block gets the file's name in front."""
    with opened_file(path) as file, named_errors(path):
        yield file


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """A SceneError of the block gets the file's name in front."""
    try:
        yield
    except SceneError as error:
        raise SceneError(f"{path}: {error}") from error.__cause__


def path_inside(folder: Path, name: object, what: str) -> Path:
    """A file that another one names, as it is called once links are followed; SceneError if that is not in the folder.

    `what` says in messages whose name is required.
    """
    try:
        # A drive of Windows may be another machine, which would be asked.
        path = (folder / ("" if Path(str(name)).drive else str(name))).resolve()
        inside = isinstance(name, str) and path.is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a name that no file can have, or links in a circle
        inside = False
    if not inside:
        raise SceneError(f"the name of {what} inside {folder} is required, found {quoted(str(name)[:80])!r}")
    return path


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
    """Those Gaussians that are finite and have a rotation; a LeftOutWarning counts the others.

    Quaternions whose length float32 cannot square become unit ones.
    """
    largest = scene.quats.abs().amax(dim=1, keepdim=True)
    squares = ((largest > _SQUARED[0]) & (largest < _SQUARED[1])) | (largest == 0) | ~torch.isfinite(largest)
    if not squares.all():
        unit = torch.nn.functional.normalize(scene.quats / largest, dim=1)
        scene = replace(scene, quats=torch.where(squares, scene.quats, unit))
    valid = (scene.quats != 0).any(dim=1)
    for value in scene.tensors:
        # Only where the sum is not finite are the numbers themselves looked at, which takes as much memory as they do.
        rows = value.flatten(1) if value.ndim > 1 else value[:, None]
        doubtful = (~torch.isfinite(rows.sum(dim=1))).nonzero().flatten()
        valid[doubtful] &= torch.isfinite(rows[doubtful]).all(dim=1)
    left_out = len(scene) - int(valid.sum())
    if not left_out:
        return scene
    warnings.warn(LeftOutWarning(path, left_out, len(scene)), stacklevel=3)
    return scene.select(valid)
