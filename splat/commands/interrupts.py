"""Ctrl-C, where what was done so far is to be kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""The exit status of a command that Ctrl-C has ended."""


@contextmanager
def noted_interrupt() -> Iterator[Callable[[], bool]]:
    """A first Ctrl-C is noted, and the function that this gives says so; a second one is a KeyboardInterrupt.

    Nothing changes where Ctrl-C is ignored or handled by somebody else, and in threads that cannot handle it.
    """
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        noted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
