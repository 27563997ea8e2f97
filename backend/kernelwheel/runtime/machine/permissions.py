"""The check that only root, this user and users named in the settings could have changed what is loaded.

Loading a library runs its code. A cache folder is therefore opened from the root of the filesystem downwards, folder by
folder and by descriptor (openat(2)), with the owner and mode of each checked. What was checked is also what is used:
replacing it afterwards would take write access to one of these folders.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError
from ..record import Record
from .platforms import contents_of

FOLDER = 0o755  # for cache folders, whatever the umask: others may read but not write
PRIVATE = 0o700  # for anything unfinished
FILE = 0o644
_MAX_LINKS = 40  # Linux's own limit for one path, path_resolution(7)
_AT_SECURE = 23  # elf.h


class Trust(Record):
    """The users whose files are loaded, besides root and this user."""

    others: frozenset[int] = frozenset()  # the numbers of further users
    everyone: bool = False  # whether to skip all checks, for a machine or a container without other users

    def includes(self, user: int) -> bool:
        """Whether files of this user may be loaded."""
        named = user in (0, os.geteuid()) or user in self.others
        return self.everyone or (named and not stands_for_many(user))


NOBODY_ELSE = Trust()


class Guard(Record):
    """Opens folders and files below a cache folder, and refuses what others could have put there.

    On the way to the cache folder, links are followed if a trusted user made them. A folder on the way may be writable
    by all if its sticky bit is set, as for /tmp; above the cache folder, a folder may also be writable by a group whose
    members are known and all trusted. Below the cache folder, links are refused and nobody else may write at all.
    """

    folder: Path  # the cache folder, an absolute path
    trust: Trust  # the users whose files are loaded
    name: str  # what the folder is, for errors: `the store of compiled kernels`
    variable: str  # the environment variable that sets another folder
    trust_variable: str  # the one that sets further users to trust

    @contextmanager
    def opened(self, folder: Path, make: int | None = None) -> Iterator[int]:
        """The descriptor of a folder: the cache folder or one below it."""
        descriptor = self._open_folder(folder, make)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def check(self, folder: Path, make: int | None = None) -> None:
        """Refuse a folder that others could have changed, after making it and its parents if `make` is their mode."""
        with self.opened(folder, make):
            pass

    def open_file(self, parent: int, name: str, path: Path) -> int:
        """The descriptor of a file in an open folder, for reading; `path` is named in errors. Raises as `opened`."""
        try:
            # Without O_NONBLOCK, opening a FIFO that somebody put there would block for ever.
            descriptor = _open(name, os.O_RDONLY | os.O_NONBLOCK, parent, path)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise self._unsafe(path, os.stat(name, dir_fd=parent, follow_symlinks=False), "file") from error
        info = os.fstat(descriptor)
        if stat.S_ISREG(info.st_mode) and self._is_ours_alone(info):
            return descriptor
        os.close(descriptor)
        raise self._unsafe(path, info, "file")

    def _open_folder(self, folder: Path, make: int | None) -> int:
        """Open a folder from the root downwards, following links here rather than in the kernel."""
        names = list(reversed(folder.parts[1:]))
        below = len(folder.relative_to(self.folder).parts)  # how many of the names are below the cache folder
        descriptor, where, links = _open("/", os.O_PATH | os.O_DIRECTORY, None, Path("/")), Path("/"), 0
        try:
            self._check_folder(where, descriptor, len(names) - below)
            while names:
                name = names.pop()
                path, above = where / name, len(names) - below
                try:
                    following = _open(name, os.O_PATH, descriptor, path)
                except FileNotFoundError:
                    if make is None:
                        raise
                    # Folders above the cache folder follow the umask, but are never writable by others.
                    following = _made(name, descriptor, make, exactly=above <= 0)
                info = os.fstat(following)
                if stat.S_ISLNK(info.st_mode) and above >= 0:
                    links += 1
                    target = os.readlink("", dir_fd=following)
                    os.close(following)
                    if not self.trust.includes(info.st_uid):
                        raise self._unsafe(path, info, "folder")
                    if links > _MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.folder))
                    if target.startswith("/"):
                        where = Path("/")
                        descriptor = _exchanged(descriptor, _open("/", os.O_PATH | os.O_DIRECTORY, None, where))
                    names += reversed([part for part in target.split("/") if part not in ("", ".")])
                    continue
                descriptor, where = _exchanged(descriptor, following), path
                self._check_folder(where, descriptor, above)
            # An O_PATH descriptor cannot be listed: open the folder for reading.
            return _exchanged(descriptor, _open(".", os.O_RDONLY | os.O_DIRECTORY, descriptor, where))
        except BaseException:
            os.close(descriptor)
            raise

    def _check_folder(self, path: Path, descriptor: int, above: int) -> None:
        """Check a folder that is so many levels above the cache folder; negative: below it."""
        info = os.fstat(descriptor)
        if above >= 0 and not stat.S_ISDIR(info.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if stat.S_ISDIR(info.st_mode) and self._is_ours_alone(info):
            return
        if above >= 0 and self.trust.includes(info.st_uid):
            if info.st_mode & stat.S_ISVTX:
                return  # others can add to it, but cannot rename or remove what is ours
            if above and not info.st_mode & stat.S_IWOTH:
                members = group_writers(descriptor, info)
                if members is not None and all(map(self.trust.includes, members)):
                    return  # as a user's private group
        raise self._unsafe(path, info, "folder")

    def _is_ours_alone(self, info: os.stat_result) -> bool:
        others_may_write = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return self.trust.everyone or (self.trust.includes(info.st_uid) and not others_may_write)

    def _unsafe(self, path: Path, info: os.stat_result, kind: str) -> StoreError:
        right_kind = stat.S_ISDIR(info.st_mode) if kind == "folder" else stat.S_ISREG(info.st_mode)
        if not right_kind:
            remedy = f"remove {path}"
        elif self.trust.includes(info.st_uid):
            remedy = f"chmod go-w {path}"
        else:
            remedy = f"set {self.trust_variable}={info.st_uid} if that user's code may run as this user"
        return StoreError(
            f"{self.name} is not safe: {path}",
            required=f"a {kind} (not a link) that only root, this user and those in {self.trust_variable} can write "
            "to, because loading a library runs its code",
            found=f"{stat.filemode(info.st_mode)}, owner {info.st_uid}, group {info.st_gid}, this user {os.geteuid()}",
            remedies=[remedy, f"or set {self.variable} to another folder"],
        )


def _open(name: str, flags: int, parent: int | None, path: Path) -> int:
    """The descriptor of something in an open folder, or of the root; `path` is named in errors."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _made(name: str, parent: int, mode: int, exactly: bool) -> int:
    """The descriptor of a folder made in an open one, by us or by another process that was faster."""
    try:
        os.mkdir(name, mode, dir_fd=parent)
        made = True
    except FileExistsError:
        made = False
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    if made and exactly and os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, mode)  # mkdir(2) applies the umask
    return descriptor


