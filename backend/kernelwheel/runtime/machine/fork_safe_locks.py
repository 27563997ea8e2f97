"""Locks between processes, and between threads, and what a fork makes of them.

Those between processes never go stale: the kernel releases one when its last holder is dead. flock(2) belongs to the
open file, which child processes can inherit. A compiler that outlives its killed build still holds the lock of the
folder that it writes to, and nobody else starts there before it ends. A plain fork, which has no part in its parent's
work, closes the lock. The lock file is never unlinked: otherwise, two processes could lock two different files of the
same name.

This is not the library filelock: without flock, version 4 falls back to a lock *file*, which can go stale, and it hands
no descriptor to child processes.

Those between threads are free in a forked child: the thread that holds one is in the parent alone.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from .platforms import HOST_PLATFORM

POLL = 0.05  # seconds
REMINDER = 10.0  # seconds

_held: set[int] = set()
_guard = threading.RLock()  # held during a fork, and while _held does not yet match the open descriptors


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the lock at `path`; yields its file descriptor, for the `pass_fds` of children that must hold it too.

    Args:
        path: the lock file; created if missing.
        waiting: called at once if another process holds the lock, then now and then until it is free.

    Raises:
        OSError: the file cannot be opened or is another user's, or its filesystem has no locks
            (HOST_PLATFORM.no_locks).
    """
    with _guard:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _held.add(descriptor)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the lock file is another user's", str(path))
        due = 0.0
        while not HOST_PLATFORM.try_lock(descriptor):
            if waiting is not None and time.monotonic() >= due:
                waiting()
                due = time.monotonic() + REMINDER
            time.sleep(POLL)
        yield descriptor
    finally:
        with _guard:
            if descriptor in _held:
                _held.remove(descriptor)
                os.close(descriptor)


@contextmanager
def kept_in_child() -> Iterator[None]:
    """Let a child that is forked in the body keep the locks of this process: it has a part in its work."""
    with _guard:
        held = set(_held)
        _held.clear()
        try:
            yield
        finally:
            _held.update(held)


class ThreadLock:
    """A reentrant lock, free in a forked child whoever holds it in the parent."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _thread_locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # in a child that was forked in the body: its own is not held
            self._lock.release()


_thread_locks: WeakSet[ThreadLock] = WeakSet()


def _begin_in_child() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()
    _guard.release()
    for lock in _thread_locks:
        lock._lock = threading.RLock()


if sys.platform != "win32":
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_begin_in_child)
