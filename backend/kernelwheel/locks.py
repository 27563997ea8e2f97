"""A lock between processes that the kernel releases when its last holder is dead: never stale, never guessed at.

flock(2) belongs to the open file, which children inherit. So a compiler that outlives a killed build still holds the
lock of the folder that it writes to, and nobody starts there before it is gone. The lock file is never unlinked:
two processes must not lock two files of one name.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the lock at `path`; yields its file descriptor, for `pass_fds` of children that must be waited for too.

    Args:
        path: the lock file; made where it is missing.
        waiting: called once a second while another process holds the lock.

    Raises:
        OSError: the file cannot be opened, or its filesystem has no locks (ENOLCK, ENOSYS, EOPNOTSUPP).
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waiting is not None:
                    waiting()
                time.sleep(0.05 if waiting is None else 1.0)
        yield descriptor
    finally:
        os.close(descriptor)
