"""What CMake needs in a build for another platform: its toolchain file, and stubs in place of torch's libraries.

Operators use torch's stable ABI alone, whose functions are the same on every platform, so the torch on this machine
says what they are. Nothing of a stub gets into what is linked against it but its name.
"""

from __future__ import annotations

from pathlib import Path

from ...project.build_platforms import HOST_PLATFORM, Platform, WindowsBuild
from ..elf_inspect import ElfFile
from ..toolchain.glibc_compat import stub_source
from ..toolchain.toolchain import Toolchain
from ..toolchain.torch_files import Torch
from .windows import cmake_for_windows as windows

# The libraries of torch that operators are linked to.
LINKED = ("torch_cpu", "torch_cuda")
# Functions of torch's stable ABI (PyTorch notes, "LibTorch Stable ABI"): C names with these beginnings.
_STABLE = ("aoti_torch_", "torch_")


def toolchain_file(work: Path, toolchain: Toolchain) -> str:
    """The file that tells CMake what it is configured for (cmake-toolchains(7))."""
    nvcc, platform, compiler = toolchain.cuda.nvcc, toolchain.target, toolchain.cxx.program(work)
    assert platform is not None
    lines = {
        "CMAKE_SYSTEM_NAME": platform.cmake_system,
        "CMAKE_SYSTEM_PROCESSOR": platform.machine,
        "CMAKE_CXX_COMPILER": compiler,
        "CMAKE_CUDA_HOST_COMPILER": compiler,
        **{f"CMAKE_FIND_ROOT_PATH_MODE_{kind}": "ONLY" for kind in ("LIBRARY", "INCLUDE", "PACKAGE")},
        "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
    }
    if isinstance(platform, WindowsBuild):
        lines |= windows.compiler(compiler, platform)
    else:
        libc = Path(toolchain.cxx.answer(f"-print-file-name={platform.libc}")).resolve()
        lines["CMAKE_FIND_ROOT_PATH"] = libc.parents[1]
    if nvcc and nvcc.target:
        lines["CMAKE_CUDA_FLAGS_INIT"] = f"--target-directory {nvcc.target.name}"
    return "".join(f'set({name} "{value}")\n' for name, value in lines.items())


def stub_files(torch: Torch, platform: Platform) -> dict[str, str]:
    """The sources of the stubs, by file: `libtorch_cpu.so.cpp`, or for Windows `torch_cpu.dll.def`."""
    files = {}
    for stem in LINKED:
        path, name = torch.root / "lib" / HOST_PLATFORM.shared(stem), platform.shared(stem)
        if path.is_file():
            functions = sorted(each for each in ElfFile(path).exported() if each.startswith(_STABLE))
            if isinstance(platform, WindowsBuild):
                files[f"{name}.def"] = windows.definition(name, functions)
            else:
                files[f"{name}.cpp"] = stub_source(functions)
    return files
