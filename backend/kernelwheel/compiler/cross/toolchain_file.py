"""The file that tells CMake of a build for another platform (cmake-toolchains(7))."""

from __future__ import annotations

from pathlib import Path

from ..toolchain.toolchain import Toolchain


def toolchain_file(toolchain: Toolchain) -> str:
    """What CMake must know in a build for another platform (cmake-toolchains(7))."""
    nvcc, platform = toolchain.cuda.nvcc, toolchain.target
    assert platform is not None
    libc = Path(toolchain.cxx.answer(f"-print-file-name={platform.libc}")).resolve()
    told = toolchain.cxx.cross_target
    lines = {
        "CMAKE_SYSTEM_NAME": platform.cmake_system,
        "CMAKE_SYSTEM_PROCESSOR": platform.machine,
        "CMAKE_CXX_COMPILER": toolchain.cxx.path,
        "CMAKE_FIND_ROOT_PATH": libc.parents[1],
        **{f"CMAKE_FIND_ROOT_PATH_MODE_{kind}": "ONLY" for kind in ("LIBRARY", "INCLUDE", "PACKAGE")},
        "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
    }
    if told:
        lines["CMAKE_CXX_COMPILER_TARGET"] = told
    if nvcc and nvcc.target:
        host = f" -Xcompiler=--target={told}" if told else ""
        lines |= {
            "CMAKE_CUDA_HOST_COMPILER": toolchain.cxx.path,
            "CMAKE_CUDA_FLAGS_INIT": f"--target-directory {nvcc.target.name}{host}",
            # CMake links what nvcc compiled with the host compiler, and tells it nothing of C++.
            **({"CMAKE_SHARED_LINKER_FLAGS_INIT": f"--target={told}"} if told else {}),
        }
    return "".join(f'set({name} "{value}")\n' for name, value in lines.items())
