"""A CUDA compiler and its toolkit, as they were found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ...project.build_platforms import PLATFORMS
from ...runtime.machine.host import Arch
from .linked_toolkit import CUDART

# Where a toolkit has its libraries, in any of the usual layouts.
LIBRARY_FOLDERS = ("lib64", "lib", *(f"targets/{each.cuda_target}/lib" for each in PLATFORMS.values()))


@dataclass(frozen=True)
class CudaTarget:
    """The part of a toolkit for another platform: nvcc's name for it, `sbsa-linux`, and its folder of libraries."""

    name: str
    lib: Path


@dataclass(frozen=True)
class Nvcc:
    """A CUDA compiler and the toolkit that it uses."""

    path: Path  # the nvcc inside the toolkit, `root/bin/nvcc`; if there is none, the one that was found
    root: Path  # the toolkit's root as nvcc itself sees it, behind any wrapper
    # the folder in which nvcc itself searches for headers: `root/include`, or one below `root/targets`; in a build for
    # another platform, that of `target`
    include: Path
    version: str  # `13.0.88`; where clang stands in nvcc's place, that of ptxas
    supported: tuple[Arch, ...]  # the architectures that it makes SASS for, as listed by `nvcc --list-gpu-code`
    origin: str  # where it was found, in words
    cudart: Path | None = None  # the static CUDA runtime that is linked in
    target: CudaTarget | None = None  # what it compiles for another platform with; None in a build for this machine's
    virtual: tuple[Arch, ...] = ()  # the architectures that it makes PTX for, as listed by `nvcc --list-gpu-arch`
    clang: str = ""  # the version of the clang in nvcc's place (clang_toolkit.py); empty for an nvcc

    @property
    def name(self) -> str:
        """What it is, for messages."""
        return f"clang {self.clang} with CUDA {self.version}" if self.clang else f"nvcc {self.version}"

    @property
    def header_folders(self) -> tuple[Path, ...]:
        """Where a C++ compiler finds the headers that nvcc finds: `include` and, since CUDA 13, CCCL's folder in it."""
        cccl = self.include / "cccl"
        return (self.include, cccl) if cccl.is_dir() else (self.include,)

    @property
    def release(self) -> tuple[int, int]:
        """The CUDA release: major and minor."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


def find_cudart(root: Path) -> Path | None:
    """The static CUDA runtime of a toolkit, in any of the usual layouts."""
    for folder in LIBRARY_FOLDERS:
        path = root / folder / CUDART
        if os.path.exists(path):
            return path
    return None
