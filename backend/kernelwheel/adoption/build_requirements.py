"""[build-system] for kernelwheel, with what a project asked for of torch, setuptools and everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from ..requirements import own_reference
from ..version import OLDEST_TORCH
from .cuda_extension import AdoptionNotes

TORCH = f"torch>={OLDEST_TORCH}"
# What kernelwheel brings, or does without; a project's own limits on them stay.
BROUGHT = {
    "setuptools": "77",
    "wheel": "0.45",
    "packaging": "24.2",
    "ninja": "1.5",
    "cmake": "3.24",
}
_LATER = [Version(f"{major}.{minor}.{patch}") for major in (2, 3) for minor in range(60) for patch in range(6)]


def build_system(cuda: bool, old: Mapping[str, Any], notes: AdoptionNotes) -> dict[str, Any]:
    """The table, with what setup.py may import besides what kernelwheel brings."""
    torch, others = TORCH, []
    for text in old.get("requires", []):
        try:
            asked = Requirement(text)
        except InvalidRequirement:
            others.append(text)
            continue
        name = canonicalize_name(asked.name)
        if name == "torch":
            torch = _torch(asked, text, notes)
        elif name != "kernelwheel" and (name not in BROUGHT or not _is_met(asked, BROUGHT[name])):
            others.append(text)
    return {
        "requires": [own_reference("cuda" if cuda else ""), torch, *others],
        "build-backend": "kernelwheel.hooks",
    }


def _torch(asked: Requirement, text: str, notes: AdoptionNotes) -> str:
    """What is asked of torch, as far as kernelwheel builds with it: from its oldest release on."""
    oldest = Version(OLDEST_TORCH)
    if asked.url or not any(asked.specifier.contains(each) for each in _LATER if each >= oldest):
        if asked.url:
            return text
        notes.remarks.append(f"[build-system] requires no longer has {text}, but {TORCH}")
        return TORCH
    if not any(asked.specifier.contains(each) for each in _LATER if each < oldest):
        return text
    lower = {each for each in asked.specifier if each.operator in (">", ">=") and Version(each.version) < oldest}
    rest = [str(each) for each in asked.specifier if each not in lower]
    asked.specifier = SpecifierSet(",".join([f">={OLDEST_TORCH}", *rest]))
    kept = str(asked) if rest or asked.marker or asked.extras else TORCH
    if kept != text and len(asked.specifier) > 1:
        notes.remarks.append(f"[build-system] requires {kept}, where it had {text}")
    return kept


def _is_met(asked: Requirement, oldest: str) -> bool:
    """Whether every release that kernelwheel may bring is one that was asked for."""
    plain = not (asked.url or asked.extras)
    return plain and all(
        each.operator in (">", ">=") and Version(each.version) <= Version(oldest) for each in asked.specifier
    )
