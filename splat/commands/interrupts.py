"""Handling Ctrl-C where the work done so far should be kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from .._kernelwheel.cli.exit_status import INTERRUPTED as INTERRUPTED


@contextmanager
def noted_interrupt() -> Iterator[Callable[[], bool]]:
    """Note a first Ctrl-C; a second one raises KeyboardInterrupt. Yields a function that says whether there was one.

    Nothing changes if Ctrl-C is ignored or has another handler, or in threads that cannot handle it.
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
