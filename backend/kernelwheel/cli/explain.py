"""The analysis behind `cache explain`: why no kernels were found, the closest entry, and how it differs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runtime.artifact import Artifact
from ..runtime.compatible import Mismatch
from ..runtime.host import Host
from ..runtime.installed import InstalledPackage
from ..runtime.inventory import take_inventory
from ..runtime.selection import Selection, against
from . import cache_build
from .prediction import Foresight, predict

# Parts of a Plan that map file names to digests; which files changed says more than the digests do.
FILES = ("sources",)


@dataclass(frozen=True)
class Difference:
    """One field in which two Plans differ: `cxx.version` and `12.2.0 -> 13.1.0`."""

    field: str
    change: str

    def __str__(self) -> str:
        """The difference on one line."""
        return f"{self.field}: {self.change}"


@dataclass(frozen=True)
class Examined:
    """A folder with an Artifact, and the mismatches that rule it out; the Artifact is None if unreadable."""

    folder: Path
    artifact: Artifact | None
    mismatches: tuple[Mismatch, ...]
    damage: str


@dataclass(frozen=True)
class Explanation:
    """Why the requested kernels were found or not.

    Attributes:
        device: the device type requested, `cpu` or `cuda`.
        calls: what the next calls on it will do.
        foreseen: what `cache build` will do, and the Plan that it would compile.
        nearest: the Artifact whose Plan differs least.
        differences: the changes from its Plan to the current one.
        examined: every Artifact that was examined.
    """

    device: str
    calls: tuple[Selection, ...]
    foreseen: Foresight
    nearest: Examined | None
    differences: tuple[Difference, ...]
    examined: tuple[Examined, ...]

    @property
    def found(self) -> Path | None:
        """The folder of the Artifact that fits; None if one would have to be compiled."""
        return self.foreseen.build.artifact.folder if self.foreseen.build.artifact else None


def explain(package: InstalledPackage, host: Host, cuda: bool, archs: str) -> Explanation:
    """Explain what `cache_build.build` would do with the same arguments; compiles and changes nothing."""
    device = "cuda" if cuda else "cpu"
    foreseen = predict(package, host, cuda, archs, whole=True)
    calls = tuple(each for each in foreseen.calls if each.request.device == device)
    examined = tuple(_examine(package, host, cuda, archs))
    ranked = sorted(_differing(examined, foreseen.plan), key=lambda pair: len(pair[1])) if foreseen.plan else []
    nearest, changes = ranked[0] if ranked else (None, ())
    return Explanation(device, calls, foreseen, nearest, changes, examined)


def _examine(package: InstalledPackage, host: Host, cuda: bool, archs: str) -> Iterator[Examined]:
    request = cache_build.build_request(package, host, cuda, archs)

    def examined(artifact: Artifact, damage: str) -> Examined:
        return Examined(
            artifact.folder, artifact, against(artifact, request, host, package.wanted_of(artifact)), damage
        )

    if package.artifact:
        yield examined(package.artifact, "")
    for store in package.stores():
        for entry in take_inventory(store).entries:
            if entry.artifact is None:
                mismatches = (entry.mismatch,) if entry.mismatch else ()
                yield Examined(entry.folder, None, mismatches, entry.unread.found if entry.unread else entry.damage)
            else:
                yield examined(entry.artifact, entry.damage)


def _differing(
    examined: Sequence[Examined], wanted: Mapping[str, Any]
) -> Iterator[tuple[Examined, tuple[Difference, ...]]]:
    for each in examined:
        if each.artifact is not None:
            found = tuple(differences(each.artifact.manifest.plan, wanted))
            # What CMake is told follows from the rest of the Plan; alone, it is another version of the backend.
            yield each, tuple(one for one in found if not one.field.startswith("tools.recipe.")) or found


def differences(had: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> Iterator[Difference]:
    """Compare two Plans, as JSON values, field by field; files are summarised by count and name.

    Args:
        had: the Plan of an Artifact.
        wanted: the current Plan.
        prefix: the name of the enclosing field, with a trailing dot.
    """
    for name in sorted({*had, *wanted}):
        old, new = had.get(name), wanted.get(name)
        if old == new:
            continue
        field = prefix + name
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if name in FILES:
                yield Difference(field, _files(old, new))
            else:
                yield from differences(old, new, field + ".")
        else:
            yield Difference(field, f"{_short(old)} -> {_short(new)}")


def _files(had: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """A summary such as `2 files changed: a.cu, b.cuh; 1 file added: c.cu`."""
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
