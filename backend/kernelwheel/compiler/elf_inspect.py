"""Reading an ELF file, a library for Linux or an object (System V ABI; LSB core, "Symbol Versioning")."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from ..runtime.record import remembered

_WEAK, _UNIQUE = 2, 10  # gABI, "Symbol Table": STB_WEAK, and STB_LOOS, which is GNU's STB_GNU_UNIQUE


class NeededSymbol(NamedTuple):
    """A versioned symbol that a library needs: `pthread_create`, `GLIBC_2.34`, `libc.so.6`."""

    name: str
    version: str
    soname: str


class _Symbol(NamedTuple):
    name: str
    binding: int
    defined: bool


class ElfFile:
    """An ELF file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def needed(self) -> list[str]:
        """The libraries that it needs, by their names (gABI, "Dynamic Section")."""
        return self._dynamic["needed"]

    @property
    def folders(self) -> list[str]:
        """Where it has them looked for."""
        origin = os.path.dirname(os.path.realpath(self.path))  # noqa: PTH120
        listed = ":".join([*self._dynamic["runpath"], *self._dynamic["rpath"]]).replace("${ORIGIN}", "$ORIGIN")
        return [each.replace("$ORIGIN", origin) for each in listed.split(":") if each]

    def exported(self) -> Iterator[str]:
        """The symbols that it defines for others."""
        return (each.name for each in self._symbols() if each.defined)

    def used(self) -> Iterator[str]:
        """The symbols that it needs from others."""
        return (each.name for each in self._symbols() if not each.defined)

    def undefined(self, table: str = ".dynsym") -> set[str]:
        """Those of them that must be there, so no weak ones; of an object, they are in the table `.symtab`."""
        symbols = (each for each in self._symbols(table) if not each.defined)
        return {each.name for each in symbols if each.name and each.binding != _WEAK}

    def unique(self) -> Iterator[str]:
        """Its symbols that a process has once, in whatever library they are."""
        return (each.name for each in self._symbols() if each.binding == _UNIQUE)

    @remembered
    def needed_symbols(self) -> list[NeededSymbol]:
        """The versioned symbols that it needs from other libraries (LSB core, "Symbol Versioning")."""
        with self.path.open("rb") as stream:
            elf = ELFFile(stream)
            symbols, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
            needs = elf.get_section_by_name(".gnu.version_r")
            if not (
                isinstance(symbols, SymbolTableSection)
                and isinstance(versions, GNUVerSymSection)
                and isinstance(needs, GNUVerNeedSection)
            ):
                return []
            names = {
                each.entry.vna_other: (str(each.name), str(library.name))
                for library, versions_of in needs.iter_versions()
                for each in versions_of
            }
            every = zip(symbols.iter_symbols(), (each.entry["ndx"] for each in versions.iter_symbols()), strict=True)
            return [NeededSymbol(str(symbol.name), *names[version]) for symbol, version in every if version in names]

    def device_code(self) -> AbstractContextManager[Path]:
        """The file in which cuobjdump finds its device code: itself."""
        return nullcontext(self.path)

    @remembered
    def _dynamic(self) -> dict[str, list[str]]:
        """The texts in its dynamic section: pyelftools gives a tag an attribute for the text that it stands for."""
        with self.path.open("rb") as stream:
            section = ELFFile(stream).get_section_by_name(".dynamic")
            tags = [*section.iter_tags()] if isinstance(section, DynamicSection) else []
            kinds = ("needed", "runpath", "rpath")
            return {kind: [str(getattr(tag, kind)) for tag in tags if hasattr(tag, kind)] for kind in kinds}

    def _symbols(self, table: str = ".dynsym") -> Iterator[_Symbol]:
        """The symbols in a table: those that it exports and those that it needs (gABI, "Symbol Table").

        A library of torch has a hundred thousand, so each is read as a record of bytes, as 64 bits and the lowest byte
        first have it, which all platforms are.
        """
        with self.path.open("rb") as stream:
            section = ELFFile(stream).get_section_by_name(table)
            if not isinstance(section, SymbolTableSection):
                return
            names = section.stringtable.data()
            for start, info, _other, place, _value, _size in struct.iter_unpack("<IBBHQQ", section.data()):
                name = names[start : names.index(b"\0", start)].decode("utf-8", errors="replace")
                yield _Symbol(name, info >> 4, bool(place))
