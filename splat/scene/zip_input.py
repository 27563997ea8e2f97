"""Opening ZIP archives that may be damaged or hostile: zipfile makes objects of the whole directory of one."""

from __future__ import annotations

import zipfile
from typing import IO, Any, BinaryIO, Final, cast

from .file_input import bytes_left
from .gaussians import SceneError
from .names import quoted

MOST: Final = 2**16
"""Bytes of a directory; that of 8 names has 500. Each takes about ten bytes of memory."""


class _Bounded:
    """A file of which little is read at a time, as long as that is asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.bounded = file, True

    def read(self, size: int = -1) -> bytes:
        if self.bounded and size > MOST:
            raise SceneError(f"an archive with a directory of at most {MOST} bytes is required, found a larger one")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def opened_zip(file: BinaryIO, what: str) -> zipfile.ZipFile:
    """The archive in a file. SceneError if it is none, or large for its names: `what` says what is required."""
    bounded = _Bounded(file)
    size = bytes_left(file)
    try:
        archive = zipfile.ZipFile(cast(IO[bytes], bounded))
    except SceneError:
        raise
    except Exception as error:  # zipfile has no common error class for damaged files
        found = quoted(str(error)) if size else "nothing"
        raise SceneError(f"{what} is required, found {found}") from error
    bounded.bounded = False
    return archive
