"""Reading the rows of the element `vertex` of a PLY file, after skipping the elements before it.

A file may be damaged or hostile, so the header is not trusted until the file's size agrees with it: time is linear in
the size, and memory is a small multiple of it. plyfile (1.1.5) does not achieve that and is not used: there a corrupt
count is a MemoryError, and lists take 8 s per megabyte.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .gaussians import SceneError
from .names import listed, quoted
from .ply_header import MAX_LINE, Element, read_header, repeated

MAX_TEXT_ROW: Final = 2**20
"""Maximum size of a row of `vertex` in a text file, in bytes: 256 for each property of the longest row."""

CENTRES: Final = ("x", "y", "z")

_CHUNK: Final = 2**18
"""Bytes that are read at a time: what fits in a core's cache."""

Array = npt.NDArray[np.float32]


class Vertices(NamedTuple):
    """The rows of `vertex`."""

    centres: npt.NDArray[np.float64]
    """[N, 3], the values of x, y and z: those of a map need more digits than float32 has."""
    tables: dict[tuple[str, ...], Array]
    """The values of each group of other properties, [N, properties]."""
    columns: dict[str, Array]
    """Those of each property, which are columns of these tables."""
    types: dict[str, str]
    """Theirs in the file, in numpy's notation."""
    left: int
    """Bytes of a binary file behind all that its header declares; 0 if lists follow, whose sizes are not known."""


