"""File checks that tell a file that does not exist from one that this user cannot access."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

# errno values for a path that leads nowhere.
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def is_seen(path: Path) -> bool:
    """Whether a file or folder exists, as far as this user can see.

    `Path.exists` raises if a folder on the way cannot be entered, such as another user's home.
    """
    try:
        path.stat()
    except OSError:
        return False
    return True


def is_file(path: Path) -> bool:
    """Whether a file exists. From Python 3.14 on, `Path.is_file` returns False even if it cannot know.

    Raises:
        OSError: the file cannot be accessed.
    """
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a folder exists; raises as `is_file`."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in NOT_THERE:
            return 0
        raise
