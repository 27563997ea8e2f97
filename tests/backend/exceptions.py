"""What single modules of the backend may do and others may not: the table exceptions.toml, which says why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import kernelwheel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BACKEND = Path(kernelwheel.__path__[0])
MODULES = {module.relative_to(BACKEND).as_posix(): module for module in sorted(BACKEND.rglob("*.py"))}
TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text(encoding="utf-8"))


def exceptions(module: str, rule: str) -> dict[str, str]:
    """What a module may do in spite of a rule, `system` or `environment`, and why."""
    return dict(TABLE.get(module, {}).get(rule, {}))
