"""The command line, `python -m splat COMMAND`.

Exit status: 0 for success, 1 for a failure or a finding, 2 for wrong usage, 130 if interrupted, 141 if nobody reads
the output any more.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from . import __version__
from ._kernelwheel.core.errors import KernelWheelError
from .commands import cache_command, doctor_command, fit_command, inspect_command, render_command
from .commands.interrupts import INTERRUPTED
from .commands.memory import NotEnoughMemory, enough_memory

COMMANDS = {
    "render": (render_command, "render a picture of a scene"),
    "fit": (fit_command, "fit a scene to pictures"),
    "doctor": (doctor_command, "show what is installed, what this machine has, and whether they fit"),
    "inspect": (inspect_command, "show what a wheel contains and whether it fits this machine"),
    "cache": (cache_command, "manage the store of compiled kernels"),
}
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        with _checked_output():
            return _run(argv)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except _OutputError as error:
        _abandon(sys.stdout)
        if isinstance(error.__cause__, BrokenPipeError):
            return BROKEN_PIPE
        return _fail(f"standard output cannot be written to: {error}")
    except BrokenPipeError:  # on standard error; those on standard output are handled above
        _abandon(sys.stderr)
        return BROKEN_PIPE
    except (KernelWheelError, NotEnoughMemory, OSError) as error:
        return _fail(str(error))


def _run(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="splat", description="3D Gaussian splatting for PyTorch")
    parser.add_argument("--version", action="version", version=f"splat {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    args = parser.parse_args(argv)
    with enough_memory(lambda: args.command, "free some, or use a machine with more"):
        return int(COMMANDS[args.command][0].run(args))


def _fail(message: str, status: int = 1) -> int:
    try:
        print(f"splat: {message}", file=sys.stderr, flush=True)
    except OSError:
        _abandon(sys.stderr)
    return status


class _OutputError(Exception):
    """Writing to standard output failed. Not an OSError, which would look like a file's, and which argparse ignores."""


class _Output:
    """Standard output, with its failures raised as _OutputError."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if self._stream is None:
            raise _OutputError("it is closed")
        try:
            return self._stream.write(text)
        except OSError as error:
            raise _OutputError(error) from error

    def flush(self) -> None:
        if self._stream is None:
            return
        try:
            self._stream.flush()
        except OSError as error:
            raise _OutputError(error) from error


@contextmanager
def _checked_output() -> Iterator[None]:
    """Make sure that everything printed is written by the end, or raise _OutputError."""
    before = sys.stdout
    output = _Output(before)  # None if it was closed from the start
    sys.stdout = cast(TextIO, output)
    try:
        yield
    finally:
        sys.stdout = before
        output.flush()


def _abandon(stream: TextIO | None) -> None:
    """Discard what is not yet written: Python would write it at exit, and complain."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
