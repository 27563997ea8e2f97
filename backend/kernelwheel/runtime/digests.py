"""The sha256 digests of files and JSON values, by which everything here is identified."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a Protocol takes longer to make than the rest of this module
    from typing import Protocol

    class Stream(Protocol):
        """An open binary file or archive member."""

        def readinto(self, buffer: memoryview, /) -> int | None:
            """Read into the buffer; return how many bytes, 0 at the end."""


_BLOCK = 1 << 17  # bytes read at a time into the same memory: fresh memory takes longer than the digest
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return stream_sha256(stream)


def stream_sha256(stream: Stream) -> str:
    """The sha256 of the rest of an open file, in hex."""
    digest = hashlib.sha256()
    block = memoryview(bytearray(_BLOCK))
    while size := stream.readinto(block):
        digest.update(block[:size])
    return digest.hexdigest()


def json_sha256(value: Any) -> str:
    """The sha256 of a JSON value's canonical form: sorted keys, no white space, ASCII."""
    return hashlib.sha256(_CANONICAL.encode(value).encode("ascii")).hexdigest()
