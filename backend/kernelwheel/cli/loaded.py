"""What `kernelwheel.load` has compiled under one name, and why each time: what `cache explain` says of it."""

from __future__ import annotations

import time

from ..runtime.artifact import Artifact
from ..runtime.content import Content
from ..runtime.installed import InstalledPackage
from ..runtime.manifest import FILE


def last_entries(package: InstalledPackage) -> list[Artifact]:
    """The entries in all stores, the last one at the end."""
    return sorted((entry for store in package.stores() for entry in store.entries()), key=_made)


def changes(had: Content, wanted: Content) -> str:
    """How the content of one entry differs from another's."""
    old, new = (dict(each["sources"]) for each in (had, wanted))
    files = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    before, after = ({**each["extensions"][0], **each["options"]} for each in (had, wanted))
    # Without CUDA, an entry has no options for it.
    found = [f"{name}: {was} -> {after[name]}" for name, was in before.items() if after.get(name, was) != was]
    if files:
        found.append("other files: " + ", ".join(files[:5]) + (f" and {len(files) - 5} more" if files[5:] else ""))
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
