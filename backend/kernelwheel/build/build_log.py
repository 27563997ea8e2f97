"""What the log of CMake and Ninja says: how far the build is, and where it went wrong. Text in, text out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# What is quoted of a compiler's complaint; the log has the rest.
QUOTED = 8
COMPLAINT = re.compile(r"\berror\b\W|\bKilled\b|^CMake Error\b")


@dataclass(frozen=True)
class Failure:
    """The first step that failed.

    Attributes:
        output: what was to be made, `CMakeFiles/tiny_cuda.dir/twice.cu.o`; empty where no step of Ninja's failed.
        said: the first lines of the compiler's own words that matter, without its command line.
        complained: whether they hold an error, or the compiler ended without a word of its own.
    """

    output: str
    said: tuple[str, ...]
    complained: bool

    def __str__(self) -> str:
        """The file, and what was said of it."""
        return "\n".join([*([made_from(self.output)] if self.output else []), *self.said]) or "no output"


def progress(line: str) -> str:
    """Ninja's `[3/9] Building CUDA object CMakeFiles/x.dir/a.cu.o` as `[3/9] CUDA a.cu`."""
    count, _, rest = line.rstrip().partition("] ")
    match = re.match(r"(?:Building|Linking) (\w+) (?:object|shared library|shared module) (.*)", rest)
    return f"{count}] {match[1]} {made_from(match[2])}" if match else line.rstrip()


def made_from(output: str) -> str:
    """What a person knows an output by: the source file of an object, the name of a library."""
    path = output.strip('"')
    source = re.fullmatch(r"CMakeFiles/[^/]+\.dir/(.*)\.o", path)
    return source[1] if source else path.rpartition("/")[2]


def first_failure(lines: Sequence[str]) -> Failure:
    """Find what failed first in the lines of a log that ends in failure."""
    failed = next((i for i, line in enumerate(lines) if line.startswith("FAILED: ")), None)
    if failed is None:
        # Not Ninja: CMake itself, or the driver. The driver's own traceback tells a user nothing.
        end = next((i for i, line in enumerate(lines) if line.startswith("Traceback ")), len(lines))
        said, complained = _quote(lines[:end] or lines)
        return Failure("", said, complained)
    output = re.sub(r"^FAILED: (\[code=\d+\] )?", "", lines[failed]).strip()
    after = lines[failed + 2 :]  # the line between is the compiler's whole command
    end = next((i for i, line in enumerate(after) if re.match(r"\[\d+/\d+\] |FAILED: |ninja: ", line)), len(after))
    said, complained = _quote(after[:end], whole=True)
    return Failure(output, said, complained)


def _quote(lines: Sequence[str], *, whole: bool = False) -> tuple[tuple[str, ...], bool]:
    """The lines about the first complaint, and whether there is one; else the first lines, or the last."""
    lines = [line for line in lines if line.strip()]
    first = next((i for i, line in enumerate(lines) if COMPLAINT.search(line)), None)
    if first is None:
        return tuple(lines[:QUOTED] if whole else lines[-QUOTED:]), False
    begin = 0 if whole and first < QUOTED // 2 else max(first - whole, 0)  # what a compiler says before it, "In …:"
    return tuple(lines[begin : begin + QUOTED]), True
