"""Reading the symbols of an ELF file, a library for Linux (System V ABI; LSB core, "Symbol Versioning")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import Symbol, SymbolTableSection


def needed(path: Path) -> list[str]:
    """The DT_NEEDED entries of an ELF file (System V ABI, dynamic section)."""
    with path.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if isinstance(section, DynamicSection):
                return [str(getattr(tag, "needed")) for tag in section.iter_tags("DT_NEEDED")]  # noqa: B009
    return []


def exported(path: Path) -> Iterator[str]:
    """The symbols that it defines for others."""
    return (str(each.name) for each in _dynamic_symbols(path) if each.entry.st_shndx != "SHN_UNDEF")


def used(path: Path) -> Iterator[str]:
    """The symbols that it needs from others."""
    return (str(each.name) for each in _dynamic_symbols(path) if each.entry.st_shndx == "SHN_UNDEF")


def unique(path: Path) -> Iterator[str]:
    """Its symbols that a process has once, in whatever library they are (gABI's STB_LOOS: GNU's STB_GNU_UNIQUE)."""
    return (str(each.name) for each in _dynamic_symbols(path) if each.entry.st_info.bind == "STB_LOOS")


def device_code(path: Path) -> AbstractContextManager[Path]:
    """The file in which cuobjdump finds its device code: itself."""
    return nullcontext(path)


def _dynamic_symbols(path: Path) -> Iterator[Symbol]:
    """The dynamic symbols of an ELF file, those that it exports and those that it needs (gABI, "Symbol Table")."""
    with path.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".dynsym")
        yield from table.iter_symbols() if isinstance(table, SymbolTableSection) else ()


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
