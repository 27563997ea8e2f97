"""Looking at files that may be anybody's, and telling those that are not there from those that cannot be looked at."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

# What the system answers for a path that leads nowhere.
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def is_seen(path: Path) -> bool:
    """Whether there is such a file or folder, as far as this user can see.

    `Path.exists` raises where a folder on the way may not be entered, such as another user's home.
    """
    try:
        path.stat()
    except OSError:
        return False
    return True


def is_file(path: Path) -> bool:
    """Whether there is such a file. `Path.is_file` answers no, from Python 3.14 on, also where nobody can know.

    Raises:
        OSError: it cannot be looked at.
    """
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """The same for a folder."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in NOT_THERE:
            return 0
        raise