def _exchanged(old: int, new: int) -> int:
    os.close(old)
    return new


def has_other_privileges() -> bool:
    """Whether this process has other privileges than its starter, or had them at its start and may take them back.

    Those of a setuid program that has put them aside are in its saved ids. What came with the program's file, such
    as capabilities, the kernel says by AT_SECURE, getauxval(3).
    """
    getauxval = ctypes.pythonapi["getauxval"]
    getauxval.argtypes, getauxval.restype = (ctypes.c_ulong,), ctypes.c_ulong
    differ = len({*os.getresuid()}) > 1 or len({*os.getresgid()}) > 1
    return differ or getauxval(_AT_SECURE) != 0


def stands_for_many(number: int, kind: str = "uid") -> bool:
    """Whether a number stands for all users, or groups, that have none here: user_namespaces(7), "Unmapped"."""
    overflow = int(contents_of(f"/proc/sys/kernel/overflow{kind}") or 65534)  # the usual one, if unsaid
    return number == overflow and contents_of(f"/proc/self/{kind}_map").split() != [b"0", b"0", b"4294967295"]


def group_writers(descriptor: int, info: os.stat_result) -> set[int] | None:
    """The users who may write to an open folder because of its group, by number; None if that cannot be told.

    A directory service need not list its users (SSSD with `enumerate = false`), nor the members of its groups. It
    is taken to list them if it lists this user and the folder's owner, as users and as members.
    """
    import grp
    import pwd

    if stands_for_many(info.st_gid, "gid"):
        return None
    try:
        if "system.posix_acl_access" in os.listxattr(f"/proc/self/fd/{descriptor}"):
            return None  # with an ACL, the group bits are the mask for everyone in its entries, acl(5)
        named = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(info.st_gid).gr_mem}
    except (KeyError, OSError):
        return None
    users = pwd.getpwall()
    members = named | {user.pw_uid for user in users if user.pw_gid == info.st_gid}
    listed = members & {user.pw_uid for user in users}
    return members if {info.st_uid, os.geteuid()} <= listed else None
