"""The exit status of a program, and what it says if it fails, is interrupted, or cannot write its output.

The status is 0 for success, 1 for a failure or a finding, 2 for wrong usage, 130 if interrupted, and 141 if nobody
reads the output any more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn, TextIO, cast

from ..errors import TEXT, KernelWheelError, printable
from ..progress import abandon

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


def finish(program: str, work: Callable[[], int], expected: tuple[type[Exception], ...] = ()) -> int:
    """Do a program's work and return its exit status.

    An error of ours or of the system is one message on standard error, without a traceback.
    """
    messages: tuple[type[Exception], ...] = (KernelWheelError, OSError, *expected)
    try:
        with _Output():
            return work()
    except KeyboardInterrupt:
        return _fail(program, "interrupted", INTERRUPTED)
    except _OutputError as error:
        abandon(sys.stdout)
        if isinstance(error.__cause__, BrokenPipeError):
            return BROKEN_PIPE
        return _fail(program, f"standard output cannot be written to: {error}")
    except BrokenPipeError:  # on standard error; those on standard output are handled above
        abandon(sys.stderr)
        return BROKEN_PIPE
    except messages as error:
        return _fail(program, str(error))


def _fail(program: str, message: str, status: int = 1) -> int:
    try:
        print(f"{program}: {printable(message, TEXT)}", file=sys.stderr, flush=True)
    except OSError:
        abandon(sys.stderr)
    return status


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments, which may be names of files, without what a terminal would obey."""

    def error(self, message: str) -> NoReturn:
        """End the program with status 2."""
        super().error(printable(message))


class _OutputError(Exception):
    """Writing to standard output failed. Not an OSError, which would look like a file's, and which argparse ignores."""


class _Output:
    """Standard output: its failures, also those at its end, are raised as _OutputError; what does not print is escaped.

    So no command needs to know which of its words are from somebody else's file.
    """

    _stream: TextIO | None  # None if it was closed from the start

    def __enter__(self) -> None:
        self._stream = sys.stdout
        sys.stdout = cast(TextIO, self)

    def __exit__(self, *_: object) -> None:
        sys.stdout = cast(TextIO, self._stream)
        self.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if self._stream is None:
            raise _OutputError("it is closed")
        # What is redirected is in the encoding of the system's language on Windows, which lacks most characters.
        encoding = self._stream.encoding or "utf-8"
        try:
            return self._stream.write(printable(text, TEXT).encode(encoding, "backslashreplace").decode(encoding))
        except OSError as error:
            raise _OutputError(error) from error

    def flush(self) -> None:
        if self._stream is None:
            return
        try:
            self._stream.flush()
        except OSError as error:
            raise _OutputError(error) from error
