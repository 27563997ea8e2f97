"""Progress output on standard error: a bar on a terminal, otherwise one line per file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from .printable import printable

Say = Callable[[str], None]  # takes one line of progress


def print_line(line: str, to_stdout: bool = False) -> None:
    """Print a line; ignore a closed stream or broken pipe, since a compile must not fail because nobody listens."""
    file = sys.stdout if to_stdout else sys.stderr
    if file is None:
        return
    try:
        print(line, file=file, flush=True)
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
    """Yield a function that shows one line of progress; `[3/9] CUDA a.cu` moves the bar."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda line: print_line(f"{package}: {printable(line)}")
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(package, total=None)

        def say(line: str) -> None:
            line = printable(line)
            count = re.match(r"\[(\d+)/(\d+)\] (.*)", line)
            if count:
                bar.update(task, completed=int(count[1]), total=int(count[2]), description=f"{package}: {count[3]}")
            else:
                console.print(f"{package}: {line}", markup=False, highlight=False)

        yield say
