"""Writing files that either appear complete or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def check_writable(path: str | Path, suffix: str, what: str) -> Path:
    """Raise ValueError or OSError if the file cannot be written, before any work is done for it.

    `what` names, in the plural, what such files hold, as in "pictures are written as PNG".
    """
    path = Path(path)
    if not path.name.lower().endswith(suffix) or path.name.lower() == suffix:
        kind = suffix[1:].upper()
        raise ValueError(f"{what} are written as {kind}, so the name must end in {suffix}, found {str(path)!r}")
    if path.is_dir():
        raise IsADirectoryError(f"a file name is required, found the folder {str(path)!r}")
    if path.exists() and not path.is_file():  # it would be replaced, and whoever reads from it wait for ever
        raise FileExistsError(f"a file that can be replaced is required, found a pipe or a device at {str(path)!r}")
    _check_parent(path)
    return path


def check_new_folder(path: str | Path) -> Path:
    """Raise OSError if files cannot be written to a folder of their own, before any work is done for them."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"a folder is required, found the file {str(path)!r}")
    if path.is_dir() and any(path.iterdir()):
        raise FileExistsError(f"a new folder or an empty one is required, found {str(path)!r}, which has files")
    _check_parent(path)
    return path


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {str(path.parent)!r} for {path.name!r} must exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"the folder {str(path.parent)!r} for {path.name!r} must be writable; it is not")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` when the block ends without an error; OSErrors name `path`."""
    # In the same folder, since a rename is atomic only within a file system; not made by tempfile, which would make the
    # file readable by its owner only.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        file = temporary.open("xb")  # "x": in a shared folder, never follow a link that somebody else put there
        try:
            with file:
                yield file
            temporary.replace(path)  # what is open has no other name on Windows
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.filename is None and error.errno is not None:  # a full disk, or a quota
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
