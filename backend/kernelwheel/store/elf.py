"""A check of ELF headers for a platform's shared libraries (System V ABI, "ELF Header")."""

from __future__ import annotations

import struct

HEADER = 64  # bytes, in the larger class
_SHARED = 3
# By the machine in a platform's name: class (1: 32 bits, 2: 64 bits), byte order (1: little, 2: big), machine number.
_MACHINES = {
    "aarch64": (2, 1, 183),
    "armv7l": (1, 1, 40),
    "i686": (1, 1, 3),
    "ppc64le": (2, 1, 21),
    "riscv64": (2, 1, 243),
    "s390x": (2, 2, 22),
    "x86_64": (2, 1, 62),
}


def is_library_for(platform: str, head: bytes) -> bool:
    """Whether a file that starts with `head` is a shared library for a platform such as `linux-x86_64`."""
    _, _, machine = platform.partition("-")
    if machine not in _MACHINES or len(head) < HEADER or head[:4] != b"\x7fELF":
        return False
    bits, order, number = _MACHINES[machine]
    kind, found = struct.unpack_from("<HH" if order == 1 else ">HH", head, 16)
    return (head[4], head[5], kind, found) == (bits, order, _SHARED, number)
