"""How one content or Plan differs from another, as people read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def differences(had: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The fields in which two Plans differ, as JSON values: `{"cxx.version": "12.2.0 -> 13.1.0"}`."""
    found: dict[str, str] = {}
    for name in sorted({*had, *wanted}):
        old, new = had.get(name), wanted.get(name)
        if old == new:
            continue
        if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
            found[prefix + name] = f"{_short(old)} -> {_short(new)}"
        elif name == "sources":
            found[prefix + name] = _changed_files(old, new)
        else:
            found |= differences(old, new, f"{prefix}{name}.")
    return found


def _changed_files(had: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """A summary of digests by file: `2 files changed: a.cu, b.cuh; 1 file added: c.cu`."""
    kinds = {
        "changed": sorted(name for name in {*had} & {*wanted} if had[name] != wanted[name]),
        "added": sorted({*wanted} - {*had}),
        "removed": sorted({*had} - {*wanted}),
    }
    parts = []
    for kind, names in kinds.items():
        if names:
            more = f", and {len(names) - 5} more" if len(names) > 5 else ""
            parts.append(f"{len(names)} file{'s' * (len(names) > 1)} {kind}: {', '.join(names[:5])}{more}")
    return "; ".join(parts)


def _short(value: Any) -> str:
    """A value of a Plan, shortened: a digest to its first digits, the toolkit to its version, CUDA targets to SASS."""
    if isinstance(value, Mapping) and "sass" in value:
        return f"SASS {_short(value['sass'])}"
    if isinstance(value, Mapping) and "version" in value:
        return str(value["version"])
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value):
        return value[:12]
    return "none" if value in (None, "") else str(value)
