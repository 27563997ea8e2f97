"""Pruning a Store: removing entries of other versions, or old ones, and what nobody uses any more."""

from __future__ import annotations

from pathlib import Path

from ..runtime.store.clearing import Cleaning, clean, clean_builds, versions
from ..runtime.store.store import Store
from ..runtime.store.store_lock import DAY
from .inventory import Entry, take_inventory

BUILDS_ARE_KEPT = 30 * DAY


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
