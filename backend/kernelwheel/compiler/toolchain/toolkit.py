"""A CUDA compiler and its toolkit: as they were found, or put together in one folder, of links to parts elsewhere."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...project.build_platforms import HOST_PLATFORM, PLATFORMS
from ...runtime.errors import KernelWheelError
from ...runtime.machine.host import Arch
from ...runtime.machine.permissions import NOBODY_ELSE, Guard
from ...runtime.variables import search_path

CUDART = HOST_PLATFORM.static("cudart_static")  # the static CUDA runtime, in `lib64` of a toolkit
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


def linked_folder(parts: Mapping[str, Path], files: Mapping[str, str]) -> Path | str:
    """A folder of links to `parts`, by name, which this process removes when it ends; or, in words, why there is none.

    `files` are the texts of what to make where there is no part, by name. Laid out as NVIDIA does, it is a toolkit like
    any other: it can be identified, and reached through one link from any folder.
    """
    # Whoever could replace the folder would have their own program run.
    guard = Guard(Path(tempfile.gettempdir()), NOBODY_ELSE, "the temporary folder", "TMPDIR", "")
    try:
        guard.check(guard.folder)
        search_path(guard.folder)  # nvcc's profile puts what is below it on PATH
        links = tuple(sorted((name, place.resolve()) for name, place in parts.items()))
        return _folder(links, tuple(sorted((name, text) for name, text in files.items() if name not in parts)))
    except (KernelWheelError, OSError) as error:
        why = f"{error.problem}: {error.found}" if isinstance(error, KernelWheelError) else str(error)
        return f"its parts cannot be put together ({why})"


@cache
def _folder(links: tuple[tuple[str, Path], ...], files: tuple[tuple[str, str], ...]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kernelwheel-toolkit-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, place in links:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(place)
    for name, text in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755 if name == "bin/nvcc" else 0o644)
    return folder
