"""What a wheel's bytes are: by member, packed and unpacked, and by architecture of its device code.

Usage: wheel_size.py WHEEL [LIBRARY]...; further libraries, such as gsplat's from its JIT build, are taken apart for
comparison. The size for an architecture is that of its code unpacked; what all of it takes in the library, where it is
compressed, is the row "in the library".
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from elftools.elf.elffile import ELFFile
from kernel_resources import find_cuobjdump

SMALL = 0.01  # of the wheel: members below this share are added up


def main(wheel: Path, others: list[Path]) -> None:
    """Print the members of the wheel, then the code of its libraries and of the others, a row at a time."""
    with tempfile.TemporaryDirectory() as folder:
        print_members(wheel)
        with ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".so")]
            libraries = [Path(archive.extract(name, folder)) for name in names]
        for library in [*libraries, *others]:
            print_code(library)


def print_members(wheel: Path) -> None:
    """A row for each large member, one for the others, and one for the whole file."""
    with ZipFile(wheel) as archive:
        members = sorted(archive.infolist(), key=lambda member: -member.compress_size)
    size = wheel.stat().st_size
    large = [member for member in members if member.compress_size > SMALL * size]
    others = members[len(large) :]
    row("member", "packed kB", "unpacked kB")
    for member in large:
        row(member.filename, kilobytes(member.compress_size), kilobytes(member.file_size))
    row(
        f"{len(others)} others",
        kilobytes(sum(member.compress_size for member in others)),
        kilobytes(sum(member.file_size for member in others)),
    )
    row(wheel.name, kilobytes(size), kilobytes(sum(member.file_size for member in members)))


def print_code(library: Path) -> None:
    """A row for the device code of each architecture, if there is any, and for what the library has of it."""
    print()
    with library.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".nv_fatbin")
        compressed = section["sh_size"] if section else 0
    row(library.name, "files", "kB")
    if compressed:
        sizes: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for kind, size in images(library):
            sizes[kind] += size
            counts[kind] += 1
        for kind in sorted(sizes, key=lambda kind: (kind.split()[0], int(re.sub(r"\D", "", kind)))):
            row(kind, str(counts[kind]), kilobytes(sizes[kind]))
        row("device code", str(counts.total()), kilobytes(sizes.total()))
        row("in the library", "", kilobytes(compressed))
    row("the rest of it", "", kilobytes(library.stat().st_size - compressed))


def images(library: Path) -> Iterator[tuple[str, int]]:
    """The cubins and PTX of a library, as cuobjdump extracts them: `SASS sm_90`, and the size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        for option in ("--extract-elf", "--extract-ptx"):
            command = [find_cuobjdump(), option, "all", str(library.resolve())]
            subprocess.run(command, cwd=folder, capture_output=True, check=False)  # it fails if there is none
        for path in Path(folder).iterdir():
            if match := re.search(r"\.(sm_\w+)\.(cubin|ptx)$", path.name):
                yield f"{'PTX' if match[2] == 'ptx' else 'SASS'} {match[1]}", path.stat().st_size


def row(name: str, *cells: str) -> None:
    """Print a row, at once."""
    print(f"{name:<60}" + "".join(f"{cell:>13}" for cell in cells), flush=True)


def kilobytes(size: int) -> str:
    """A size for a cell."""
    return f"{size / 1000:.1f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
