"""Manifests, mismatches, Decisions and entries as JSON values for `--json` and as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from .compatible import Mismatch, Wanted, check
from .decision import Decision
from .host import Host
from .inventory import Entry
from .manifest import Manifest


def view_decision(decision: Decision) -> dict[str, Any]:
    """What a call does, as plain JSON values; `capability` is that of the call's GPU."""
    capability = decision.request.capability
    return {
        "device": decision.request.device,
        "outcome": decision.outcome,
        "because": decision.because,
        "artifact": str(decision.artifact.folder) if decision.artifact else None,
        "remedies": list(decision.error.remedies) if decision.error else [],
        "capability": "{}.{}".format(*capability) if capability else None,
    }


def call_row(expected: Mapping[str, Any]) -> tuple[str, str]:
    """A row for what the next call on a device type does."""
    device = expected["device"].upper() + (f" {expected['capability']}" if expected.get("capability") else "")
    words = {"load": "loads", "compile": "compiles, then loads", "fail": "fails"}
    where = f" ({expected['artifact']})" if expected["artifact"] else ""
    return device, f"{words[expected['outcome']]}: {expected['because']}{where}"


def verdict_text(mismatches: Sequence[Mismatch]) -> str:
    """Mismatches as text: one line if there are none, otherwise each mismatch with its remedy."""
    if not mismatches:
        return "verdict: fits this machine"
    lines = ["verdict: does not fit this machine"]
    for mismatch in mismatches:
        scope = "all kernels" if mismatch.device == "cpu" else "CUDA kernels"
        lines += [
            f"  {mismatch.dimension} ({scope})",
            f"    required: {mismatch.required}",
            f"    found:    {mismatch.found}",
            f"    to fix:   {mismatch.remedy}",
        ]
    return "\n".join(lines)


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
        view["kernels"] = targets_text(entry.artifact.manifest)
        view["mismatches"] = [mismatch._asdict() for mismatch in found]
        view["fits"] = not found and not entry.damage
    return view


def targets_text(manifest: Manifest) -> str:
    """The targets of an Artifact's kernels: `CPU`, or `CPU; CUDA 13.0: SASS 8.0 9.0, PTX 9.0`."""
    cuda = [
        f"SASS {' '.join(library.sass) or 'none'}, PTX {' '.join(library.ptx) or 'none'}"
        for library in manifest.libraries_for("cuda")
    ]
    if manifest.left_out:
        return f"CPU, without {', '.join(manifest.left_out)}"
    return f"CPU; CUDA {manifest.requires.driver}: {'; '.join(cuda)}" if cuda else "CPU"


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


def size_text(size: int) -> str:
    """A size in MB: `0.06 MB`."""
    return f"{size / 1e6:.2f} MB"


def rows_text(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns, names and values; a value may have several lines."""
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, value in rows:
        first, *rest = str(value).splitlines() or [""]
        lines += [f"  {name:<{width}}  {first}", *(f"  {'':<{width}}  {line}" for line in rest)]
    return "\n".join(lines)
