"""Environment variables of options: how they are named, and what counts as said. For `settings`, and for an import that
wants one variable without the rest of the registry.
"""

from __future__ import annotations

from collections.abc import Mapping


def prefix(package: str) -> str:
    """`SPLAT` for the package `splat`."""
    return package.upper().replace("-", "_").replace(".", "_")


def own_variable(package: str, option: str) -> str:
    """A package's own variable for an option: `SPLAT_CACHE_DIR`."""
    return f"{prefix(package)}_{option.upper().replace('-', '_')}"


def said(environ: Mapping[str, str], variable: str) -> str:
    """What a variable says; empty where it is not set, or says nothing but spaces."""
    return environ.get(variable, "").strip()
