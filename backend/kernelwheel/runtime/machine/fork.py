"""What a forked child has anew: locks between threads, as the thread that holds one is in the parent alone."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from weakref import WeakSet

from .platforms import HOST_PLATFORM


class ThreadLock:
    """A lock, free in a forked child whoever holds it in the parent: `with lock():`."""

    def __init__(self) -> None:
        self._begin()
        _locks.add(self)

    def __call__(self) -> AbstractContextManager[object]:
        """This process's own, which a thread may take again while it holds it."""
        return self._lock

    def _begin(self) -> None:
        self._lock = threading.RLock()


_locks: WeakSet[ThreadLock] = WeakSet()


def _begin_in_child() -> None:
    for lock in _locks:
        lock._begin()


HOST_PLATFORM.at_fork(after_in_child=_begin_in_child)
