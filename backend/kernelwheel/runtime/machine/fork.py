"""What a forked child has anew: locks between threads, as the thread that holds one is in the parent alone."""

from __future__ import annotations

import threading
from contextlib import suppress
from weakref import WeakSet

from .platforms import HOST_PLATFORM


class ThreadLock:
    """A reentrant lock, free in a forked child whoever holds it in the parent."""

    def __init__(self) -> None:
        self._begin()
        _locks.add(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # in a child that was forked in the body: its own is not held
            self._lock.release()


_locks: WeakSet[ThreadLock] = WeakSet()


def _begin_in_child() -> None:
    for lock in _locks:
        lock._begin()


HOST_PLATFORM.at_fork(after_in_child=_begin_in_child)
