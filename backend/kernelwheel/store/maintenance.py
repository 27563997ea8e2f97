"""Maintenance of a Store: the inventory of all entries of all versions of a package, verification, and pruning."""

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
from ..runtime.store.clearing import Cleaning, clean, clean_builds, size_of, versions
from ..runtime.store.store import Store
from ..runtime.store.store_lock import DAY

BUILDS_ARE_KEPT = 30 * DAY
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


@dataclass(frozen=True)
class DamagedEntry:
    """A damaged entry: what is wrong, and its new place (None if it was left where it was)."""

    entry: Entry
    damage: str
    moved: Path | None


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


def verify_entries(store: Store) -> tuple[Inventory, tuple[DamagedEntry, ...]]:
    """Check the digests of every entry of every version; damaged ones in the user's own Store are quarantined."""
    seen = take_inventory(store)
    damaged = []
    for entry in seen.entries:
        try:
            damage = find_damage(entry)
        except UNREADABLE as error:
            damaged.append(DamagedEntry(entry, error.found, None))
            continue
        if damage:
            damaged.append(DamagedEntry(entry, damage, _put_away(entry)))
    return seen, tuple(damaged)


def _put_away(entry: Entry) -> Path | None:
    try:
        entry.store.guard.check(entry.folder)  # a link, or what others can write to, is reported and stays
        return entry.store.quarantine(entry.folder) if entry.store.own else None
    except (StoreError, OSError):
        return None


def prune(store: Store, older_than: float | None, now: float) -> tuple[Cleaning, dict[Path, str]]:
    """Remove the entries of other versions, or those of any version that are older than some seconds, if that is given;
    besides, everything in quarantine, dead makers' leftovers, and old builds. `now` is in seconds since 1970.

    Returns what was done, and the reasons for the entries.
    """

    def reason(entry: Entry) -> str:
        age = now - entry.made
        if older_than is None and entry.version != store.version:
            return f"for version {entry.version}; {store.version} is installed"
        return f"made {int(age / DAY)} days ago" if older_than is not None and age > older_than else ""

    reasons = {each.folder: because for each in take_inventory(store).entries if (because := reason(each))}
    done = Cleaning()
    for each in versions(store):
        clean(each, reasons.__contains__, done)
    clean_builds(store, now - (BUILDS_ARE_KEPT if older_than is None else older_than), done)
    return done, reasons
