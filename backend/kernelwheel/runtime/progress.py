"""Progress output on standard error: one line per file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from .errors import printable

Say = Callable[[str], None]  # takes one line of progress


def print_line(line: str, to_stdout: bool = False) -> None:
    """Print a line; ignore a closed stream or broken pipe, since a compile must not fail because nobody listens."""
    file = sys.stdout if to_stdout else sys.stderr
    if file is None:
        return
    try:
        print(f"{line}\n", end="", file=file, flush=True)  # in one piece, as other threads print too
    except BrokenPipeError:
        abandon(file)
    except (OSError, ValueError):
        pass


def abandon(stream: TextIO | None) -> None:
    """Discard what a stream that nobody reads still holds: Python would write it at exit, and fail (status 120)."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def printer(package: str) -> Say:
    """What prints progress of a package."""
    return lambda line: print_line(f"{package}: {printable(line)}")
