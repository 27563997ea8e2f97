"""Reading the symbols of an ELF file, a library for Linux (System V ABI; LSB core, "Symbol Versioning")."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import Symbol, SymbolTableSection

# gABI, "Program Header" and "Dynamic Section"; the last one is GNU's.
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS, _SYMBOLS, _RPATH, _RUNPATH, _HASHES = 1, 5, 6, 15, 29, 0x6FFFFEF5


def needed(path: Path) -> list[str]:
    """The DT_NEEDED entries of an ELF file (gABI, "Dynamic Section")."""
    return list(read_dynamic(path).needed)


def exported(path: Path) -> Iterator[str]:
    """The symbols that it defines for others."""
    return (str(each.name) for each in _symbols(path) if each.entry.st_shndx != "SHN_UNDEF")


def used(path: Path) -> Iterator[str]:
    """The symbols that it needs from others."""
    return (str(each.name) for each in _symbols(path) if each.entry.st_shndx == "SHN_UNDEF")


def undefined(path: Path, table: str = ".dynsym") -> set[str]:
    """Those of them that must be there, so no weak ones; of an object, they are in the table `.symtab`."""
    symbols = (each for each in _symbols(path, table) if each.entry.st_shndx == "SHN_UNDEF")
    return {str(each.name) for each in symbols if each.name and each.entry.st_info.bind != "STB_WEAK"}


def unique(path: Path) -> Iterator[str]:
    """Its symbols that a process has once, in whatever library they are (gABI's STB_LOOS: GNU's STB_GNU_UNIQUE)."""
    return (str(each.name) for each in _symbols(path) if each.entry.st_info.bind == "STB_LOOS")


def device_code(path: Path) -> AbstractContextManager[Path]:
    """The file in which cuobjdump finds its device code: itself."""
    return nullcontext(path)


def _symbols(path: Path, table: str = ".dynsym") -> Iterator[Symbol]:
    """The symbols in a table of an ELF file: those that it exports and those that it needs (gABI, "Symbol Table")."""
    with path.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(table)
        yield from section.iter_symbols() if isinstance(section, SymbolTableSection) else ()


class NeededSymbol(NamedTuple):
    """A versioned symbol that a library needs: `pthread_create`, `GLIBC_2.34`, `libc.so.6`."""

    name: str
    version: str
    soname: str


def needed_symbols(path: Path) -> Iterator[NeededSymbol]:
    """The versioned symbols that an ELF file needs from other libraries (LSB core, "Symbol Versioning")."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        symbols, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
        needs = elf.get_section_by_name(".gnu.version_r")
        if not (
            isinstance(symbols, SymbolTableSection)
            and isinstance(versions, GNUVerSymSection)
            and isinstance(needs, GNUVerNeedSection)
        ):
            return
        names = {
            each.entry.vna_other: (str(each.name), str(library.name))
            for library, versions_of in needs.iter_versions()
            for each in versions_of
        }
        for symbol, at in zip(symbols.iter_symbols(), versions.iter_symbols(), strict=True):
            if at.entry["ndx"] in names:
                yield NeededSymbol(str(symbol.name), *names[at.entry["ndx"]])


# What a loader reads of a library, of however many symbols: libtorch_cpu.so's sections alone take pyelftools 0.2 s. All
# platforms have 64 bits, the lowest byte first.


class Dynamic(NamedTuple):
    """The dynamic section of a library."""

    path: Path
    needed: tuple[str, ...]  # the libraries that it needs, by their names
    folders: tuple[str, ...]  # where it has them looked for
    symbols: int  # the places in the file of its symbols, their names and their hash table; 0: none
    strings: int
    hashes: int

    def defined(self, names: Mapping[str, int]) -> set[str]:
        """Which of these symbols it defines for others; they come with their hashes."""
        if not self.hashes:
            return {*names} & {*exported(self.path)}
        with self.path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return {name for name, number in names.items() if self._has(data, name.encode(), number)}

    def _has(self, data: mmap.mmap, name: bytes, number: int) -> bool:
        buckets, first, words, _ = struct.unpack_from("<4I", data, self.hashes)
        chains = (start := self.hashes + 16 + 8 * words) + 4 * buckets
        (index,) = struct.unpack_from("<I", data, start + 4 * (number % buckets))
        while index >= first:
            (found,) = struct.unpack_from("<I", data, chains + 4 * (index - first))
            if found | 1 == number | 1:
                at, _, _, section = struct.unpack_from("<IBBH", data, self.symbols + 24 * index)
                if section and data[self.strings + at : self.strings + at + len(name) + 1] == name + b"\0":
                    return True
            if found & 1:  # the last one of its bucket
                return False
            index += 1
        return False


def hashed(names: Iterable[str]) -> dict[str, int]:
    """Symbols with what GNU's hash tables know them by."""
    hashes = {}
    for name in names:
        number = 5381
        for byte in name.encode():
            number = (number * 33 + byte) & 0xFFFFFFFF
        hashes[name] = number
    return hashes


def read_dynamic(path: Path) -> Dynamic:
    """Read the dynamic section of a library."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        segments = [*_segments(data)]
        values: dict[int, list[int]] = {}
        for kind, start, _, size in segments:
            if kind == _DYNAMIC:
                for tag, value in struct.iter_unpack("<qQ", data[start : start + size]):
                    values.setdefault(tag, []).append(value)
        strings, symbols, hashes = (_place(segments, values.get(tag, [0])[0]) for tag in (_STRINGS, _SYMBOLS, _HASHES))

        def texts(tag: int) -> Iterator[str]:
            for value in values.get(tag, []):
                yield data[strings + value : data.find(b"\0", strings + value)].decode(errors="replace")

        origin = os.path.dirname(os.path.realpath(path))  # noqa: PTH120
        listed = ":".join([*texts(_RUNPATH), *texts(_RPATH)]).replace("${ORIGIN}", "$ORIGIN")
        folders = (each.replace("$ORIGIN", origin) for each in listed.split(":") if each)
        return Dynamic(path, tuple(texts(_NEEDED)), tuple(folders), symbols, strings, hashes)


def _segments(data: mmap.mmap) -> Iterator[tuple[int, int, int, int]]:
    """The kind, place in the file, address and size of each segment."""
    (start,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<2H", data, 54)
    for at in range(start, start + size * count, size):
        kind, _, place, address, _, length = struct.unpack_from("<2I4Q", data, at)
        yield kind, place, address, length


def _place(segments: Iterable[tuple[int, int, int, int]], wanted: int) -> int:
    """The place in the file of what is loaded to an address."""
    loaded = (each for each in segments if each[0] == _LOAD)
    return next((place + wanted - at for _, place, at, size in loaded if at <= wanted < at + size), 0)
