"""What CMake needs for Windows: its toolchain file, what an import library is made from, and headers of ours."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ....project.build_platforms import WindowsBuild
from .zig import PROGRAM

BEFORE_TORCH = "windows"  # a folder in the work folder, for headers that come before torch's


def toolchain_file(work: Path, platform: WindowsBuild) -> str:
    """The file that tells CMake what it is configured for (cmake-toolchains(7))."""
    zig = work / PROGRAM
    lines = {
        "CMAKE_SYSTEM_NAME": f'"{platform.cmake_system}"',
        "CMAKE_SYSTEM_PROCESSOR": f'"{platform.machine}"',
        "CMAKE_CXX_COMPILER": f'"{zig}" c++',
        "CMAKE_CXX_COMPILER_TARGET": f'"{platform.triple}"',
        "CMAKE_CXX_COMPILER_FORCED": "TRUE",  # no test program: zig would compile its libraries for it, unoptimised
        "CMAKE_RC_COMPILER": f'"{zig}"',  # which there must be, although nothing has resources
        **{f"CMAKE_FIND_ROOT_PATH_MODE_{kind}": "ONLY" for kind in ("LIBRARY", "INCLUDE", "PACKAGE")},
        "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
    }
    return "".join(f"set({name} {value})\n" for name, value in lines.items())


def header_files() -> dict[str, str]:
    """The headers that come before torch's, by their names in the work folder."""
    header = Path(__file__).parents[3] / "cmake" / "windows_library.h"
    return {f"{BEFORE_TORCH}/torch/csrc/stable/library.h": header.read_text(encoding="utf-8")}


def definition(library: str, functions: Collection[str]) -> str:
    """The module definition file of a library with these functions (Microsoft, "Module-Definition (.def) Files")."""
    return "\n".join([f"LIBRARY {library}", "EXPORTS", *functions, ""])
