"""Files: checks that tell one that does not exist from one that this user cannot access, and digests.

Everything here is identified by sha256, of files and of JSON values.
"""

from __future__ import annotations

import errno
import hashlib
import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from io import BufferedIOBase, RawIOBase

_BLOCK = 1 << 17  # bytes read at a time into the same memory: fresh memory takes longer than the digest
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def is_file(path: Path) -> bool:
    """Whether a file exists. From Python 3.14 on, `Path.is_file` returns False even if it cannot know."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a folder exists; raises as `is_file`."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # it leads nowhere
            return 0
        raise


def stream_sha256(stream: RawIOBase | BufferedIOBase) -> str:
    """The sha256 of the rest of an open file, in hex."""
    digest = hashlib.sha256()
    block = memoryview(bytearray(_BLOCK))
    while size := stream.readinto(block):
        digest.update(block[:size])
    return digest.hexdigest()


def json_sha256(value: Any) -> str:
    """The sha256 of a JSON value's canonical form: sorted keys, no white space, ASCII."""
    return hashlib.sha256(_CANONICAL.encode(value).encode("ascii")).hexdigest()