class PlyBody:
    """The rows of a file, read in order."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.position = file.tell()
        self.end = file.seek(0, io.SEEK_END)
        file.seek(self.position)

    def require(self, size: int, element: Element, least: str = "") -> None:
        """Raise SceneError unless `size` bytes are left; called before memory is allocated."""
        left = self.end - self.position
        if left < size:
            raise SceneError(
                f"{element.rows} rows of {quoted(element.name)!r} need {least}{size} bytes from byte {self.position} "
                f"on, found {left}: truncated"
            )

    def skip(self, size: int, element: Element) -> None:
        """Skip `size` bytes."""
        self.require(size, element)
        self.position = self.file.seek(self.position + size)

    def chunk(self, at: int, least: int, element: Element) -> bytes:
        """At least `least` bytes from `at` on, up to _CHUNK; the position does not change."""
        self.require(at + least - self.position, element, "at least ")
        self.file.seek(at)
        data = self.file.read(_CHUNK)
        if len(data) < least:
            raise self._shrunk(at + len(data))
        return data

    def read(self, size: int, element: Element) -> bytes:
        """Read `size` bytes."""
        self.require(size, element)
        data = self.file.read(size)
        if len(data) != size:
            raise self._shrunk(self.position + len(data))
        self.position += size
        return data

    def _shrunk(self, end: int) -> SceneError:
        return SceneError(f"the file must have {self.end} bytes, as it had when it was opened, found {end}: truncated")

    def line(self, limit: int) -> bytes:
        """The rest of a line, or `limit` bytes of it; empty at the end."""
        line = self.file.readline(limit)
        self.position += len(line)
        return line


def read_vertices(file: BinaryIO, choose: Callable[[list[str]], Sequence[Sequence[str]]]) -> Vertices:
    """Read the element `vertex` of a seekable file: x, y, z, and the groups of others that `choose` makes of the names.

    Raises:
        SceneError: if the file is empty, truncated, malformed or not PLY.
        OSError: if it cannot be read.
    """
    byte_order, elements, _ = read_header(file)
    names = [element.name for element in elements]
    if "vertex" not in names:
        raise SceneError(f"an element 'vertex' is required, found {listed(names)}")
    index = names.index("vertex")
    vertex = elements[index]
    _check_vertex(vertex)
    groups = [tuple(group) for group in choose([prop.name for prop in vertex.properties])]
    body = PlyBody(file)
    for element in elements[:index]:
        if not byte_order:
            _skip_lines(body, element)
        elif element.has_lists:
            _skip_lists(body, element, byte_order)
        else:
            body.skip(element.size, element)
    place = {prop.name: i for i, prop in enumerate(vertex.properties)}
    # Before room is made for them. In text, each number has a digit and a separator, except for the last one of a file.
    if byte_order:
        body.require(vertex.rows * _row(vertex, byte_order).itemsize, vertex)
    else:
        body.require(2 * len(vertex.properties) * vertex.rows - 1, vertex, "at least ")
    tables = _Tables.empty(vertex.rows, [[place[name] for name in group] for group in (CENTRES, *groups)])
    if byte_order:
        _read_binary(body, vertex, byte_order, tables)
    else:
        _read_text(body, vertex, tables)
    centres, *others = tables.values
    return Vertices(
        centres,
        dict(zip(groups, others, strict=True)),
        {name: values[:, i] for group, values in zip(groups, others, strict=True) for i, name in enumerate(group)},
        {name: vertex.properties[place[name]].type for group in groups for name in group},
        _left(body, elements[index + 1 :]) if byte_order else 0,
    )


def _row(vertex: Element, byte_order: str) -> np.dtype[Any]:
    """A row of a binary file."""
    return np.dtype([(f"{i}", byte_order + prop.type) for i, prop in enumerate(vertex.properties)])


def _left(body: PlyBody, elements: list[Element]) -> int:
    if any(element.has_lists for element in elements):
        return 0
    return body.end - body.position - sum(element.size for element in elements)


def _check_vertex(vertex: Element) -> None:
    names = [prop.name for prop in vertex.properties]
    lists = [prop.name for prop in vertex.properties if prop.length_type is not None]
    if lists:
        raise SceneError(f"the properties of 'vertex' must be scalar, found lists: {listed(lists)}")
    if not set(CENTRES) <= set(names):
        raise SceneError(f"'vertex' must have the properties x, y and z, found {listed(names)}")
    if twice := repeated(names):
        raise SceneError(f"the properties of 'vertex' must differ in name, found twice: {listed(twice)}")


class _Tables(NamedTuple):
    """What is kept of all rows."""

    values: list[npt.NDArray[Any]]
    """[N, properties] of each group; of the centres, the first, as float64."""
    places: list[list[int]]
    """Which properties these are."""

    @classmethod
    def empty(cls, rows: int, places: list[list[int]]) -> _Tables:
        """Room for them."""
        kinds = [np.float64, *[np.float32] * (len(places) - 1)]
        return cls([np.empty((rows, len(group)), kind) for group, kind in zip(places, kinds, strict=True)], places)

    def fill(self, rows: slice, columns: Sequence[npt.NDArray[Any]]) -> None:
        """Keep some rows, of which `columns` are all properties."""
        with np.errstate(over="ignore", invalid="ignore"):  # values too large for float32 become infinite
            for table, chosen in zip(self.values, self.places, strict=True):
                for column, i in enumerate(chosen):
                    table[rows, column] = columns[i]


def _read_binary(body: PlyBody, vertex: Element, byte_order: str, tables: _Tables) -> None:
    row = _row(vertex, byte_order)
    step = max(_CHUNK // row.itemsize, 1)
    for start in range(0, vertex.rows, step):
        part = slice(start, min(start + step, vertex.rows))
        rows = np.frombuffer(body.read((part.stop - start) * row.itemsize, vertex), row)
        tables.fill(part, [rows[name] for name in row.names or ()])


def _read_text(body: PlyBody, vertex: Element, tables: _Tables) -> None:
    start = 0
    while start < vertex.rows:
        rows = _read_text_rows(body, vertex, start)
        try:
            numbers = np.array(rows, dtype=np.float64).reshape(len(rows), len(vertex.properties))
        except ValueError as error:
            raise SceneError(f"the rows of 'vertex' must be numbers: {str(error)[:100]}") from error
        _check_integers(numbers, vertex, start)
        tables.fill(slice(start, start + len(rows)), list(numbers.T))
        start += len(rows)


def _read_text_rows(body: PlyBody, vertex: Element, start: int) -> list[list[bytes]]:
    """The words of the next rows, a chunk at a time: they take about twenty times the memory of the text."""
    width = len(vertex.properties)
    rows: list[list[bytes]] = []
    end = body.position + _CHUNK // 2
    while start + len(rows) < vertex.rows and body.position < end:
        line = body.line(MAX_TEXT_ROW)
        number = start + len(rows)
        if not line:
            raise SceneError(f"{vertex.rows} rows of 'vertex' are required, found {number}: truncated")
        words = line.split()
        if not words:
            continue  # a blank line is not a row, and may be longer than any row
        if len(line) == MAX_TEXT_ROW:
            raise SceneError(f"row {number} of 'vertex' must have fewer than {MAX_TEXT_ROW} bytes, found more")
        if len(words) != width:
            raise SceneError(f"row {number} of 'vertex' must have {width} numbers, found {len(words)}")
        rows.append(words)
    return rows


def _check_integers(numbers: npt.NDArray[np.float64], vertex: Element, start: int) -> None:
    """Check that the numbers [rows, properties] have the types that the header declares."""
    for i, prop in enumerate(vertex.properties):
        if prop.type[0] == "f":
            continue
        limits = np.iinfo(prop.type)
        values = numbers[:, i]
        fits = (values >= limits.min) & (values <= limits.max) & (values == np.floor(values))
        if not fits.all():
            row = int(fits.argmin())
            raise SceneError(
                f"property {quoted(prop.name)!r} of 'vertex' must be a whole number from {limits.min} to {limits.max}, "
                f"found {values[row]:g} in row {start + row}"
            )


def _skip_lines(body: PlyBody, element: Element) -> None:
    """Skip text rows, which may be of any length. Blank lines are not rows."""
    if not element.properties:
        return
    row = 0
    written = False  # whether the line has had anything but white space
    while row < element.rows:
        piece = body.line(MAX_LINE)
        if not piece:
            if written:  # the last line of a file may lack a newline
                row, written = row + 1, False
                continue
            raise SceneError(f"{element.rows} rows of {quoted(element.name)!r} are required, found {row}: truncated")
        written = written or not piece.isspace()
        if piece.endswith(b"\n"):
            row, written = row + written, False


def _skip_lists(body: PlyBody, element: Element, byte_order: str) -> None:
    """Skip binary rows with lists, each of which is preceded by its length.

    Only the lengths in a row tell where the next one begins. While they stay the same, as in a mesh of triangles, many
    rows are compared at once: as many as have been the same so far.
    """
    lists, tail = _lists(element, byte_order)
    left, at, alike = element.rows, body.position, 0
    chunk, base = b"", at
    lengths: list[int] = []
    while left:
        before, lengths, row = lengths, [], at
        for scalars, length_of, item in lists:
            at += scalars
            if at + length_of.size > base + len(chunk):
                chunk, base = body.chunk(at, length_of.size, element), at
            (length,) = length_of.unpack_from(chunk, at - base)
            if length < 0:
                raise SceneError(f"a list of {quoted(element.name)!r} must have a length of 0 or more, found {length}")
            lengths.append(length)
            at += length_of.size + length * item
        at += tail
        left -= 1
        alike = alike + 1 if lengths == before else 0
        if alike >= _ALIKE:
            size = at - row
            rows = max(min(alike, left, (base + len(chunk) - at) // size), 0)
            some = np.frombuffer(chunk[at - base : at - base + rows * size], np.uint8).reshape(rows, size)
            same = _alike(some, lists, lengths)
            at += same * size
            left -= same
            alike = alike + same if same == rows else 0
    body.skip(at - body.position, element)


_ALIKE: Final = 64
"""After this many equal rows, comparing several at once is faster."""

_List = tuple[int, Struct, int]
"""Bytes of the scalars before a list, the format of its length, and bytes of an item."""


def _lists(element: Element, byte_order: str) -> tuple[list[_List], int]:
    """The lists of a row, and the bytes of the scalars after them."""
    lists: list[_List] = []
    scalars = 0
    for prop in element.properties:
        if prop.length_type is None:
            scalars += prop.size
        else:
            code = np.dtype(prop.length_type).char
            lists.append((scalars, Struct(byte_order + code), prop.size))
            scalars = 0
    return lists, scalars


def _alike(rows: npt.NDArray[np.uint8], lists: list[_List], lengths: list[int]) -> int:
    """How many of the first rows, bytes [rows, size], have lists of these lengths."""
    same = np.ones(len(rows), bool)
    at = 0
    for (scalars, length_of, item), length in zip(lists, lengths, strict=True):
        at += scalars
        expected = np.frombuffer(length_of.pack(length), np.uint8)
        same &= (rows[:, at : at + length_of.size] == expected).all(axis=1)
        at += length_of.size + length * item
    return len(rows) if same.all() else int(same.argmin())
