"""[build-system] for kernelwheel, with what a project asked for of torch, setuptools and everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ..requirements import own_reference
from ..version import OLDEST_TORCH
from .cuda_extension import AdoptionNotes

TORCH = f"torch>={OLDEST_TORCH}"
# What kernelwheel requires, brings, or does without; a project's own limits on them stay.
BROUGHT = {
    "torch": OLDEST_TORCH,
    "setuptools": "77",
    "wheel": "0.45",
    "packaging": "24.2",
    "ninja": "1.5",
    "cmake": "3.24",
}
# Releases of torch that kernelwheel builds with, and all of which a project's own limits may leave out.
_LATER = [Version(f"{major}.{minor}.{patch}") for major in (2, 3) for minor in range(60) for patch in range(6)]
_KNOWN = [each for each in _LATER if each >= Version(OLDEST_TORCH)]


def build_system(cuda: bool, old: Mapping[str, Any], notes: AdoptionNotes) -> dict[str, Any]:
    """The table, with what setup.py may import besides what kernelwheel brings."""
    others = []
    for text in old.get("requires", []):
        try:
            asked = Requirement(text)
        except InvalidRequirement:
            others.append(text)
            continue
        name = canonicalize_name(asked.name)
        if name == "torch" and not asked.url and not any(map(asked.specifier.contains, _KNOWN)):
            notes.remarks.append(f"[build-system] requires no longer has {text}, but {TORCH}")
        elif name != "kernelwheel" and (name not in BROUGHT or not _is_met(asked, BROUGHT[name])):
            others.append(text)
    return {
        "requires": [own_reference("cuda" if cuda else ""), TORCH, *others],
        "build-backend": "kernelwheel.hooks",
    }


def _is_met(asked: Requirement, oldest: str) -> bool:
    """Whether every release that kernelwheel may bring is one that was asked for."""
    plain = not (asked.url or asked.extras)
    return plain and all(
        each.operator in (">", ">=") and Version(each.version) <= Version(oldest) for each in asked.specifier
    )
