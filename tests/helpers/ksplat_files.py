"""Files of .ksplat, made by hand."""

from __future__ import annotations

import struct
from typing import NamedTuple


class KsplatPart(NamedTuple):
    """A section: its Gaussians, by the number of the bucket that each is in."""

    buckets: list[int]
    degree: int = 0
    room: int | None = None
    full: int = 0
    """Of the buckets, those that have the usual number of Gaussians, which come first,"""
    bucket_size: int = 2
    """and that number."""
    steps: int = 0
    """Of half a side of a bucket; 0 for the usual ones."""


CENTRES = [(10.0, 20.0, 30.0), (-10.0, 0.0, 0.0), (0.0, 0.0, 5.0)]
BLOCK = 4.0
POSITIONS = [(32767, 0, 65534), (0, 32767, 32767)]
"""Of the first Gaussian and of all others: the middle, one end and the other of a side of 4."""
HARMONICS = 24


def ksplat_file(level: int, parts: list[KsplatPart], **changes: int) -> bytes:
    """A file of a compression level; `changes` are other numbers for its header."""
    count = sum(len(part.buckets) for part in parts)
    said = {"sections": len(parts), "gaussians": count, "said_level": level, **changes}
    numbers = (0, 1, said["sections"], len(parts), count, said["gaussians"], said["said_level"])
    head = struct.pack("<BBxxIIIIH14xff", *numbers, -2, 2).ljust(4096, b"\0")
    headers = b"".join(_section_header(level, part) for part in parts)
    return head + headers + b"".join(_section(level, part) for part in parts)


def _section_header(level: int, part: KsplatPart) -> bytes:
    number = len(CENTRES) if level else 0
    count = len(part.buckets)
    full, partial = (part.full, number - part.full) if level else (0, 0)
    room = count if part.room is None else part.room
    head = struct.pack("<IIIIfHxx", count, room, part.bucket_size, number, BLOCK, 12 if level else 0)
    return (head + struct.pack("<IIIIH", part.steps, 0, full, partial, part.degree)).ljust(1024, b"\0")


def _section(level: int, part: KsplatPart) -> bytes:
    data = b""
    if level:
        lengths = [part.buckets.count(number) for number in range(part.full, len(CENTRES))]
        data += struct.pack(f"<{len(lengths)}I", *lengths) + b"".join(struct.pack("<3f", *at) for at in CENTRES)
    for index, _ in enumerate(part.buckets):
        data += _gaussian(level, part.degree, POSITIONS[min(index, 1)])
    return data


def _gaussian(level: int, degree: int, position: tuple[int, int, int]) -> bytes:
    number = 3 * ((degree + 1) ** 2 - 1)
    harmonics = [index / 64 for index in range(number)]
    kind = "e" if level else "f"
    data = struct.pack("<3H", *position) if level else struct.pack("<3f", *(value / 1000 for value in position))
    data += struct.pack(f"<3{kind}4{kind}", 0.5, 0.25, -2, 0, 0.5, -0.5, 1) + bytes([0, 51, 255, 102])
    if level == 2:
        return data + bytes(range(number))
    return data + struct.pack(f"<{number}{kind}", *harmonics)
