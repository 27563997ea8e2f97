"""The extras `jit` and `jit-cuda12`: all that a compile at run time needs and pip can bring beside torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from processes import run

# torch 2.11.0 itself requires cuda-toolkit==13.0.2.
TORCH, TOOLKIT = "2.11.0", "13.0.2"


def resolve(folder: Path, *requirements: str) -> dict[str, str]:
    """The versions that pip chooses, by name; it installs nothing."""
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = run([sys.executable, "-m", "pip", "install", *options, *requirements], cwd=folder)
    chosen = (item["metadata"] for item in json.loads(done.stdout)["install"])
    return {each["name"].replace("_", "-"): each["version"] for each in chosen}


def test_pip_brings_the_driver_of_cmake_and_the_nvcc_of_torch_s_release(splat_wheel: Path, tmp_path: Path) -> None:
    chosen = resolve(tmp_path, f"torch=={TORCH}", f"{splat_wheel}[jit]")

    assert chosen["torch"] == TORCH
    assert chosen["cuda-toolkit"] == TOOLKIT
    for part in ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-runtime"):
        assert chosen[part].startswith("13.0."), part
    assert {"scikit-build-core", "cmake", "ninja", "pyelftools"} <= set(chosen)


def test_beside_a_torch_for_cuda_12_pip_brings_what_clang_needs(splat_wheel: Path, tmp_path: Path) -> None:
    """That torch pins the runtime of CUDA 12.8."""
    chosen = resolve(tmp_path, "torch==2.10.0", f"{splat_wheel}[jit-cuda12]")

    assert chosen["torch"] == "2.10.0"
    assert chosen["nvidia-cuda-runtime-cu12"].startswith("12.8.")
    assert {"nvidia-cuda-nvcc-cu12", "nvidia-cuda-cccl-cu12", "nvidia-cuda-nvcc"} <= set(chosen)
