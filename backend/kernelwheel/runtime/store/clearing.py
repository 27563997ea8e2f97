"""Clearing a Store: removing entries and what is left of compiles.

Only the user's own Store is changed, only below `<folder>/<package>/`, and only what a Store makes there: entries named
after their fingerprints, `.work`, `.quarantine` and `.build`. An entry is first renamed, because nobody must find half
of it, and only under the lock of its version, because another process may be making it. Lock files are never removed:
another process may be waiting for one.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import stat
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ..artifact.manifest import is_digest
from ..errors import StoreError
from ..machine.files import is_folder
from ..machine.fork_safe_locks import exclusive
from .store import REUSABLE, Store
from .store_lock import making, parts_made

_BUILD = "kernelwheel-[0-9a-f]{32}"  # the name that the compiler gives to a folder that it compiles in


class Cleaning:
    """What was removed, with its size in bytes, and what was left alone and why."""

    def __init__(self) -> None:
        self.removed: dict[Path, int] = {}
        self.skipped: list[str] = []


def clear(store: Store, all_versions: bool = False) -> Cleaning:
    """Remove all entries of this version, or of all versions, with their quarantine and leftovers, and all builds."""
    done = Cleaning()
    for each in versions(store):
        if all_versions or each.version == store.version:
            clean(each, lambda entry: True, done)
    clean_builds(store, math.inf, done)
    return done


def versions(store: Store) -> list[Store]:
    """The same Store for each version of its package that has a folder in it, safe or not."""
    package = store.folder / store.package
    try:
        folders = sorted(package.iterdir()) if is_folder(package) else []
        names = (folder.name for folder in folders if is_folder(folder))
        return [store._replace(version=name) for name in names if not name.startswith(".")]
    except OSError as error:
        raise store.unreadable(error) from error


def clean_builds(store: Store, before: float, done: Cleaning) -> None:
    """Remove the folders that kernels of any version were compiled in, if they are not in use and have not been used
    since `before` (seconds since 1970).
    """
    try:
        store.guard.check(store.builds)
        builds = [path for path in _inside(store.builds) if re.fullmatch(_BUILD, path.name)]
        old = [path for path in builds if path.lstat().st_mtime < before]
    except FileNotFoundError:
        return
    except (StoreError, OSError) as error:
        done.skipped.append(f"{store.builds}: {error}")
        return
    for path in old:
        size = size_of(path)
        try:
            with exclusive(path.with_suffix(".lock"), _give_up):
                (path / REUSABLE).unlink(missing_ok=True)  # first, so that a partly removed folder is not reused
                shutil.rmtree(path)
            done.removed[path] = size
        except (OSError, _Busy) as error:
            done.skipped.append(f"{path}: {error}")


def clean(store: Store, unwanted: Callable[[Path], bool], done: Cleaning) -> None:
    """Remove a version's entries that are unwanted, and all that is damaged or left of dead makers; nothing from a
    Store that is unsafe or in use.
    """
    try:
        store.guard.check(store.root)
        left, damaged = _inside(store.root / ".work"), _inside(store.root / ".quarantine")
        entries = [path for path in _inside(store.root) if is_digest(path.name) and unwanted(path)]
        if sizes := {path: size_of(path) for path in (*left, *damaged, *entries)}:
            with ExitStack() as held:
                for part in parts_made(store):
                    held.enter_context(making(part, _give_up))  # removes the leftovers
                for path, size in sizes.items():
                    if not os.path.lexists(path) if path in left else _discard(store, path):
                        done.removed[path] = size
    except (StoreError, _Busy) as error:
        done.skipped.append(f"version {store.version}: {error}")
    except OSError as error:
        done.skipped.append(f"version {store.version}: {store.unwritable(error).found}")


class _Busy(Exception):
    pass


def _give_up(*_: object) -> None:
    raise _Busy("in use by another process; try again when it is done")


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if is_folder(folder) and not folder.is_symlink() else []


def size_of(path: Path) -> int:
    """The size in bytes of a file, or of all files below a folder; links are not followed."""
    try:
        info = path.lstat()
        if not stat.S_ISDIR(info.st_mode):
            return info.st_size
        return sum(size_of(inside) for inside in path.iterdir())
    except OSError:  # removed in the meantime, or not readable for this user
        return 0


def _discard(store: Store, path: Path) -> bool:
    """Rename, then remove; returns whether it still existed. If we die halfway, the next maker removes the rest."""
    trash = store.root / ".work" / f"removed.{os.urandom(8).hex()}"  # no new folder: the disk may be full
    try:
        path.rename(trash)
    except FileNotFoundError:
        return False
    if trash.is_dir() and not trash.is_symlink():
        shutil.rmtree(trash, ignore_errors=True)
    else:
        trash.unlink()
    return True
