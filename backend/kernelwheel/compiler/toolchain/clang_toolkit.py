"""clang as a CUDA compiler: a toolkit of clang, and of the parts for CUDA 12 that pip has.

For CUDA 12, pip has ptxas, libdevice, headers and the runtime, but no nvcc, cicc, cudafe++ and fatbinary. clang does
what the first three do (its manual, "Compiling CUDA with clang"); fatbinary packs for any CUDA, and comes with pip's
nvcc for CUDA 13.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...project.build_platforms import HOST_PLATFORM
from ...requirements import install
from ..nvcc_on_clang.passes import HEADER
from .compiler_environment import passed_on
from .programs import output_of
from .toolkit import CUDART, linked_folder

CLANG = "bin/clang++"  # in the folder of links
OLDEST = 19  # the oldest that this was tried with
# What pip installs -> a file of it, below `nvidia` in a folder of packages. 12.8 is the oldest that clang was tried
# with. The runtime has a static library since 12.9; an earlier one, which torch 2.10 pins, is linked dynamically.
PARTS = {
    "nvidia-cuda-nvcc-cu12>=12.8,<13": "cuda_nvcc/bin/ptxas",
    "nvidia-cuda-runtime-cu12>=12.9,<13": "cuda_runtime/include/cuda_runtime.h",
    "nvidia-cuda-cccl-cu12>=12.8,<13": "cuda_cccl/include/nv/target",
}
FATBINARY = "cuda-toolkit[nvcc,cuobjdump]"
CUDADEVRT = HOST_PLATFORM.static("cudadevrt")
RUNTIME = f"{HOST_PLATFORM.shared('cudart')}.12"
# In place of the static libraries, where there are none: a linker script (ld(1), "Implicit Linker Scripts") that names
# the shared runtime, and an archive of nothing, as no device code is linked.
DYNAMIC = {f"lib64/{CUDART}": f"INPUT({RUNTIME})\n", f"lib64/{CUDADEVRT}": "!<arch>\n"}
# Headers of ours. The second is one of curand's, which clang's include, whether it is used or not.
_CMAKE = Path(__file__).parents[2] / "cmake"
HEADERS = {
    HEADER: (_CMAKE / "nvcc_on_clang.h").read_text(encoding="utf-8"),
    "include/curand_mtgp32_kernel.h": "",
    "include/windows/crt/math_functions.hpp": (_CMAKE / "windows_math_functions.h").read_text(encoding="utf-8"),
}
# In nvcc's place; $0 is how it was called, which may be through a link to the folder.
PROGRAM = """#!/bin/sh
start='import sys; sys.path.insert(0, sys.argv[1])
from nvcc_on_clang.__main__ import main
main(sys.argv[2], sys.argv[3:])'
exec {python} -ISB -c "$start" "$(dirname "$0")" "$0" "$@"
"""


def clang_version(output: str) -> str:
    """The version of a clang from what it prints for `--version`; empty if it is none."""
    found = re.search(r"\bclang version (\d+\.\d+\.\d+)", output)
    return found[1] if found else ""


def clangs_on_path(environ: Mapping[str, str]) -> Iterator[str]:
    """The clangs on PATH, the default one first, then those with a number in their name, newest first."""
    path = environ.get("PATH", "")
    numbered: set[int] = set()
    for folder in filter(None, path.split(os.pathsep)):
        try:
            found = [re.fullmatch(r"clang\+\+-(\d{1,3})", file.name) for file in Path(folder).iterdir()]
        except OSError:
            continue
        numbered |= {int(match[1]) for match in found if match}
    names = ["clang++", *(f"clang++-{number}" for number in sorted(numbered, reverse=True) if number >= OLDEST)]
    yield from (place for name in names if (place := shutil.which(name, path=path)))


def clang_toolkit(clang: str, version: str, sites: Sequence[Path], environ: Mapping[str, str]) -> Path | str:
    """A folder of links to this clang and to what pip has installed in `sites`, with a program in nvcc's place.

    Of these folders the first with all parts is taken, or for each part the first that has it.

    Returns:
        The folder; or, in words, what is missing.
    """
    if int(version.split(".")[0]) < OLDEST:
        return f"is clang {version}; from {OLDEST} on, clang compiles with CUDA 12"
    # Parts of one release, if a folder has them all: a torch for CUDA 12 brings its own release of some.
    sites = sorted(sites, key=lambda site: len(missing_parts([site])))
    packer = _first(sites, "cu*/bin/fatbinary") or shutil.which("fatbinary", path=environ.get("PATH", ""))
    missing = [*missing_parts(sites), *([] if packer else [FATBINARY])]
    if missing:
        return f"is clang {version}, but for CUDA 12 it lacks parts that pip has ({install(missing)})"
    inside = output_of(clang, "-print-prog-name=clang").strip()
    parts = {
        CLANG: Path(inside if Path(inside).is_absolute() else clang),  # not a launcher with its name
        "bin/fatbinary": Path(str(packer)),
        "bin/nvcc_on_clang": Path(__file__).parents[1] / "nvcc_on_clang",
        "clang/include": Path(output_of(clang, "-print-resource-dir").strip()) / "include",
    }
    if reader := _first(sites, "cu*/bin/cuobjdump"):
        parts["bin/cuobjdump"] = reader
    for file in PARTS.values():
        root = Path(str(_first(sites, file)).removesuffix(file)) / file.split("/")[0]
        parts |= {f"lib64/{path.name}": path for path in root.glob(f"lib/{RUNTIME}")}
        parts |= {f"include/{path.name}": path for path in root.glob("include/[!_]*")}
        parts |= {f"lib64/{path.name}": path for path in root.glob("lib/*.a")}
        if file.endswith("ptxas"):
            parts |= {"bin/ptxas": root / "bin/ptxas", "nvvm/libdevice": root / "nvvm/libdevice"}
    if curand := _first(sites, "curand/include"):
        parts |= {f"include/{path.name}": path for path in curand.glob("curand*")}
    if licence := _first(sites, "nvidia_cuda_runtime_cu12-*.dist-info/**/License.txt", ""):
        parts["EULA.txt"] = licence
    # The libraries behind the driver: what compiles is in them (ld.so(8), LD_TRACE_LOADED_OBJECTS).
    loaded = output_of(str(parts[CLANG]), environ={**passed_on(environ), "LD_TRACE_LOADED_OBJECTS": "1"})
    for name, library in re.findall(r"^\s*(lib(?:clang|LLVM)\S*) => (/\S+)", loaded, re.MULTILINE):
        parts[f"clang/lib/{name}"] = Path(library)
    program = PROGRAM.format(python=shlex.quote(sys.executable))
    return linked_folder(parts, {"bin/nvcc": program, **HEADERS, **DYNAMIC})


def missing_parts(sites: Sequence[Path]) -> list[str]:
    """The requirements for pip that bring what none of these folders of packages has."""
    return [requirement for requirement, file in PARTS.items() if _first(sites, file) is None]


def _first(sites: Sequence[Path], pattern: str, folder: str = "nvidia") -> Path | None:
    """The newest file of this name below a folder in the first folder of packages that has one."""
    for site in sites:
        try:
            if found := sorted((site / folder).glob(pattern)):
                return found[-1]
        except OSError:  # a folder on sys.path that this user may not enter
            continue
    return None
