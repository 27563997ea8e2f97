"""What every page is made of that a command writes: files of this folder, and the policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path

from ..scene.file_output import check_writable


def check_page(path: str | Path) -> Path:
    """Raise ValueError or OSError if a page of this name could not be written."""
    return check_writable(path, ".html", "pages")


def policy(program: str, style: str, rest: str) -> str:
    """The Content-Security-Policy: this program, this style, what `rest` allows, and nothing else."""
    return (
        f"default-src 'none'; script-src {_digest(program)}; style-src {_digest(style)}; {rest}; "
        "base-uri 'none'; form-action 'none'"
    )


def source(*names: str) -> str:
    """Files of this folder, one after the other."""
    return "\n".join((resources.files(__package__) / name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
