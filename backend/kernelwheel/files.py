"""Looking at files that may be anybody's."""

from __future__ import annotations

from pathlib import Path


def is_seen(path: Path) -> bool:
    """Whether there is such a file or folder, as far as this user can see.

    `Path.exists` raises where a folder on the way may not be entered, such as another user's home.
    """
    try:
        path.stat()
    except OSError:
        return False
    return True
