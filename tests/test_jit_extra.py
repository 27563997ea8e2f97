"""The extra `jit`: all that a compile at run time needs and pip can bring, in the release of torch's own CUDA."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from processes import run

# torch 2.11.0 itself requires cuda-toolkit==13.0.2.
TORCH, TOOLKIT = "2.11.0", "13.0.2"


def test_pip_brings_the_driver_of_cmake_and_the_nvcc_of_torch_s_release(splat_wheel: Path, tmp_path: Path) -> None:
    """pip resolves for real, and installs nothing."""
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = run(
        [sys.executable, "-m", "pip", "install", *options, f"torch=={TORCH}", f"{splat_wheel}[jit]"], cwd=tmp_path
    )
    chosen = {item["metadata"]["name"]: item["metadata"]["version"] for item in json.loads(done.stdout)["install"]}

    assert chosen["torch"] == TORCH
    assert chosen["cuda-toolkit"] == TOOLKIT
    for part in ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-runtime"):
        assert chosen[part].startswith("13.0."), part
    names = {name.replace("_", "-") for name in chosen}
    assert {"scikit-build-core", "cmake", "ninja", "pyelftools"} <= names
