"""The headers of PLY files: "The PLY Polygon File Format" (Turk, 1994).

A header is text, and names a format and elements with their properties. It may be damaged or hostile, so each of its
numbers has a limit.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from .gaussians import SceneError
from .names import listed

MAX_HEADER: Final = 2**20
"""Maximum size of a header in bytes."""
MAX_LINE: Final = 2**16
"""Maximum length of a line in bytes."""
MAX_ELEMENTS: Final = 256
MAX_PROPERTIES: Final = 4096
"""Maximum number of properties of all elements together."""
MAX_DIGITS: Final = 18
"""Maximum number of digits of an element's count, so that it fits in 64 bits."""

_TYPES: Final = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"},
    **{"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"},
    **{"float": "f4", "double": "f8", "float32": "f4", "float64": "f8"},
}
_BYTE_ORDERS: Final = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


class Property(NamedTuple):
    """One number of a row, or a list of them."""

    name: str
    type: str
    """In numpy's notation, without a byte order."""
    length_type: str | None
    """The type of a list's length; None for a scalar."""

    @property
    def size(self) -> int:
        """Size of a number in bytes."""
        return int(self.type[1:])


class Element(NamedTuple):
    """A table."""

    name: str
    rows: int
    properties: list[Property]

    @property
    def size(self) -> int:
        """Size of all rows in bytes, in a binary file, if they have no lists."""
        return self.rows * sum(prop.size for prop in self.properties)

    @property
    def has_lists(self) -> bool:
        """Whether its rows can differ in size."""
        return any(prop.length_type is not None for prop in self.properties)


class Header(NamedTuple):
    """What a file claims to hold."""

    byte_order: str
    """In numpy's notation; empty for text."""
    elements: list[Element]
    comments: list[str]


def read_header(file: BinaryIO) -> Header:
    """Read the header at the start of a file; SceneError if it is malformed or exceeds a limit."""
    byte_order = None
    elements: list[Element] = []
    comments: list[str] = []
    properties = 0
    for number, line in _header_lines(file):
        match line.decode("latin-1").split():
            case ["comment", *words]:
                comments.append(" ".join(words))
            case [] | ["obj_info", *_]:
                pass
            case ["format", name, _] if name in _BYTE_ORDERS:
                byte_order = _BYTE_ORDERS[name]
            case ["element", name, count] if count.isdecimal():
                elements.append(Element(name, _element_count(count, number), []))
            case ["property", *words] if elements:
                elements[-1].properties.append(_read_property(words, number))
                properties += 1
            case _:
                raise SceneError(f"header line {number} is not understood: {line[:80]!r}")
        if len(elements) > MAX_ELEMENTS or properties > MAX_PROPERTIES:
            raise SceneError(
                f"the header must have at most {MAX_ELEMENTS} elements and {MAX_PROPERTIES} properties, found more: "
                f"{len(elements)} and {properties} up to line {number}"
            )
    if byte_order is None:
        raise SceneError(f"the header must name a format ({', '.join(_BYTE_ORDERS)}), found none")
    if twice := repeated([element.name for element in elements]):
        raise SceneError(f"elements must differ in name, found twice: {listed(twice)}")
    return Header(byte_order, elements, comments)


def _header_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines between the first and the last of a header, with their line numbers."""
    _check_magic(file.readline(MAX_LINE))
    for number in itertools.count(2):
        line = file.readline(MAX_LINE)
        if not line.endswith(b"\n"):
            raise SceneError(f"the header must end with the line 'end_header', found line {number}: {line[:40]!r}")
        if file.tell() > MAX_HEADER:
            raise SceneError(f"the header must have at most {MAX_HEADER} bytes, found more: {number} lines so far")
        if line.split() == [b"end_header"]:
            return
        yield number, line


def _check_magic(line: bytes) -> None:
    if not line:
        raise SceneError("a PLY file is required, found an empty file")
    if line.strip() != b"ply":
        raise SceneError(f"a PLY file, which starts with the line 'ply', is required, found {line[:16]!r}")


def _element_count(digits: str, number: int) -> int:
    digits = digits.lstrip("0") or "0"
    if len(digits) > MAX_DIGITS:
        raise SceneError(
            f"the count of an element must have at most {MAX_DIGITS} digits, found {len(digits)} in header line "
            f"{number}"
        )
    return int(digits)


def _read_property(words: list[str], number: int) -> Property:
    match words:
        case [scalar, name] if scalar in _TYPES:
            return Property(name, _TYPES[scalar], None)
        case ["list", length, item, name] if item in _TYPES and _TYPES.get(length, "f")[0] != "f":
            return Property(name, _TYPES[item], _TYPES[length])
    raise SceneError(f"header line {number} is not understood: {'property ' + ' '.join(words)[:80]!r}")


def repeated(names: list[str]) -> list[str]:
    """The names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)
