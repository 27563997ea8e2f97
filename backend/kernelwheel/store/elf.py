"""A check of ELF headers for a platform's shared libraries (System V ABI, "ELF Header")."""

from __future__ import annotations

import struct

from ..core.platforms import PLATFORMS

HEADER = 64  # bytes, in the larger class
_SHARED = 3


def is_library_for(platform: str, head: bytes) -> bool:
    """Whether a file that starts with `head` is a shared library for a platform such as `linux-x86_64`."""
    known = PLATFORMS.get(platform)
    if known is None or len(head) < HEADER or head[:4] != b"\x7fELF":
        return False
    bits, order, number = known.elf
    kind, found = struct.unpack_from("<HH" if order == 1 else ">HH", head, 16)
    return (head[4], head[5], kind, found) == (bits, order, _SHARED, number)
