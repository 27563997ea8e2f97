"""A lock on the files that a command writes; the system releases it however the process ends."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from .printing import print_warning

_LONGEST: Final = 200
"""Bytes of a holder's name that are read."""
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)

if sys.platform == "win32":
    import msvcrt

    _FLAGS: Final = os.O_NOINHERIT

    def _lock(descriptor: int) -> None:
        """Lock an open file until it is closed; BlockingIOError if another process has."""
        os.lseek(descriptor, _LONGEST, os.SEEK_SET)  # a byte that nobody reads: others cannot read what is locked
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EDEADLK, 0):  # 0: Wine
                raise
            raise BlockingIOError from error
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

    def _locks(path: Path) -> Iterator[Path]:
        """The files that may be the lock, the first before the others."""
        yield path.with_name(f".{path.name}.lock")

    def _release(descriptor: int, lock: Path) -> None:
        os.close(descriptor)
        with suppress(PermissionError):  # another process has opened it, which keeps it from being removed
            lock.unlink(missing_ok=True)

else:
    import fcntl

    _FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _release(descriptor: int, lock: Path) -> None:
        with suppress(PermissionError):  # another user's, in a folder where only its owner may remove it
            lock.unlink(missing_ok=True)  # while it is held, so that it is nobody else's
        os.close(descriptor)

    def _locks(path: Path) -> Iterator[Path]:
        """As on Windows, and those that others can put there do not count."""
        for own in ("", f".{os.geteuid()}"):
            lock = path.with_name(f".{path.name}{own}.lock")
            try:
                foreign = lock.lstat().st_uid != os.geteuid()
            except FileNotFoundError:
                foreign = False
            if not foreign or not lock.parent.stat().st_mode & stat.S_IWOTH:
                yield lock


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `.NAME.lock` beside a file while it is written.

    In a folder that all can write to, it is `.NAME.USER.lock` if another user's file has that name. A warning says so
    if there can be no lock. Raises OSError if another process holds it, which it names, or it cannot be made.
    """
    lock = next(_locks(path), None)
    if lock is None:
        print_warning(f"{path}: other users' files are where locks would be; see that no other command writes the same")
        yield
        return
    descriptor = _taken(lock, path)
    try:
        yield
    finally:
        _release(descriptor, lock)


def _taken(lock: Path, path: Path) -> int:
    while True:
        descriptor, ours = _opened(lock)
        try:
            _try_lock(descriptor, path)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or lock.is_symlink():
                raise FileExistsError(errno.EEXIST, "a lock is required here, found something else", str(lock))
            if lock.exists() and os.path.samestat(found, lock.stat()):
                if ours:
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its last holder has just removed it


def _opened(lock: Path) -> tuple[int, bool]:
    """The file, open, and whether it can be written to: a colleague's can be locked without that."""
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | _FLAGS, 0o644), True
    except PermissionError:
        if sys.platform == "win32" or not lock.exists():
            raise
        return os.open(lock, os.O_RDONLY | _FLAGS), False


def _try_lock(descriptor: int, path: Path) -> None:
    try:
        _lock(descriptor)
    except BlockingIOError:
        holder = os.read(descriptor, _LONGEST).decode("utf-8", "replace") or "another process"
        raise OSError(
            f"{path}: files that no other command writes are required, found that {holder} writes them; wait until it "
            "ends, or choose another name"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        print_warning(f"{path}: its file system has no locks; see that no other command writes the same files")
