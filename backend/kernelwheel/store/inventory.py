"""The read-only inventory of a Store: all entries of all versions of a package, intact or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..runtime.artifact import manifest as manifests
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.compatible import Mismatch
from ..runtime.artifact.manifest import is_digest
from ..runtime.errors import (
    IncompatibleArtifactError,
    OtherSchemaError,
    StoreError,
    UnreadableArtifactError,
    UnreadableStoreError,
    command,
)
from ..runtime.store.clearing import size_of, versions
from ..runtime.store.store import Store

# Errors for what may be intact but cannot be read right now.
UNREADABLE = (UnreadableArtifactError, UnreadableStoreError)


@dataclass(frozen=True)
class Entry:
    """An entry in a Store, intact or not."""

    store: Store  # the Store, for the entry's own version
    folder: Path  # its folder, named after its fingerprint
    artifact: Artifact | None  # its Artifact; None if its manifest cannot be read
    damage: str  # what is wrong with it, as far as its manifest tells; empty: nothing
    size: int  # the size of its files in bytes
    made: float  # when it was added to this Store, in seconds since 1970
    unread: UnreadableStoreError | None = None  # why its manifest cannot be read right now; None if it can be
    # what its schema is, if another version of this package wrote its manifest; None: ours
    mismatch: Mismatch | None = None

    @property
    def version(self) -> str:
        """The package version that it is for."""
        return self.store.version


@dataclass(frozen=True)
class Inventory:
    """The entries of all versions in a Store, and the errors for folders that cannot be read safely."""

    entries: tuple[Entry, ...]
    refused: tuple[StoreError, ...]


def take_inventory(store: Store) -> Inventory:
    """List every entry of every version, as far as manifests tell; changes nothing and hashes nothing."""
    entries: list[Entry] = []
    refused: list[StoreError] = []
    try:
        found = versions(store)
    except StoreError as error:
        return Inventory((), (error,))
    for each in found:
        try:
            each.guard.check(each.root)
            folders = sorted(each.root.iterdir())
            seen = (_look(each, folder) for folder in folders if is_digest(folder.name))
            entries += [entry for entry in seen if entry]
        except StoreError as error:
            refused.append(error)
        except OSError as error:
            refused.append(each.unreadable(error))
    return Inventory(tuple(entries), tuple(refused))


def _look(store: Store, folder: Path) -> Entry | None:
    """An entry; None if another process has just removed it."""
    artifact, damage, unread, mismatch = None, "", None, None
    try:
        artifact = store.read(folder)
    except UnreadableStoreError as error:
        unread = error
    except OtherSchemaError as error:
        remedy = command(store.package, "cache prune")
        mismatch = Mismatch("schema", error.required, error.found, remedy, "cpu", compile_cures=True)
    except (StoreError, IncompatibleArtifactError) as error:
        damage = error.found
    try:
        made = ((folder / manifests.FILE) if artifact else folder).lstat().st_mtime
    except FileNotFoundError:
        return None
    return Entry(store, folder, artifact, damage, size_of(folder), made, unread, mismatch)


def find_damage(entry: Entry) -> str:
    """What is wrong with an entry, checked to the last byte of its libraries; empty: nothing."""
    if entry.unread:
        raise entry.unread
    if entry.damage or entry.artifact is None:
        return entry.damage
    try:
        entry.artifact.verify()
    except UnreadableArtifactError:
        raise
    except (StoreError, IncompatibleArtifactError) as error:
        return error.found
    return ""
