"""Parsing of CMake and Ninja output: progress and the first failure. Pure functions of text."""

from __future__ import annotations

import re
from collections.abc import Sequence

# How many lines of a compiler error a message quotes; the log has the rest.
QUOTED = 8
COMPLAINT = re.compile(r"\berror\b\W|\bKilled\b|^CMake Error\b")


def progress(line: str) -> str:
    """Shorten Ninja's `[3/9] Building CUDA object CMakeFiles/x.dir/a.cu.o` to `[3/9] CUDA a.cu`."""
    count, _, rest = line.rstrip().partition("] ")
    match = re.match(r"(?:Building|Linking) (\w+) (?:object|shared library|shared module) (.*)", rest)
    return f"{count}] {match[1]} {_source_of(match[2])}" if match else line.rstrip()


def first_failure(lines: Sequence[str]) -> str:
    """The first failure in the log of a failed build: the file, followed by the compiler's relevant lines."""
    failed = next((i for i, line in enumerate(lines) if line.startswith("FAILED: ")), None)
    if failed is None:
        # CMake or the driver failed, not Ninja. The driver's own traceback is useless to a user.
        end = next((i for i, line in enumerate(lines) if line.startswith("Traceback ")), len(lines))
        return "\n".join(_quote(lines[:end] or lines)) or "no output"
    output = re.sub(r"^FAILED: (\[code=\d+\] )?", "", lines[failed]).strip()
    after = lines[failed + 2 :]  # the line in between is the full compiler command
    end = next((i for i, line in enumerate(after) if re.match(r"\[\d+/\d+\] |FAILED: |ninja: ", line)), len(after))
    return "\n".join([_source_of(output), *_quote(after[:end], one_step=True)])


def _source_of(output: str) -> str:
    """The name a user recognises an output by: the source file of an object, or a library's file name."""
    path = output.strip('"')
    source = re.fullmatch(r"CMakeFiles/[^/]+\.dir/(.*)\.o", path)
    return source[1] if source else path.rpartition("/")[2]


def _quote(lines: Sequence[str], *, one_step: bool = False) -> list[str]:
    """The lines around the first error; if there is none, the first lines of one step, or the last of a whole log."""
    lines = [line for line in lines if line.strip()]
    first = next((i for i, line in enumerate(lines) if COMPLAINT.search(line)), None)
    if first is None:
        return lines[:QUOTED] if one_step else lines[-QUOTED:]
    # Include the context line before it, "In …:".
    begin = 0 if one_step and first < QUOTED // 2 else max(first - one_step, 0)
    return lines[begin : begin + QUOTED]
