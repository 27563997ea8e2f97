"""Verifying a Store: every entry is checked to the last byte, and damaged ones are put away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..runtime.errors import StoreError
from ..runtime.store.store import Store
from .inventory import UNREADABLE, Entry, Inventory, find_damage, take_inventory


@dataclass(frozen=True)
class DamagedEntry:
    """A damaged entry: what is wrong, and its new place (None if it was left where it was)."""

    entry: Entry
    damage: str
    moved: Path | None


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
