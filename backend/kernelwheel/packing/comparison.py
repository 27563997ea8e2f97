"""The comparison of two wheels that should be one: which members differ, and where in them.

`python -m kernelwheel compare ONE OTHER` prints it, and exits with 1 if the files are not equal byte for byte. The
wheels may be anybody's: they are read block by block, and what they say is printed with control characters escaped.
"""

from __future__ import annotations

import argparse
import difflib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import zip_longest
from pathlib import Path
from typing import IO, NamedTuple
from zipfile import ZipFile, ZipInfo

from ..core.digests import file_sha256
from ..core.errors import IncompatibleArtifactError, UnreadableArtifactError, way_out
from ..core.printable import printable
from ..store.archive import member_blocks, opened_zip
from .elf_sections import MAGIC, first_byte, section_differences

MOST_LINES = 10  # of one text
MOST_COMPARED = 200  # lines of a text, from the first that differs
LONGEST_LINE = 200
LARGEST_TEXT = 1 << 20  # bytes of a member that is compared line by line
LARGEST_MEMBER = 1 << 32  # bytes
LARGEST_LIBRARY = 1 << 30  # bytes that are put on disk, to look for sections


class WheelDifference(NamedTuple):
    """A place where two wheels differ: a member, where in it (may be empty), and how."""

    member: str
    place: str
    how: str

    def __str__(self) -> str:
        return ": ".join(printable(part) for part in self if part)


def main(arguments: Sequence[str]) -> int:
    """Print what differs between two wheels; return 1 if anything does."""
    parser = argparse.ArgumentParser(
        prog="python -m kernelwheel compare", description="Show what differs between two wheels of the same build."
    )
    parser.add_argument("one", type=Path, metavar="ONE")
    parser.add_argument("other", type=Path, metavar="OTHER")
    args = parser.parse_args(arguments)
    found = compare(args.one, args.other)
    print("\n".join(map(str, found)) or f"equal, byte for byte: {printable(args.one.name)}")
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
        with opened_zip(one) as first, opened_zip(other) as second:
            found = [*names, *_members(_Wheel(one, first), _Wheel(other, second))]
    except UnreadableArtifactError:
        raise
    except (IncompatibleArtifactError, OSError) as error:
        raise IncompatibleArtifactError(
            "the wheels cannot be compared",
            required=f"two wheels: {one}, {other}",
            found=error.found if isinstance(error, IncompatibleArtifactError) else f"{type(error).__name__}: {error}",
            remedies=[way_out(error) if isinstance(error, OSError) else "build them again"],
        ) from error
    return found or [WheelDifference("", "zip", "the members are equal, the bytes around them are not")]


class _Wheel:
    """An open wheel; its members by name, and by number for those of one name."""

    def __init__(self, path: Path, archive: ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.members = _numbered(archive)

    def blocks(self, member: tuple[str, int]) -> Iterator[bytes]:
        return member_blocks(self.path, self.archive, self.members[member], LARGEST_MEMBER)


def _numbered(archive: ZipFile) -> dict[tuple[str, int], ZipInfo]:
    seen: Counter[str] = Counter()
    members = {}
    for info in archive.infolist():
        members[info.filename, seen[info.filename]] = info
        seen[info.filename] += 1
    return members


def _members(one: _Wheel, other: _Wheel) -> Iterator[WheelDifference]:
    ones, others = one.members, other.members
    for name, number in sorted(ones.keys() ^ others.keys()):
        yield WheelDifference(name, "", "only in the first" if (name, number) in ones else "only in the second")
    common = [member for member in ones if member in others]
    if common != [member for member in others if member in ones]:
        yield WheelDifference("", "zip", "the members are in another order")
    for member in common:
        yield from _headers(ones[member], others[member])
        try:
            yield from _contents(member, one, other)
        except UnreadableArtifactError:
            raise
        except IncompatibleArtifactError as error:
            yield WheelDifference(member[0], "", f"cannot be unpacked: {error.found}")


def _headers(one: ZipInfo, other: ZipInfo) -> Iterator[WheelDifference]:
    """What zip says of a member besides its contents (APPNOTE.TXT, 4.3.7)."""
    for what in ("date_time", "external_attr", "compress_type", "create_system", "extra"):
        left, right = getattr(one, what), getattr(other, what)
        if left != right:
            yield WheelDifference(one.filename, f"zip {what}", f"{left!r}, {right!r}")
    if one.CRC == other.CRC and one.compress_size != other.compress_size:
        yield WheelDifference(one.filename, "zip", "compressed by another zlib")


def _contents(member: tuple[str, int], one: _Wheel, other: _Wheel) -> Iterator[WheelDifference]:
    name, sizes = member[0], tuple(each.members[member].file_size for each in (one, other))
    at, libraries = _first_difference(one.blocks(member), other.blocks(member))
    if at is None:
        return
    if libraries and max(sizes) <= LARGEST_LIBRARY:
        with _on_disk(one.blocks(member)) as left, _on_disk(other.blocks(member)) as right:
            places = list(section_differences(left, right))
        yield from (WheelDifference(name, place, how) for place, how in places)
        if places:
            return
    if not libraries and max(sizes) <= LARGEST_TEXT:
        ones, others = (_lines(b"".join(each.blocks(member))) for each in (one, other))
        if ones and others:
            first = next(number for number, (left, right) in enumerate(zip_longest(ones, others)) if left != right)
            yield WheelDifference(name, f"line {first + 1}", "the first that differs")
            for line in _changes(*(lines[first : first + MOST_COMPARED] for lines in (ones, others))):
                yield WheelDifference(name, "", line)
            return
    yield WheelDifference(name, f"byte {at}", f"{sizes[0]} bytes, {sizes[1]} bytes")


def _first_difference(ones: Iterator[bytes], others: Iterator[bytes]) -> tuple[int | None, bool]:
    """The first byte at which two members differ, None if they are equal; and whether both are libraries."""
    at, libraries = 0, None
    for one, other in zip_longest(ones, others, fillvalue=b""):
        if libraries is None:
            libraries = one.startswith(MAGIC) and other.startswith(MAGIC)
        if one != other:
            return at + first_byte(one, other), libraries
        at += len(one)
    return None, False


def _lines(text: bytes) -> list[str]:
    """The lines of a text; none if it is none."""
    with suppress(UnicodeDecodeError):
        return [] if b"\0" in text else text.decode("utf-8").split("\n")
    return []


def _changes(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    changes = (
        line for line in difflib.unified_diff(one, other, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")
    )
    for number, line in enumerate(changes):
        if number == MOST_LINES:
            return
        yield line[:LONGEST_LINE]


def _on_disk(blocks: Iterable[bytes]) -> IO[bytes]:
    """A file with these blocks, which is removed when it is closed."""
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        file.writelines(blocks)
        stack.pop_all()
    return file
