"""Publishing an entry of a Store: it appears whole or not at all.

An entry is made in a private folder, flushed to disk, then renamed into place.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ..runtime.artifact import manifest as manifests
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.manifest import is_digest
from ..runtime.errors import IncompatibleArtifactError, UnreadableArtifactError, UnreadableStoreError
from ..runtime.machine.permissions import FILE, FOLDER, PRIVATE
from ..runtime.store.store import Store
from ..runtime.store.store_lock import mark

OnDamage = Callable[[Path, IncompatibleArtifactError], None]


def publish(store: Store, fingerprint: str, make: Callable[[Path], object]) -> Artifact:
    """The entry for a fingerprint, made by `make(private folder)` unless it exists. Call it inside `making`.

    Raises:
        StoreError: the Store cannot be written. Nothing of the entry is left behind.
    """
    if not is_digest(fingerprint):
        raise ValueError(f"{fingerprint!r} is not a fingerprint")
    found = intact_entry(store, fingerprint)
    if found:
        return found
    private = store.root / ".work" / f"{fingerprint}.{os.urandom(4).hex()}{mark(store)}"
    try:
        private.mkdir(mode=PRIVATE)
        make(private)
        return _moved_into_place(store, private, fingerprint)
    except BaseException as error:
        shutil.rmtree(private, ignore_errors=True)
        if isinstance(error, OSError):
            raise store.unwritable(error) from error
        raise


def intact_entry(store: Store, fingerprint: str, damaged: OnDamage | None = None) -> Artifact | None:
    """The entry for a fingerprint, its libraries verified; None if there is none. A damaged one is quarantined.

    Raises:
        StoreError: the Store cannot be read.
        IncompatibleArtifactError: the entry is damaged, and the Store is read-only.
    """
    folder = store.root / fingerprint
    if not os.path.lexists(folder):
        return None
    try:
        entry = store.read(folder)
        entry.verify()
    except UnreadableArtifactError as error:
        raise UnreadableStoreError(
            error.problem, required=error.required, found=error.found, remedies=error.remedies
        ) from error
    except IncompatibleArtifactError as error:
        place = store.quarantine(folder, error)
        if damaged:
            damaged(place, error)
        return None
    return entry


def _moved_into_place(store: Store, private: Path, fingerprint: str) -> Artifact:
    """Flush a finished private folder to disk and rename it into place."""
    manifest = manifests.read(private)
    assert manifest is not None
    for path in private.iterdir():
        path.chmod(FILE)
        _fsync(path)
    private.chmod(FOLDER)  # from now on, others may read it
    _fsync(private)
    place = store.root / fingerprint
    while True:
        try:
            private.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if theirs := intact_entry(store, fingerprint):  # another process without a lock was faster
                shutil.rmtree(private, ignore_errors=True)
                return theirs
        else:
            _fsync(store.root)
            return Artifact(place, manifest, store.guard)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
