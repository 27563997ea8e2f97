"""Loading a library is running its code: nothing is taken from a place that somebody else can write to."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .errors import StoreError


class Guard(NamedTuple):
    """Refuses what others could have put into a cache folder.

    Attributes:
        folder: the cache folder. It may be a link of this user's.
        own: whether all of it must be this user's or root's, in a folder that may have the sticky bit, as /tmp has;
            else it may be anybody's who lets nobody else write.
        variable: the environment variable that names another folder.
    """

    folder: Path
    own: bool
    variable: str

    def check_folder(self, folder: Path) -> None:
        """Refuse a folder below the cache folder where it, or one above it, is a link or others' to write to.

        Raises:
            StoreError: with the command that mends it.
            OSError: it cannot be looked at.
        """
        top = self.folder.lstat()
        if stat.S_ISLNK(top.st_mode) and self._is_owned(top):
            top = self.folder.stat()
        if not (self.own and stat.S_ISDIR(top.st_mode) and top.st_mode & stat.S_ISVTX and self._is_owned(top)):
            self._refuse_unsafe(self.folder, top, stat.S_ISDIR)
        inside = self.folder
        for part in folder.relative_to(self.folder).parts:
            inside /= part
            self._refuse_unsafe(inside, inside.lstat(), stat.S_ISDIR)

    def check_file(self, path: Path) -> None:
        """Refuse a file that is a link, or others' to write to. Raises as `check_folder`."""
        self._refuse_unsafe(path, path.lstat(), stat.S_ISREG)

    def _is_owned(self, info: os.stat_result) -> bool:
        return info.st_uid in (os.geteuid(), 0) or not self.own

    def _refuse_unsafe(self, path: Path, info: os.stat_result, is_kind: Callable[[int], bool]) -> None:
        strangers = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_kind(info.st_mode) and not strangers and self._is_owned(info):
            return
        kind = "folder" if is_kind is stat.S_ISDIR else "file"
        raise StoreError(
            f"the store of compiled kernels is not safe: {path}",
            required=f"a {kind} (no link) that only this user can write to, because loading a library runs its code",
            found=f"{stat.filemode(info.st_mode)}, owner {info.st_uid}, this user {os.geteuid()}",
            remedies=[
                f"chmod go-w {path}" if is_kind(info.st_mode) and self._is_owned(info) else f"remove {path}",
                f"or choose another cache folder: {self.variable}",
            ],
        )
