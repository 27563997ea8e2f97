"""Parsing of CMake and Ninja output: progress and the first failure.

Pure functions of text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# How many lines of a compiler error a message quotes; the log has the rest.
QUOTED = 8
COMPLAINT = re.compile(r"\berror\b\W|\bKilled\b|^CMake Error\b")


@dataclass(frozen=True)
class Failure:
    """The first step that failed.

    Attributes:
        output: the step's output, `CMakeFiles/tiny_cuda.dir/twice.cu.o`; empty if no Ninja step failed.
        said: the first relevant lines of the compiler's output, without its command line.
        complained: whether they contain an error; False if the compiler exited without printing one.
    """

    output: str
    said: tuple[str, ...]
    complained: bool

    def __str__(self) -> str:
        """The file, followed by the compiler's lines."""
        return "\n".join([*([made_from(self.output)] if self.output else []), *self.said]) or "no output"


def progress(line: str) -> str:
    """Shorten Ninja's `[3/9] Building CUDA object CMakeFiles/x.dir/a.cu.o` to `[3/9] CUDA a.cu`."""
    count, _, rest = line.rstrip().partition("] ")
    match = re.match(r"(?:Building|Linking) (\w+) (?:object|shared library|shared module) (.*)", rest)
    return f"{count}] {match[1]} {made_from(match[2])}" if match else line.rstrip()


def made_from(output: str) -> str:
    """The name a user recognises an output by: the source file of an object, or a library's file name."""
    path = output.strip('"')
    source = re.fullmatch(r"CMakeFiles/[^/]+\.dir/(.*)\.o", path)
    return source[1] if source else path.rpartition("/")[2]


def first_failure(lines: Sequence[str]) -> Failure:
    """Find the first failure in the log of a failed build."""
    failed = next((i for i, line in enumerate(lines) if line.startswith("FAILED: ")), None)
    if failed is None:
        # CMake or the driver failed, not Ninja. The driver's own traceback is useless to a user.
        end = next((i for i, line in enumerate(lines) if line.startswith("Traceback ")), len(lines))
        said, complained = _quote(lines[:end] or lines)
        return Failure("", said, complained)
    output = re.sub(r"^FAILED: (\[code=\d+\] )?", "", lines[failed]).strip()
    after = lines[failed + 2 :]  # the line in between is the full compiler command
    end = next((i for i, line in enumerate(after) if re.match(r"\[\d+/\d+\] |FAILED: |ninja: ", line)), len(after))
    said, complained = _quote(after[:end], whole=True)
    return Failure(output, said, complained)


def _quote(lines: Sequence[str], *, whole: bool = False) -> tuple[tuple[str, ...], bool]:
    """The lines around the first error and True; if there is none, the first or last lines and False."""
    lines = [line for line in lines if line.strip()]
    first = next((i for i, line in enumerate(lines) if COMPLAINT.search(line)), None)
    if first is None:
        return tuple(lines[:QUOTED] if whole else lines[-QUOTED:]), False
    begin = 0 if whole and first < QUOTED // 2 else max(first - whole, 0)  # include the context line before it, "In …:"
    return tuple(lines[begin : begin + QUOTED]), True
