"""What CMake needs for Windows: the compiler, what an import library is made from, and sources of ours."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ....project.build_platforms import WindowsBuild

BEFORE_TORCH = "windows"  # a folder in the work folder, for headers that come before torch's
_CMAKE = Path(__file__).parents[3] / "cmake"


def compiler(zig: Path, platform: WindowsBuild) -> dict[str, str]:
    """What CMake is told of the compiler (cmake-toolchains(7))."""
    return {
        "CMAKE_CXX_COMPILER": f"{zig};c++",
        "CMAKE_CXX_COMPILER_TARGET": platform.triple,
        "CMAKE_CXX_COMPILER_FORCED": "TRUE",  # no test program: zig would compile its libraries for it, unoptimised
        "CMAKE_RC_COMPILER": str(zig),  # which there must be, although nothing has resources
    }


def source_files() -> dict[str, str]:
    """By their names in the work folder: a header that comes before torch's, and what the CUDA runtime is linked to.

    That names libraries of MSVC for the linker, which it needs nothing of.
    """
    sources = {"torch/csrc/stable/library.h": "windows_library.h", "cudart.cpp": "windows_cudart.cpp"}
    texts = {name: (_CMAKE / file).read_text(encoding="utf-8") for name, file in sources.items()}
    texts |= {f"lib/lib{name}.a": "!<arch>\n" for name in ("LIBCMT", "OLDNAMES", "uuid")}
    return {f"{BEFORE_TORCH}/{name}": text for name, text in texts.items()}


def definition(library: str, functions: Collection[str]) -> str:
    """The module definition file of a library with these functions (Microsoft, "Module-Definition (.def) Files")."""
    return "\n".join([f"LIBRARY {library}", "EXPORTS", *functions, ""])
