"""The extras `jit` and `jit-cuda12`: all that a compile at run time needs and pip can bring beside torch."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from declared import make_distribution
from folders import REPOSITORY
from kernelwheel.compiler.toolchain.clang_toolkit import PARTS
from packaging.requirements import Requirement
from processes import run

# torch 2.11.0 itself requires cuda-toolkit==13.0.2.
TORCH, TOOLKIT = "2.11.0", "13.0.2"


def resolve(folder: Path, *requirements: str) -> dict[str, str]:
    """The versions that pip chooses, by name; it installs nothing."""
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = run([sys.executable, "-m", "pip", "install", *options, *requirements], cwd=folder)
    chosen = (item["metadata"] for item in json.loads(done.stdout)["install"])
    return {each["name"].replace("_", "-"): each["version"] for each in chosen}


@pytest.mark.minutes
def test_pip_brings_the_driver_of_cmake_and_the_nvcc_of_torch_s_release(splat_wheel: Path, tmp_path: Path) -> None:
    """kernelwheel is not on an index yet: it comes from a checkout, or lies in a folder beside the package's wheel."""
    # A copy: setuptools builds in the folder itself, where another run may just do the same.
    checkout = shutil.copytree(REPOSITORY / "backend", tmp_path / "backend")
    from_checkout = resolve(tmp_path, f"torch=={TORCH}", str(checkout), f"{splat_wheel}[jit]")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for wheel in (splat_wheel, make_distribution(tmp_path / "made")):
        (wheels / wheel.name).symlink_to(wheel)
    chosen = resolve(tmp_path, f"torch=={TORCH}", "splat-kernels[jit]", f"--find-links={wheels}")

    assert chosen == from_checkout
    assert chosen["torch"] == TORCH
    assert chosen["cuda-toolkit"] == TOOLKIT
    for part in ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-runtime"):
        assert chosen[part].startswith("13.0."), part
    assert {"kernelwheel", "scikit-build-core", "cmake", "ninja", "pyelftools"} <= set(chosen)


def test_what_clang_needs_is_to_be_had_beside_a_torch_for_cuda_12(splat_wheel: Path) -> None:
    """torch 2.10.0 pins the runtime of CUDA 12.8."""
    with ZipFile(splat_wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        required = map(Requirement, re.findall(r"^Requires-Dist: (.*)$", archive.read(name).decode(), re.MULTILINE))
    extra = {each.name: each for each in required if each.marker and 'extra == "jit-cuda12"' in str(each.marker)}

    assert extra["splat-kernels"].extras == {"jit"}
    assert extra["nvidia-cuda-runtime-cu12"].specifier.contains("12.8.90")
    assert {Requirement(part).name for part in PARTS} <= set(extra)
