"""The links in a work folder by which compilers reach torch, the toolkit and further headers and libraries.

Through them, nothing that a compiler is given depends on where these are.
"""

from __future__ import annotations

from pathlib import Path

from ..project.build_platforms import HOST_PLATFORM
from .headers import header_folders
from .plan import Plan
from .toolchain.binding import find_cuda_library
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit import Nvcc


def link_all(work: Path, plan: Plan, toolchain: Toolchain) -> None:
    """Make the links in an otherwise prepared folder; they must not be there yet."""
    (work / "torch").symlink_to(toolchain.torch.root)
    if toolchain.cuda.nvcc:
        link_toolkit(work / "cuda", toolchain.cuda.nvcc)
    (work / "headers").mkdir()
    for language, folders in header_folders(plan, toolchain).items():
        for number, folder in enumerate(folders):
            (work / "headers" / f"{language}{number}").symlink_to(folder)
    _link_libraries(work, plan, toolchain)


def link_toolkit(folder: Path, nvcc: Nvcc) -> None:
    """Make the toolkit reachable below one folder. For another platform, with that platform's part in `targets`.

    nvcc looks for its parts from the path by which it was called.
    """
    if nvcc.target is None:
        folder.symlink_to(nvcc.root)
        return
    target = folder / "targets" / nvcc.target.name
    target.mkdir(parents=True)
    (target / "include").symlink_to(nvcc.target.include)
    (target / "lib").symlink_to(nvcc.target.lib)
    (folder / "nvvm").symlink_to(nvcc.root / "nvvm")
    if nvcc.clang:  # which finds all of a toolkit from the folder with its headers
        (target / "nvvm").symlink_to(nvcc.root / "nvvm")
        (target / "bin").symlink_to(nvcc.root / "bin")
    (folder / "bin").mkdir()
    for path in (nvcc.root / "bin").iterdir():
        (folder / "bin" / path.name).symlink_to(path)


def _link_libraries(work: Path, plan: Plan, toolchain: Toolchain) -> None:
    """Put links to the CUDA libraries that extensions name where the linker finds them, without a release number."""
    (work / "libraries").mkdir()
    nvcc = toolchain.cuda.nvcc
    for name in sorted({name for each in plan.extensions for name in each.libraries}):
        if nvcc and (found := find_cuda_library(name, nvcc, toolchain.torch.root.parent)):
            static, shared = HOST_PLATFORM.static(name), HOST_PLATFORM.shared(name)
            (work / "libraries" / (static if found.name == static else shared)).symlink_to(found)
