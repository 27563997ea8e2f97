"""The temporary folder, in which work is done where no Store can be used."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..runtime.machine.permissions import Guard, Trust
from ..runtime.variables import own_variable


def temporary_guard(package: str, trust: Trust) -> Guard:
    """A guard that rejects a temporary folder where other users could replace a work folder."""
    folder = Path(tempfile.gettempdir())
    return Guard(folder, trust, "the temporary folder", "TMPDIR", own_variable(package, "trusted-owners"))
