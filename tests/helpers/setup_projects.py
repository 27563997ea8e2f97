"""Projects with a setup.py, laid out in a folder, and `python -m kernelwheel adopt` on them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tomlkit
from folders import BACKEND
from processes import Done, run

COMMAND = "import sys; from kernelwheel.adoption.adopt import main; sys.exit(main(sys.argv[1:]))"
BUILD_SYSTEM = {"requires": ["kernelwheel[cuda]", "torch>=2.10"], "build-backend": "kernelwheel.hooks"}
REMOVE = "note: then remove setup.py: its ext_modules would be compiled a second time"
MODULE = "#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"
TORCH = "from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension\n"
IMPORTS = "import os, torch\nfrom setuptools import find_packages, setup\n" + TORCH


def parsed_toml(text: str) -> dict[str, Any]:
    return tomlkit.parse(text).unwrap()


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def adopt(project: Path, *options: str, python: tuple[str, ...] = (), **env: str | None) -> Done:
    command = [sys.executable, *python, "-c", COMMAND, *options, project]
    return run(command, cwd=project.parent, env={"PYTHONPATH": str(BACKEND), **env}, check=False)


def notes_of(done: Done) -> list[str]:
    """Without the one that says which CUDA a CPU build of torch is said to have."""
    return [line for line in done.stderr.splitlines() if "this torch has no CUDA" not in line]
