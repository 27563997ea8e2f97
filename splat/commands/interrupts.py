"""Handling Ctrl-C and SIGTERM where the work done so far should be kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .._kernelwheel.commands.exit_status import INTERRUPTED as INTERRUPTED


class _TerminatedError(BaseException):
    """A signal that ends the program has come."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise _TerminatedError(number)


@contextmanager
def unwound_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the program as they do by default, but only after the block has cleaned up.

    Nothing changes for a signal that is ignored or has another handler, or in threads that cannot handle them.
    """
    ours = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    ours = [number for number in ours if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    except _TerminatedError as ended:
        signal.signal(ended.number, signal.SIG_DFL)
        signal.raise_signal(ended.number)
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def catch_interrupt(also_sigterm: bool = False, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Catch a first Ctrl-C; a second one raises KeyboardInterrupt. Yields a function that says whether there was one.

    `also_sigterm` does the same with SIGTERM, the second of which ends the program. With `patient`, later ones are only
    caught: torchrun passes on what a terminal has already sent to all processes. Nothing changes for a signal that is
    ignored or has another handler, or in threads that cannot handle them.
    """
    caught = False
    first: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler}
    if also_sigterm:
        first[signal.SIGTERM] = _end if signal.getsignal(signal.SIGTERM) is _end else signal.SIG_DFL
    before = {number: signal.getsignal(number) for number in first}
    ours = [number for number in first if before[number] is first[number]]

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal caught
        caught = True
        if not patient:
            for each in ours:
                signal.signal(each, first[each])

    if threading.current_thread() is not threading.main_thread():
        ours = []
    for number in ours:
        signal.signal(number, note)
    try:
        yield lambda: caught
    finally:
        for number in ours:
            signal.signal(number, before[number])
