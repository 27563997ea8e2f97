"""The memory and work that unpacking a picture takes, found beforehand: a small file can ask for much of both."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import IO, Final

from PIL import Image

from ..scene.gaussians import SceneError

MOST_SCANS: Final = 100
"""Of a JPEG: each takes as long as a picture. Usual ones have up to 12."""
_PIXEL_BYTES: Final = 32
"""Of memory that a pixel takes while a picture is unpacked: 6 to 30, measured for each format."""
_SCANNED_BYTES: Final = 8
"""Of memory that a pixel of a JPEG of several scans takes besides, however small the picture is made."""

_MOST_SEGMENTS: Final = 10_000
_MARKER: Final = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")
"""Of what has a length; scans have the others in them."""
_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_PART: Final = 2**16

# Of a TIFF and a BigTIFF: where the first directory's place is, how it is written, the number of entries, and an entry.
_CLASSIC, _BIG = (4, "I", "H", "HHI4s"), (8, "Q", "Q", "HHQ8s")
_MOST_ENTRIES: Final = 2**16
_TILE_WIDTH, _TILE_LENGTH = 322, 323
_NUMBERS: Final = {1: "B", 3: "H", 4: "I", 16: "Q"}
"""The types of whole numbers."""


def unpacking_bytes(picture: Image.Image, whole: tuple[int, int]) -> int:
    """The memory that an open picture takes, which `draft` may have made smaller than the `whole` one."""
    tile_width, tile_height = tile_size(picture)
    needed = _PIXEL_BYTES * (picture.width * picture.height + tile_width * tile_height)
    return needed + (_SCANNED_BYTES * whole[0] * whole[1] if scan_count(picture) > 1 else 0)


def check_scans(picture: Image.Image, path: Path) -> None:
    """Raise SceneError if a JPEG has so many scans that it was made to take long."""
    if scan_count(picture) > MOST_SCANS:
        raise SceneError(f"{path}: a JPEG of at most {MOST_SCANS} scans is required, found more; save it again")


def tile_size(picture: Image.Image) -> tuple[int, int]:
    """Width and height of a TIFF's tiles, each unpacked whole, however small the picture is; 0 of what has none.

    The file itself is read: of several sizes Pillow takes the last, and libtiff, which unpacks, the first.
    """
    file: IO[bytes] | None = getattr(picture, "fp", None)
    if picture.format != "TIFF" or file is None:
        return 0, 0
    position = file.tell()
    file.seek(0)
    head = file.read(16)
    order = "<" if head.startswith(b"II") else ">"
    at, place, count, entry = _BIG if b"+" in head[2:4] else _CLASSIC
    file.seek(*struct.unpack_from(order + place, head, at))
    (entries,) = struct.unpack(order + count, file.read(struct.calcsize(order + count)))
    content = file.read(struct.calcsize(order + entry) * min(entries, _MOST_ENTRIES))
    file.seek(position)
    sides = {_TILE_WIDTH: 0, _TILE_LENGTH: 0}
    for tag, kind, _, value in struct.iter_unpack(order + entry, content):
        if tag not in sides:
            continue
        if kind not in _NUMBERS:
            raise ValueError("the sizes of its tiles are no whole numbers")
        sides[tag] = max(sides[tag], *struct.unpack_from(order + _NUMBERS[kind], value))
    return sides[_TILE_WIDTH], sides[_TILE_LENGTH]


def scan_count(picture: Image.Image) -> int:
    """How many scans a JPEG is unpacked from (ITU T.81, B.1.1), or more than `MOST_SCANS`; 1 of other formats.

    The file is not read beyond the first scan if that has the whole picture, as usual.
    """
    file: IO[bytes] | None = getattr(picture, "fp", None)
    if picture.format not in ("JPEG", "MPO") or file is None:
        return 1
    layers = 0 if "progressive" in picture.info else getattr(picture, "layers", 0)
    position, scans, at = file.tell(), 0, 0
    for _ in range(_MOST_SEGMENTS):
        at = _after_marker(file, at)
        file.seek(at - 1)
        marker, high, low, parts = file.read(4).ljust(4, b"\0")
        if marker == _SCAN:
            scans += 1
            if parts == layers:
                break
        if marker in (_END, 0) or scans > MOST_SCANS:
            break
        at += 0 if marker == _START else 256 * high + low
    else:
        scans = MOST_SCANS + 1
    file.seek(position)
    return max(scans, 1)


def _after_marker(file: IO[bytes], at: int) -> int:
    """Where the first marker from a place on ends; behind the end of the file if there is none."""
    while True:
        file.seek(at)
        part = file.read(_PART)
        if found := _MARKER.search(part):
            return at + found.end()
        if len(part) < _PART:
            return at + len(part) + 1
        at += len(part) - 1
