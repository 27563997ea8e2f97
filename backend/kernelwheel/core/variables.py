"""Environment variables: how those of options are named, and what counts as set.

Apart from `settings`, so that an import can ask for one of them without the registry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def prefix(package: str) -> str:
    """`SPLAT` for the package `splat`."""
    return package.upper().replace("-", "_").replace(".", "_")


def own_variable(package: str, option: str) -> str:
    """A package's own variable for an option: `SPLAT_CACHE_DIR`."""
    return f"{prefix(package)}_{option.upper().replace('-', '_')}"


def said(environ: Mapping[str, str], variable: str) -> str:
    """What a variable says; empty where it is not set, or says nothing but spaces."""
    return environ.get(variable, "").strip()


@contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Set one for a while, for a library that takes an option only from there, then put it back as it was."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
