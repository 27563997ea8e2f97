"""The comparison of two wheels that should be one: which members differ, and where in them.

`python -m kernelwheel compare ONE OTHER` prints it, and exits with 1 if the files are not equal byte for byte.
"""

from __future__ import annotations

import argparse
import difflib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile, ZipInfo

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

from ..core.digests import file_sha256
from ..core.errors import IncompatibleArtifactError

MOST_LINES = 10  # of one text, section or list
LARGEST_MEMBER = 1 << 32


class WheelDifference(NamedTuple):
    """A place where two wheels differ: a member, where in it (may be empty), and how."""

    member: str
    place: str
    how: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


def main(arguments: Sequence[str]) -> int:
    """Print what differs between two wheels; return 1 if anything does."""
    parser = argparse.ArgumentParser(
        prog="python -m kernelwheel compare", description="Show what differs between two wheels of the same build."
    )
    parser.add_argument("one", type=Path, metavar="ONE")
    parser.add_argument("other", type=Path, metavar="OTHER")
    args = parser.parse_args(arguments)
    found = compare(args.one, args.other)
    print("\n".join(map(str, found)) or f"equal, byte for byte: {args.one.name}")
    return 1 if found else 0


def compare(one: Path, other: Path) -> list[WheelDifference]:
    """The differences of two wheels; none if they are equal byte for byte.

    Raises:
        IncompatibleArtifactError: one of them is not a zip file.
    """
    names = [WheelDifference("", "file name", f"{one.name}, {other.name}")] if one.name != other.name else []
    try:
        if file_sha256(one) == file_sha256(other):
            return names
        with ZipFile(one) as first, ZipFile(other) as second:
            found = [*names, *_members(first, second)]
    except (BadZipFile, OSError) as error:
        raise IncompatibleArtifactError(
            "the wheels cannot be compared",
            required=f"two wheels: {one}, {other}",
            found=f"{type(error).__name__}: {error}",
            remedies=["build them again"],
        ) from error
    return found or [WheelDifference("", "zip", "the members are equal, the bytes around them are not")]


def _members(one: ZipFile, other: ZipFile) -> Iterator[WheelDifference]:
    ones, others = ({info.filename: info for info in each.infolist()} for each in (one, other))
    for name in sorted(ones.keys() ^ others.keys()):
        yield WheelDifference(name, "", "only in the first" if name in ones else "only in the second")
    common = [name for name in ones if name in others]
    if common != [name for name in others if name in ones]:
        yield WheelDifference("", "zip", "the members are in another order")
    for name in common:
        yield from _headers(ones[name], others[name])
        if max(ones[name].file_size, others[name].file_size) > LARGEST_MEMBER:
            yield WheelDifference(name, "", "too large to compare")
            continue
        left, right = one.read(name), other.read(name)
        if left != right:
            yield from _contents(name, left, right)


def _headers(one: ZipInfo, other: ZipInfo) -> Iterator[WheelDifference]:
    """What zip says of a member besides its contents (APPNOTE.TXT, 4.3.7)."""
    for what in ("date_time", "external_attr", "compress_type", "create_system", "extra"):
        left, right = getattr(one, what), getattr(other, what)
        if left != right:
            yield WheelDifference(one.filename, f"zip {what}", f"{left!r}, {right!r}")
    if one.CRC == other.CRC and one.compress_size != other.compress_size:
        yield WheelDifference(one.filename, "zip", "compressed by another zlib")


def _contents(name: str, one: bytes, other: bytes) -> Iterator[WheelDifference]:
    if one.startswith(b"\x7fELF") and other.startswith(b"\x7fELF"):
        try:
            yield from _sections(name, ELFFile(io.BytesIO(one)), ELFFile(io.BytesIO(other)))
        except (ELFError, ValueError) as error:
            yield WheelDifference(name, "", f"an ELF file that cannot be read: {error}")
        return
    try:
        left, right = (text.decode("utf-8").splitlines() for text in (one, other))
    except UnicodeDecodeError:
        yield WheelDifference(name, f"byte {_first(one, other)}", f"{len(one)} bytes, {len(other)} bytes")
        return
    lines = [line for line in difflib.unified_diff(left, right, lineterm="", n=0) if line[:3] not in ("---", "+++")]
    for line in lines[:MOST_LINES]:
        yield WheelDifference(name, "", line[:200])


def _sections(name: str, one: ELFFile, other: ELFFile) -> Iterator[WheelDifference]:
    """The sections that differ, and the symbol at the first differing byte (System V ABI, "Sections")."""
    ones, others = ({section.name: section for section in each.iter_sections()} for each in (one, other))
    for section in sorted(ones.keys() ^ others.keys()):
        yield WheelDifference(name, section, "only in the first" if section in ones else "only in the second")
    for section in ones:
        if section not in others or ones[section].header["sh_type"] == "SHT_NOBITS":
            continue
        left, right = ones[section].data(), others[section].data()
        if left != right:
            at = _first(left, right)
            symbol = _symbol_at(one, ones[section], at)
            sizes = f"{len(left)} bytes" + (f", {len(right)} bytes" if len(left) != len(right) else "")
            yield WheelDifference(
                name, section, f"differs from byte {at} of {sizes}" + (f", in {symbol}" if symbol else "")
            )


def _symbol_at(elf: ELFFile, section: Section, offset: int) -> str | None:
    """The symbol that covers a byte of a section, if a symbol table has one."""
    address = section.header["sh_addr"] + offset
    for table in elf.iter_sections():
        if isinstance(table, SymbolTableSection):
            for symbol in table.iter_symbols():
                start = symbol.entry.st_value
                if symbol.name and start <= address < start + symbol.entry.st_size:
                    return str(symbol.name)
    return None


def _first(one: bytes, other: bytes) -> int:
    """The first byte at which two differ."""
    return next(
        (n for n, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other))
    )
