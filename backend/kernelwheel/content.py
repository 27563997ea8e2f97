"""Making a content, which the loader compares and a Plan begins with: runtime/artifact/content.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .runtime.artifact.content import Content


def make_content(
    package: str,
    version: str,
    sources: Mapping[str, str],
    abi: str,
    torch_target: str,
    extensions: Iterable[Mapping[str, Any]],
    options: Mapping[str, Any],
    dispatched: Iterable[str] = (),
    parts: Mapping[str, Iterable[str]] | None = None,
    devices: str = "together",
) -> Content:
    """A content as JSON values; `parts` are the files that each part alone is made of."""
    return {
        "package": package,
        "version": version,
        "sources": dict(sources),
        "abi": abi,
        "torch_target": torch_target,
        "extensions": list(extensions),
        "options": dict(options),
        "dispatched": list(dispatched),
        "parts": {part: sorted(files) for part, files in (parts or {}).items()},
        "devices": devices,
    }
