"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(name: str, total: int, done: int = 0) -> Iterator[Callable[[int, str], bool]]:
    """Yield a function that shows how many of `total` are done, with words.

    It returns whether there is a terminal to show them on; if not, nothing is shown.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn(name, markup=False),  # words may be names of files: [/x] is no markup
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total, completed=done)

        def show(completed: int, words: str) -> bool:
            progress.update(task, completed=completed, description=words)
            return console.is_terminal

        yield show


def duration(seconds: float) -> str:
    """Seconds as people say them: 12 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
