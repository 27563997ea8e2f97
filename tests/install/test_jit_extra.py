"""kernelwheel's extra `jit`, and `jit-cuda12` of ours: what a compile at run time needs and pip can bring."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from declared import make_distribution
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


def requirements(wheel: Path) -> list[Requirement]:
    """What the metadata of a wheel asks for."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return [*map(Requirement, re.findall(r"^Requires-Dist: (.*)$", archive.read(name).decode(), re.MULTILINE))]


def test_the_metadata_names_no_distribution_of_ours(splat_wheel: Path) -> None:
    """On an index, it may be somebody else's."""
    assert {"torch", "numpy"} <= {each.name for each in requirements(splat_wheel)}
    assert {each.name for each in requirements(splat_wheel)} & {"kernelwheel", "splat-kernels"} == set()


@pytest.mark.minutes
def test_pip_brings_the_driver_of_cmake_and_the_nvcc_of_torch_s_release(splat_wheel: Path, tmp_path: Path) -> None:
    kernelwheel = make_distribution(tmp_path / "made")

    chosen = resolve(tmp_path, f"torch=={TORCH}", str(splat_wheel), f"{kernelwheel}[jit]")

    assert chosen["torch"] == TORCH
    assert chosen["cuda-toolkit"] == TOOLKIT
    for part in ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-runtime"):
        assert chosen[part].startswith("13.0."), part
    assert {"kernelwheel", "scikit-build-core", "cmake", "ninja", "pyelftools"} <= set(chosen)


def test_what_clang_needs_is_to_be_had_beside_a_torch_for_cuda_12(splat_wheel: Path) -> None:
    """torch 2.10.0 pins the runtime of CUDA 12.8."""
    required = requirements(splat_wheel)
    extra = {each.name: each for each in required if each.marker and 'extra == "jit-cuda12"' in str(each.marker)}

    assert extra["nvidia-cuda-runtime-cu12"].specifier.contains("12.8.90")
    assert {Requirement(part).name for part in PARTS} <= set(extra)
