"""The lock of a Store: one process at a time makes entries, and the others learn who it is."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from ..machine.fork_safe_locks import exclusive
from ..machine.permissions import FILE, FOLDER, PRIVATE
from ..machine.platforms import HOST_PLATFORM
from .store import Store

# After a day, a maker on another machine counts as dead, however unreliable its filesystem's locks are.
DAY = 86400.0


@contextmanager
def making(store: Store, waiting: Callable[[str], None]) -> Iterator[int | None]:
    """Hold the right to make entries: one process makes an entry, and others wait and then find it.

    After entering, check again whether the entry exists before making it. If the filesystem has no working locks, every
    process enters at once: each makes its own entry, and the first to finish publishes it.

    The lock's file descriptor, which a compiler inherits; None if the filesystem has no locks.
    """
    prepare(store)
    with ExitStack() as held:
        lock = None
        try:
            lock = held.enter_context(exclusive(store.root / ".lock", lambda: waiting(_maker(store))))
        except OSError as error:
            if error.errno not in HOST_PLATFORM.no_locks:
                raise store.unwritable(error) from error
        else:
            sign(store)
            _remove_leftovers(store)
        yield lock


def sign(store: Store, log: str = "") -> None:
    """Tell waiting processes who is making an entry, since when, and where its log is."""
    text = f"process {os.getpid()} on {platform.node()}, since {time.strftime('%H:%M:%S')}"
    with suppress(OSError):  # only informative
        (store.root / ".maker").touch(mode=FILE)
        (store.root / ".maker").write_text(text + (f", log {log}" if log else ""), encoding="utf-8")


def prepare(store: Store) -> None:
    """Make the Store's folders, writable by nobody else, or check those that exist."""
    try:
        store.guard.make(store.root, FOLDER)
        store.guard.make(store.root / ".work", PRIVATE)
    except OSError as error:
        raise store.unwritable(error) from error


def machine() -> str:
    """This machine's name, as private folders have it behind the `@` in their own."""
    return platform.node().replace("/", "_")


def _maker(store: Store) -> str:
    try:
        return (store.root / ".maker").read_text(encoding="utf-8") or "another process"
    except OSError:
        return "another process"


def _remove_leftovers(store: Store) -> None:
    """Remove what dead makers left behind; another machine's after a day, as its locks may be invisible here."""
    try:  # the filesystem's time at the last `sign`, because this machine's own clock may have been changed
        now = (store.root / ".maker").stat().st_mtime
    except OSError:
        now = time.time()
    for left in (store.root / ".work").iterdir():
        with suppress(FileNotFoundError):
            elsewhere = "@" in left.name and not left.name.endswith(f"@{machine()}")
            if not elsewhere or now - left.lstat().st_mtime > DAY:
                shutil.rmtree(left, ignore_errors=True)
