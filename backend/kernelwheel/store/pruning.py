"""Pruning a Store: removing the entries that a policy selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..runtime.store.clearing import Cleaning, clean, clean_builds, versions
from ..runtime.store.store import Store
from ..runtime.store.store_lock import DAY
from .inventory import Entry, take_inventory

BUILDS_ARE_KEPT = 30 * DAY


@dataclass(frozen=True)
class Policy:
    """Which entries to remove: those of other versions, old ones, and the oldest until the rest fits."""

    foreign_versions: bool = False  # remove every entry of another version
    older_than: float | None = None  # in seconds; remove every entry made longer ago
    max_size: int | None = None  # in bytes; entries of other versions go first, then the oldest


def choose(entries: Sequence[Entry], version: str, policy: Policy, now: float) -> dict[Path, str]:
    """The entries to remove under a policy, by folder, each with the reason; `now` is in seconds since 1970."""
    reasons: dict[Path, str] = {}
    for each in entries:
        age = now - each.made
        if policy.foreign_versions and each.version != version:
            reasons[each.folder] = f"for version {each.version}; {version} is installed"
        elif policy.older_than is not None and age > policy.older_than:
            reasons[each.folder] = f"made {int(age / DAY)} days ago"
    if policy.max_size is not None:
        left = [each for each in entries if each.folder not in reasons]
        size = sum(each.size for each in left)
        for each in sorted(left, key=lambda each: (each.version == version, each.made)):
            if size <= policy.max_size:
                break
            reasons[each.folder] = "the oldest, and the total size is over the limit"
            size -= each.size
    return reasons


def prune(store: Store, policy: Policy, now: float) -> tuple[Cleaning, dict[Path, str]]:
    """Remove the entries that a policy selects, everything in quarantine, dead makers' leftovers, and old builds.

    Returns what was done, and the reasons for the entries.
    """
    reasons = choose(take_inventory(store).entries, store.version, policy, now)
    age = BUILDS_ARE_KEPT if policy.older_than is None else policy.older_than
    done = Cleaning()
    for each in versions(store):
        clean(each, reasons.__contains__, done)
    clean_builds(store, now - age, done)
    return done, reasons
