"""Projects with a setup.py, laid out in a folder, and `python -m kernelwheel adopt` on them."""

from __future__ import annotations

import sys
from pathlib import Path

from folders import BACKEND
from kernelwheel.version import __version__
from processes import Done, run

# Of a checkout, whose wheel may be anywhere.
PLACE = f"kernelwheel[cuda] @ file:///path/to/kernelwheel-{__version__}-py3-none-any.whl"
BUILD_SYSTEM = {"requires": [PLACE, "torch>=2.10"], "build-backend": "kernelwheel.hooks"}
MODULE = "#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"
IMPORTS = (
    "import os, torch\nfrom setuptools import find_packages, setup\n"
    "from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension\n"
)


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def adopt(project: Path, *options: str, **env: str | None) -> Done:
    command = [sys.executable, "-m", "kernelwheel", "adopt", *options, project]
    return run(command, cwd=project.parent, env={"PYTHONPATH": str(BACKEND), **env}, check=False)
