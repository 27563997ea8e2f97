"""What commands print: lines free of terminal control characters, since names in them come from files and archives."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from ..scene.names import one_line

# An axis, or numbers between commas: no option is called so.
_VALUE: Final = re.compile(r"-[xyz]|-[\d.][-+\d.e]*(,[-+\d.e]*)+", re.IGNORECASE)


class CommandParser(argparse.ArgumentParser):
    """Reports wrong arguments, which may be names of files, safely."""

    def error(self, message: str) -> NoReturn:
        """End the program with status 2."""
        super().error(one_line(message))

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Take `--up -y` and `--crop -1,...` like `--up=-y`: argparse would take the values for other options."""
        words: list[str] = []
        for word in sys.argv[1:] if args is None else args:
            if words and re.fullmatch("--[a-z-]+", words[-1]) and _VALUE.fullmatch(word):
                words[-1] += f"={word}"
            else:
                words.append(word)
        return super().parse_known_args(words, namespace)


def print_result(text: str, flush: bool = False) -> None:
    """Print a line of a command's result."""
    print(one_line(text), flush=flush)


def print_error(message: object) -> None:
    """Print what went wrong, as a line on standard error."""
    print(f"splat: {one_line(str(message))}", file=sys.stderr)


def print_warning(message: object) -> None:
    """Print what may be wrong, as a line on standard error."""
    print_error(f"warning: {message}")


def print_progress(text: str) -> None:
    """Print how far a command is, as a line on standard error, at once."""
    print(one_line(text), file=sys.stderr, flush=True)
