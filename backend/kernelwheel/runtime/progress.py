"""Progress output on standard error: one line per file, which a terminal shows in the same place."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from .errors import printable

Say = Callable[[str], None]  # takes one line of progress


def print_line(line: str, to_stdout: bool = False, end: str = "\n") -> None:
    """Print a line; ignore a closed stream or broken pipe, since a compile must not fail because nobody listens."""
    file = sys.stdout if to_stdout else sys.stderr
    if file is None:
        return
    try:
        print(line, file=file, flush=True, end=end)
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


@contextmanager
def shown(package: str) -> Iterator[Say]:
    """Yield a function that shows one line of progress; `[3/9] CUDA a.cu` takes the last one's place on a terminal."""
    to_terminal, begin = sys.stderr is not None and sys.stderr.isatty(), time.monotonic()

    def say(line: str) -> None:
        text = f"{package}: {printable(line)}"
        if not to_terminal:
            print_line(text)
        elif re.match(r"\[\d+/\d+\] ", line):
            _rewrite(f"{text} ({time.monotonic() - begin:.0f} s)")
        else:
            _rewrite("")
            print_line(text)

    try:
        yield say
    finally:
        if to_terminal:
            _rewrite("")


def _rewrite(text: str) -> None:
    """Put a text in the place of a terminal's last line, where the cursor stays."""
    width = shutil.get_terminal_size().columns - 1
    print_line(f"\r{text[:width].ljust(width)}\r{text[:width]}", end="")
