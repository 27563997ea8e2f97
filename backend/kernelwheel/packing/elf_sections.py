"""Where two libraries differ: in which sections, and in which symbols (System V ABI, "Sections").

The libraries may be anybody's, with tables as long as they like: of headers, names and symbols, a limited number of
bytes is read. What is in sections is compared block by block.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any, cast

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

MAGIC = b"\x7fELF"
BLOCK = 1 << 20
MOST_OF_TABLES = 2 << 20  # bytes of headers and names of one library
MOST_OF_SYMBOLS = 4 << 20
MOST_SECTIONS = 20  # that differ
LONGEST_NAME = 200
# What elftools raises for tables that make no sense.
_SENSELESS = (
    ELFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
)
Sections = dict[tuple[str, int], Section]


def section_differences(one: IO[bytes], other: IO[bytes]) -> Iterator[tuple[str, str]]:
    """The sections in which two libraries differ, each with how; nothing if all are equal."""
    try:
        ones, others = _sections(one), _sections(other)
        places = dict(islice(_places(one, ones, other, others), MOST_SECTIONS))
        symbols = _symbols_at(one, {name: ones[name].header["sh_addr"] + at for name, at in places.items()})
    except _SENSELESS as error:
        yield "", f"an ELF file that cannot be read: {str(error)[:LONGEST_NAME] or type(error).__name__}"
        return
    for name in sorted(ones.keys() ^ others.keys())[:MOST_SECTIONS]:
        yield name[0], "only in the first" if name in ones else "only in the second"
    for name, at in places.items():
        left, right = (each[name].header["sh_size"] for each in (ones, others))
        sizes = f"{left} bytes" + (f", {right} bytes" if left != right else "")
        symbol = f", in {symbols[name]}" if name in symbols else ""
        yield name[0], f"differs from byte {at} of {sizes}{symbol}"


class _Bounded:
    """An open file of which no more than so many bytes are read."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file = file
        self._left = most
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        self._left -= max(size, 0)
        if self._left < 0:
            raise ValueError("its headers, names and symbols are too long")
        return self._file.read(max(size, 0))


def _elf(file: IO[bytes], most: int) -> Any:
    return ELFFile(cast(IO[bytes], _Bounded(file, most)))


def _sections(file: IO[bytes]) -> Sections:
    """The sections of a library by name, and by number for those of one name."""
    seen: Counter[str] = Counter()
    sections = {}
    for section in _elf(file, MOST_OF_TABLES).iter_sections():
        name = section.name[:LONGEST_NAME]
        sections[name, seen[name]] = section
        seen[name] += 1
    return sections


def _places(
    one: IO[bytes], ones: Sections, other: IO[bytes], others: Sections
) -> Iterator[tuple[tuple[str, int], int]]:
    """The sections of both libraries that differ, each with the first such byte."""
    for file, sections in ((one, ones), (other, others)):
        if sum(map(_size, sections.values())) > file.seek(0, os.SEEK_END):
            raise ValueError("its sections overlap")
    for name in ones:
        if name in others and (at := _first(one, ones[name], other, others[name])) is not None:
            yield name, at


def _size(section: Section) -> int:
    return 0 if section.header["sh_type"] == "SHT_NOBITS" else int(section.header["sh_size"])


def _first(one: IO[bytes], section: Section, other: IO[bytes], like: Section) -> int | None:
    """The first byte at which two sections differ; None if they are equal."""
    at = 0
    left, right = _size(section), _size(like)
    while at < min(left, right):
        size = min(BLOCK, left - at, right - at)
        ones, others = _read(one, section, at, size), _read(other, like, at, size)
        if ones != others:
            return at + first_byte(ones, others)
        at += size
    return at if left != right else None


def first_byte(one: bytes, other: bytes) -> int:
    """The first byte at which two differ."""
    unlike = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(unlike, min(len(one), len(other)))


def _read(file: IO[bytes], section: Section, at: int, size: int) -> bytes:
    file.seek(section.header["sh_offset"] + at)
    found = file.read(size)
    if len(found) < size:
        raise ValueError("a section is not in the file")
    return found


def _symbols_at(file: IO[bytes], addresses: dict[tuple[str, int], int]) -> dict[tuple[str, int], str]:
    """The symbols that cover addresses, where a symbol table that can be read has one."""
    found: dict[tuple[str, int], str] = {}
    try:
        for table in _elf(file, MOST_OF_SYMBOLS).iter_sections() if addresses else ():
            if isinstance(table, SymbolTableSection):
                for symbol in table.iter_symbols():
                    start = symbol.entry.st_value
                    for name, address in addresses.items():
                        if symbol.name and start <= address < start + symbol.entry.st_size:
                            found.setdefault(name, str(symbol.name)[:LONGEST_NAME])
    except _SENSELESS:
        return found  # the sections are known all the same
    return found
