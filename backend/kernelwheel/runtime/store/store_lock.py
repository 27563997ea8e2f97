"""The lock of a Store: one process at a time makes entries, and the others learn who it is."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

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
            lock = held.enter_context(exclusive(_of_part(store, ".lock"), lambda: waiting(_maker(store))))
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
        _of_part(store, ".maker").touch(mode=FILE)
        _of_part(store, ".maker").write_bytes(os.fsencode(text + (f", log {log}" if log else "")))


def prepare(store: Store) -> None:
    """Make the Store's folders, writable by nobody else, or check those that exist."""
    try:
        store.guard.check(store.root, make=FOLDER)
        store.guard.check(store.root / ".work", make=PRIVATE)
    except OSError as error:
        raise store.unwritable(error) from error


def parts_made(store: Store) -> list[Store]:
    """The same Store for each part that something was ever made of, with a lock of its own."""
    names = {path.name.removeprefix(".lock") for path in store.root.glob(".lock.*")}
    return [store._replace(part=name[1:]) for name in ("", *sorted(names))]


def mark(store: Store) -> str:
    """The suffix of private folders' names: the part that they are for, and the machine that made them."""
    return f"{'.' + store.part if store.part else ''}@{platform.node().replace('/', '_')}"


def _of_part(store: Store, name: str) -> Path:
    return store.root / (f"{name}.{store.part}" if store.part else name)


def _maker(store: Store) -> str:
    try:
        return os.fsdecode(_of_part(store, ".maker").read_bytes()) or "another process"
    except OSError:
        return "another process"


def _remove_leftovers(store: Store) -> None:
    """Remove what dead makers left behind; another machine's after a day, as its locks may be invisible here."""
    try:  # the filesystem's time at the last `sign`, because this machine's own clock may have been changed
        now = _of_part(store, ".maker").stat().st_mtime
    except OSError:
        now = time.time()
    machine = mark(store).partition("@")[2]
    for left in (store.root / ".work").iterdir():
        name, at, made_on = left.name.partition("@")
        if "".join(name.split(".", 2)[2:]) != store.part:
            continue
        with suppress(FileNotFoundError):
            elsewhere = at and made_on != machine
            if not elsewhere or now - left.lstat().st_mtime > DAY:
                shutil.rmtree(left, ignore_errors=True)
