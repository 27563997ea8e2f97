"""What commands print: lines free of terminal control characters, since names in them come from files and archives."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from ..scene.names import one_line


class CommandParser(argparse.ArgumentParser):
    """Reports wrong arguments, which may be names of files, safely."""

    def error(self, message: str) -> NoReturn:
        """End the program with status 2."""
        super().error(one_line(message))


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
