"""What `kernelwheel.load` has compiled under one name, and why each time: what `cache explain` says of it."""

from __future__ import annotations

import time

from ..runtime.artifact.artifact import Artifact, Damaged
from ..runtime.artifact.content import Content
from ..runtime.artifact.manifest import FILE
from ..runtime.decision.snapshot import InstalledPackage
from ..store.content_changes import differences


def last_entries(package: InstalledPackage) -> list[Artifact]:
    """The entries in all stores, the last one at the end. Raises if one is damaged."""
    entries = []
    for entry in (entry for store in package.stores() for entry in store.entries()):
        if isinstance(entry, Damaged):
            raise entry.error
        entries.append(entry)
    return sorted(entries, key=_made)


def changes(had: Content, wanted: Content) -> str:
    """How the content of one entry differs from another's."""
    old, new = ({**each["extensions"][0], **each["options"], "sources": each["sources"]} for each in (had, wanted))
    # Without CUDA, an entry has no options for it.
    found = (f"{name}: {change}" for name, change in differences(old, new).items() if name in old.keys() & new.keys())
    return "; ".join(found) or "the same content, for other GPUs, torch or Python"


def explanation(package: InstalledPackage) -> str:
    """All entries in the order in which they were made, each with what had changed."""
    lines = []
    before: Content | None = None
    for entry in last_entries(package):
        content = entry.manifest.content
        made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(_made(entry)))
        lines += [f"{made}  {entry.folder}", f"  {changes(before, content) if before else 'the first of this name'}"]
        before = content
    return "\n".join(lines) or f"no entries of {package.package}"


def _made(entry: Artifact) -> float:
    return (entry.folder / FILE).stat().st_mtime
