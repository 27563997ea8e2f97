"""Reading the symbols of an ELF file, a library for Linux (System V ABI; LSB core, "Symbol Versioning")."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

_WEAK, _UNIQUE = 2, 10  # gABI, "Symbol Table": STB_WEAK, and STB_LOOS, which is GNU's STB_GNU_UNIQUE


def needed(path: Path) -> list[str]:
    """The libraries that an ELF file needs, by their names (gABI, "Dynamic Section")."""
    return list(read_dynamic(path).needed)


def exported(path: Path) -> Iterator[str]:
    """The symbols that it defines for others."""
    return (each.name for each in _symbols(path) if each.defined)


def used(path: Path) -> Iterator[str]:
    """The symbols that it needs from others."""
    return (each.name for each in _symbols(path) if not each.defined)


def undefined(path: Path, table: str = ".dynsym") -> set[str]:
    """Those of them that must be there, so no weak ones; of an object, they are in the table `.symtab`."""
    symbols = (each for each in _symbols(path, table) if not each.defined)
    return {each.name for each in symbols if each.name and each.binding != _WEAK}


def unique(path: Path) -> Iterator[str]:
    """Its symbols that a process has once, in whatever library they are."""
    return (each.name for each in _symbols(path) if each.binding == _UNIQUE)


def device_code(path: Path) -> AbstractContextManager[Path]:
    """The file in which cuobjdump finds its device code: itself."""
    return nullcontext(path)


class _Symbol(NamedTuple):
    name: str
    binding: int
    defined: bool


def _symbols(path: Path, table: str = ".dynsym") -> Iterator[_Symbol]:
    """The symbols in a table of an ELF file: those that it exports and those that it needs (gABI, "Symbol Table").

    A library of torch has a hundred thousand, so each is read as a record of bytes, as 64 bits and the lowest byte
    first have it, which all platforms are.
    """
    with path.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(table)
        if not isinstance(section, SymbolTableSection):
            return
        names = section.stringtable.data()
        for start, info, _other, place, _value, _size in struct.iter_unpack("<IBBHQQ", section.data()):
            name = names[start : names.index(b"\0", start)].decode("utf-8", errors="replace")
            yield _Symbol(name, info >> 4, bool(place))


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


class Dynamic(NamedTuple):
    """What a loader reads of a library first: its dynamic section."""

    path: Path
    needed: tuple[str, ...]  # the libraries that it needs, by their names
    folders: tuple[str, ...]  # where it has them looked for


def read_dynamic(path: Path) -> Dynamic:
    """Read the dynamic section of a library."""
    with path.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynamic")
        tags = [*section.iter_tags()] if isinstance(section, DynamicSection) else []
        kinds = ("needed", "runpath", "rpath")  # pyelftools gives a tag an attribute for the text that it stands for
        needed, *paths = ([str(getattr(tag, kind)) for tag in tags if hasattr(tag, kind)] for kind in kinds)
    origin = os.path.dirname(os.path.realpath(path))  # noqa: PTH120
    listed = ":".join(chain(*paths)).replace("${ORIGIN}", "$ORIGIN")
    folders = (each.replace("$ORIGIN", origin) for each in listed.split(":") if each)
    return Dynamic(path, tuple(needed), tuple(folders))
