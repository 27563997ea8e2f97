"""The machine that a setup.py is to see in its environment: no programs and flags of this one, perhaps a toolkit.

Part of the child process that runs a setup.py: it imports nothing from this package, as setup_script.py.
"""

from __future__ import annotations

import os
from pathlib import Path

# Variables with tools and flags of this machine, which have nothing to do with the project.
FORGOTTEN = (
    "CC", "CFLAGS", "CPPFLAGS", "CUDACXX", "CUDAFLAGS", "CUDA_HOME", "CUDA_INC_PATH", "CUDA_PATH", "CUDNN_HOME",
    "CUDNN_PATH", "CXX", "CXXFLAGS", "FORCE_CUDA", "LDFLAGS", "NVCC_APPEND_FLAGS", "NVCC_FLAGS", "NVCC_PREPEND_FLAGS",
)  # fmt: skip
# An address where nobody answers: programs that would download fail at once.
NO_PROXY, NOWHERE = ("no_proxy", "NO_PROXY"), "http://127.0.0.1:9"


def without_programs(path: str, names: set[str], scratch: Path) -> str:
    """PATH as if some programs were not installed: a folder that has one becomes a folder of links to the others."""
    folders = []
    for number, folder in enumerate(path.split(os.pathsep)):
        if folder and any((Path(folder) / name).exists() for name in names):
            copy = scratch / f"path-{number}"
            copy.mkdir()
            for entry in Path(folder).absolute().iterdir():
                if entry.name not in names:
                    (copy / entry.name).symlink_to(entry)
            folder = str(copy)
        folders.append(folder)
    return os.pathsep.join(folders)


def make_toolkit(root: Path, release: str) -> Path:
    """A folder that looks like a CUDA toolkit to a setup.py: its nvcc can say its version and nothing else."""
    for name in ("bin", "include", "lib64"):
        (root / name).mkdir(parents=True)
    lines = f"nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {release}, V{release}.0\n"
    (root / "bin/nvcc").write_text(f"#!/bin/sh\ncat <<end\n{lines}end\n", encoding="utf-8")
    (root / "bin/nvcc").chmod(0o755)
    return root


def prepare_environment(toolkit: Path | None, scratch: Path) -> None:
    """Set what setup.py sees in its environment."""
    for name in (*FORGOTTEN, *NO_PROXY):
        os.environ.pop(name, None)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ[name] = os.environ[name.upper()] = NOWHERE
    os.environ["GIT_ALLOW_PROTOCOL"] = "file"  # git's submodules, if they are there already, are no download
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    path = without_programs(os.environ.get("PATH", os.defpath), {"nvcc", "nvidia-smi"}, scratch)
    if toolkit:
        os.environ["CUDA_HOME"] = os.environ["CUDA_PATH"] = str(toolkit)
        os.environ["FORCE_CUDA"] = "1"
        path = f"{toolkit / 'bin'}{os.pathsep}{path}"
    os.environ["PATH"] = path
