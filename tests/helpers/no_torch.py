"""A stand-in for torch where there is none: as much as the backend's tests need that build nothing."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

FILES = {
    "__init__.py": "from . import version\n\n__version__ = version.__version__\n",
    "version.py": "__version__ = '2.10.0'\ncuda = None\nhip = None\n",
    "include/torch/csrc/stable/library.h": "",
    "lib/libtorch_cpu.so": "",
}
_folder: tempfile.TemporaryDirectory[str] | None = None


def put_stand_in() -> bool:
    """Let Python find the stand-in, if it finds no torch; return whether it does."""
    global _folder
    if importlib.util.find_spec("torch") is None:
        _folder = tempfile.TemporaryDirectory(prefix="no-torch-")
        for name, text in FILES.items():
            path = Path(_folder.name, "torch", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        sys.path.append(_folder.name)
    return _folder is not None
