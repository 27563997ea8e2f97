"""A lock between processes that the kernel releases when its last holder is dead: never stale, never guessed at.

flock(2) belongs to the open file, which children inherit. So a compiler that outlives a killed build still holds the
lock of the folder that it writes to, and nobody starts there before it is gone. A child of fork, which has nothing to
do with what its parent holds, closes it. The lock file is never unlinked: two processes must not lock two files of
one name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# What a filesystem answers that has no working locks (some network filesystems).
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}

POLL = 0.05  # seconds
REMINDER = 10.0  # seconds

_held: set[int] = set()
_guard = threading.RLock()  # held while a process forks, and while _held is not yet what is open


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the lock at `path`; yields its file descriptor, for `pass_fds` of children that must be waited for too.

    Args:
        path: the lock file; made where it is missing.
        waiting: called at once where another process holds the lock, and now and then until it is free.

    Raises:
        OSError: the file cannot be opened or is another user's, or its filesystem has no locks (NO_LOCKS).
    """
    with _guard:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _held.add(descriptor)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the lock file is another user's", str(path))
        due = 0.0
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
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


def _close_in_child() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_close_in_child)
