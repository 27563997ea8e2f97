"""Why were no kernels found? Which entry is nearest to what would be made now, and what differs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import jit, serving
from .compat import Mismatch, check
from .errors import KernelWheelError
from .manifest import Manifest
from .plan import Plan
from .runtime import Kernels
from .survey import survey

# Parts of a Plan that are files by name; which of them changed says more than their digests.
FILES = ("sources", "recipe")


@dataclass(frozen=True)
class Difference:
    """One field of two Plans that differ: `cxx.version` and `12.2.0 -> 13.1.0`."""

    field: str
    change: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.field}: {self.change}"


@dataclass(frozen=True)
class Candidate:
    """An Artifact that was looked at, and what stands against it."""

    folder: Path
    manifest: Manifest | None
    mismatches: tuple[Mismatch, ...]
    damage: str


@dataclass(frozen=True)
class Explanation:
    """Why what is wanted is there or not.

    Attributes:
        device: what was asked about, `cpu` or `cuda`.
        found: the folder of the Artifact that serves; None where one would have to be compiled.
        plan: what would be compiled now; None where no Plan can be drawn.
        no_plan: why none can be drawn.
        nearest: the Artifact whose Plan differs least.
        differences: how, from its Plan to the one of now.
        candidates: every Artifact that was looked at.
    """

    device: str
    found: Path | None
    plan: Plan | None
    no_plan: str
    nearest: Candidate | None
    differences: tuple[Difference, ...]
    candidates: tuple[Candidate, ...]


def explain(kernels: Kernels, cuda: bool, archs: str) -> Explanation:
    """Explain what `serving.build` with the same arguments would do; compiles nothing."""
    device = "cuda" if cuda else "cpu"
    serves = serving.find(kernels, cuda, archs)
    found = serves.folder if serves else None
    candidates = tuple(_candidates(kernels, cuda, archs))
    plan, no_plan = _draw(kernels, cuda, archs)
    ranked = sorted(_differing(candidates, plan), key=lambda pair: len(pair[1])) if plan else []
    nearest, changes = ranked[0] if ranked else (None, ())
    if nearest and not changes and all(mismatch.dimension == "archs" for mismatch in nearest.mismatches):
        found = found or nearest.folder  # of the very Plan: `build` takes it when it comes to that
    return Explanation(device, found, plan, no_plan, nearest, changes, candidates)


def _candidates(kernels: Kernels, cuda: bool, archs: str) -> Iterator[Candidate]:
    if kernels.manifest is not None:
        yield Candidate(kernels.folder, kernels.manifest, _against(kernels, kernels.manifest, cuda, archs, True), "")
    for store in kernels.stores():
        for kept in survey(store).kept:
            against = _against(kernels, kept.manifest, cuda, archs, False) if kept.manifest else ()
            yield Candidate(kept.folder, kept.manifest, against, kept.damage)


def _against(kernels: Kernels, manifest: Manifest, cuda: bool, archs: str, wheel: bool) -> tuple[Mismatch, ...]:
    targets = serving.targets_of(serving.settings_for(kernels, archs))
    host = kernels.host._replace(capabilities=()) if targets else kernels.host
    found = check(manifest, host, kernels.wanted).against("cuda" if cuda else "cpu")
    lacks = serving.shortfall(manifest, host, targets, wheel) if cuda and not found else None
    return (*found, lacks) if lacks else found


def _draw(kernels: Kernels, cuda: bool, archs: str) -> tuple[Plan | None, str]:
    if kernels.source is None:
        return None, "no sources are installed to compile from"
    capabilities = kernels.host.capabilities or () if cuda else ()
    try:
        plan, _ = jit.draw(kernels.source, kernels.version, serving.settings_for(kernels, archs), cuda, capabilities)
    except KernelWheelError as error:
        return None, str(error)
    return plan, ""


def _differing(candidates: Sequence[Candidate], plan: Plan) -> Iterator[tuple[Candidate, tuple[Difference, ...]]]:
    wanted = plan.to_json()
    for candidate in candidates:
        if candidate.manifest is not None:
            yield candidate, tuple(differences(candidate.manifest.plan, wanted))


def differences(had: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> Iterator[Difference]:
    """The fields in which two Plans differ, as JSON values; files are counted together and named.

    Args:
        had: the Plan of an Artifact.
        wanted: the Plan of now.
        prefix: the field that both are the value of, with a dot.
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
    """`2 files changed: a.cu, b.cuh; 1 added: c.cu`."""
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
    """A value of a Plan in few words: a digest by its first digits, the CUDA half by what it is for."""
    if isinstance(value, Mapping) and "toolkit" in value:
        return f"CUDA {value['toolkit'].get('version')} for {_short(value.get('sass'))}"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value):
        return value[:12]
    return "none" if value in (None, "") else str(value)
