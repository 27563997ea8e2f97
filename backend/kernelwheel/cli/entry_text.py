"""Entries of a store as JSON values for `--json` and as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ..runtime.artifact.compatible import Wanted, check
from ..runtime.commands.doctor import targets_text
from ..runtime.commands.own_commands import size_text
from ..runtime.machine.host import Host
from ..store.inventory import Entry


def view_entry(entry: Entry, host: Host, wanted: Wanted) -> dict[str, Any]:
    """An entry of a store and whether it fits this machine, as plain JSON values."""
    view: dict[str, Any] = {
        "folder": str(entry.folder),
        "version": entry.version,
        "fingerprint": entry.folder.name,
        "size": entry.size,
        "made": datetime.fromtimestamp(entry.made, timezone.utc).isoformat(timespec="seconds"),
        "damage": entry.damage or None,
        "unread": entry.unread.found if entry.unread else None,
        "kernels": None,
        "mismatches": [],
        "fits": False,
    }
    if entry.mismatch:
        view["mismatches"] = [entry.mismatch._asdict()]
    if entry.artifact is not None:
        manifest = entry.artifact.manifest
        found = check(manifest, host.asked_for(manifest.cpu), wanted)
        parts = manifest.content["parts"]
        of_part = f"{', '.join(parts)}: " if parts else ""
        view["kernels"] = of_part + targets_text(entry.artifact.manifest)
        view["mismatches"] = [mismatch._asdict() for mismatch in found]
        view["fits"] = not found and not entry.damage
    return view


def entry_text(view: Mapping[str, Any]) -> str:
    """One line for an entry: version, fingerprint, size, when it was made, targets, and whether it fits."""
    if view["damage"]:
        worth = f"damaged: {view['damage']}"
    elif view["unread"]:
        worth = f"cannot be read now: {view['unread']}"
    elif view["fits"]:
        worth = "fits"
    else:
        scope = (
            "does not fit" if any(m["device"] == "cpu" for m in view["mismatches"]) else "fits CPU calls, not CUDA's"
        )
        worth = f"{scope}: " + ", ".join(dict.fromkeys(m["dimension"] for m in view["mismatches"]))
    parts = (view["version"], view["fingerprint"][:12], size_text(view["size"]), view["made"][:10])
    return "  ".join([*parts, *([view["kernels"]] if view["kernels"] else []), worth])
