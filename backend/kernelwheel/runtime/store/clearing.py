"""Clearing a Store: removing entries and what is left of compiles.

Only the user's own Store is changed, only below `<folder>/<package>/`, and only what a Store makes there: entries named
after their fingerprints, `.work`, `.quarantine` and `.build`. An entry is first renamed, because nobody must find half
of it, and only under the lock of its version, because another process may be making it. Lock files are never removed:
another process may be waiting for one.
"""

from __future__ import annotations

import math
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..artifact.manifest_schema import is_digest
from ..errors import StoreError
from ..machine.files import is_folder
from ..machine.locks import exclusive
from ..record import Record
from .store import REUSABLE, Store
from .store_lock import making


class Removed(Record):
    """What was removed: an `entry`, a damaged one in `quarantine`, a dead maker's `leftover`, or a `build`.

    A build is a folder in which kernels were compiled, for any version; its name identifies the rest of the Plan.
    """

    kind: str
    version: str
    name: str
    size: int
    because: str


class Cleaning(Record):
    """What was removed, and what was left alone and why."""

    removed: tuple[Removed, ...]
    skipped: tuple[str, ...]

    @property
    def freed(self) -> int:
        """The bytes freed, in total."""
        return sum(removed.size for removed in self.removed)


def clear(store: Store, all_versions: bool = False) -> Cleaning:
    """Remove all entries of this version, or of all versions, with their quarantine and leftovers, and all builds."""
    wanted = [each for each in versions(store) if all_versions or each.version == store.version]
    return together(clean(wanted, lambda entry: "cleared"), clean_builds(store, math.inf, "cleared"))


def versions(store: Store) -> list[Store]:
    """The same Store for each version of its package that has a folder in it, safe or not."""
    package = store.folder / store.package
    try:
        folders = sorted(package.iterdir()) if is_folder(package) else []
        names = (folder.name for folder in folders if is_folder(folder))
        return [store._replace(version=name) for name in names if not name.startswith(".")]
    except OSError as error:
        raise store.unreadable(error) from error


def clean_builds(store: Store, before: float, because: str) -> Cleaning:
    """Remove the build folders that are not in use and have not been used since `before` (seconds since 1970)."""
    removed: list[Removed] = []
    skipped: list[str] = []
    try:
        store.guard.check(store.builds)
        old = [path for path in _inside(store.builds) if _is_build(path) and path.lstat().st_mtime < before]
    except FileNotFoundError:
        old = []
    except (StoreError, OSError) as error:
        return Cleaning((), (f"{store.builds}: {error}",))
    for path in old:
        found = Removed("build", "", path.name, size_of(path), because)
        try:
            with exclusive(path.with_suffix(".lock"), _give_up):
                (path / REUSABLE).unlink(missing_ok=True)  # first, so that a partly removed folder is not reused
                shutil.rmtree(path)
            removed.append(found)
        except (OSError, _Busy) as error:
            skipped.append(f"{path}: {error}")
    return Cleaning(tuple(removed), tuple(skipped))


def _is_build(path: Path) -> bool:
    """Whether a folder has a name that the compiler gives to one that it compiles in."""
    program, _, digest = path.name.partition("-")
    return program == "kernelwheel" and len(digest) == 32 and not digest.strip("0123456789abcdef")


def together(one: Cleaning, other: Cleaning) -> Cleaning:
    """Two cleanings as one."""
    return Cleaning(one.removed + other.removed, one.skipped + other.skipped)


def clean(stores: Sequence[Store], reason: Callable[[Path], str]) -> Cleaning:
    """Remove the versions' entries that there is a reason for, and all that is damaged or left of dead makers; not from
    a Store that is unsafe or in use.
    """
    removed: list[Removed] = []
    skipped: list[str] = []
    for store in stores:
        try:
            store.guard.check(store.root)
            if waste := dict(_waste(store, reason)):
                with making(store, _give_up):  # removes the leftovers
                    for path, each in waste.items():
                        if not os.path.lexists(path) if each.kind == "leftover" else _discard(store, path):
                            removed.append(each)
        except (StoreError, _Busy) as error:
            skipped.append(f"version {store.version}: {error}")
        except OSError as error:
            skipped.append(f"version {store.version}: {store.unwritable(error).found}")
    return Cleaning(tuple(removed), tuple(skipped))


class _Busy(Exception):
    pass


def _give_up(*_: object) -> None:
    raise _Busy("in use by another process; try again when it is done")


def _waste(store: Store, reason: Callable[[Path], str]) -> Iterator[tuple[Path, Removed]]:
    """What to remove of one version."""
    found = [("leftover", path, "its maker is dead") for path in _inside(store.root / ".work")]
    found += [("quarantine", path, "damaged") for path in _inside(store.root / ".quarantine")]
    found += [("entry", path, reason(path)) for path in _inside(store.root) if is_digest(path.name)]
    for kind, path, because in found:
        if because:
            yield path, Removed(kind, store.version, path.name, size_of(path), because)


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
