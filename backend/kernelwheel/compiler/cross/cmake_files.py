"""What CMake needs in a build for another platform: its toolchain file, stubs of torch's libraries, sources of ours.

Operators use torch's stable ABI alone, whose functions are the same on every platform, so the torch on this machine
says what they are. Nothing of a stub gets into what is linked against it but its name.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ...project.build_platforms import HOST_PLATFORM, Platform, WindowsBuild
from ..elf_inspect import ElfFile
from ..toolchain.glibc_compat import stub_source
from ..toolchain.toolchain import Toolchain
from ..toolchain.torch_files import Torch

# The libraries of torch that operators are linked to.
LINKED = ("torch_cpu", "torch_cuda")
# Functions of torch's stable ABI (PyTorch notes, "LibTorch Stable ABI"): C names with these beginnings.
_STABLE = ("aoti_torch_", "torch_")
BEFORE_TORCH = "windows"  # a folder in the work folder, for headers that come before torch's
_CMAKE = Path(__file__).parents[2] / "cmake"


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
        lines |= _windows_compiler(compiler, platform)
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
                files[f"{name}.def"] = definition_file(name, functions)
            else:
                files[f"{name}.cpp"] = stub_source(functions)
    return files


def _windows_compiler(zig: Path, platform: WindowsBuild) -> dict[str, str]:
    """What CMake is told of the compiler (cmake-toolchains(7))."""
    return {
        "CMAKE_CXX_COMPILER": f"{zig};c++",
        "CMAKE_CXX_COMPILER_TARGET": platform.triple,
        "CMAKE_CXX_COMPILER_FORCED": "TRUE",  # no test program: zig would compile its libraries for it, unoptimised
        "CMAKE_RC_COMPILER": str(zig),  # which there must be, although nothing has resources
    }


def windows_sources() -> dict[str, str]:
    """By their names in the work folder: a header that comes before torch's, and what the CUDA runtime is linked to.

    That names libraries of MSVC for the linker, which it needs nothing of.
    """
    sources = {"torch/csrc/stable/library.h": "windows_library.h", "cudart.cpp": "windows_cudart.cpp"}
    texts = {name: (_CMAKE / file).read_text(encoding="utf-8") for name, file in sources.items()}
    texts |= {f"lib/lib{name}.a": "!<arch>\n" for name in ("LIBCMT", "OLDNAMES", "uuid")}
    return {f"{BEFORE_TORCH}/{name}": text for name, text in texts.items()}


def definition_file(library: str, functions: Collection[str]) -> str:
    """The module definition file of a library with these functions (Microsoft, "Module-Definition (.def) Files")."""
    return "\n".join([f"LIBRARY {library}", "EXPORTS", *functions, ""])
