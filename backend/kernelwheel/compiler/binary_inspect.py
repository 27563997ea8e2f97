"""Reading a built library back, to prove that the compilers produced what the Plan specifies."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..project.arch_choice import from_code
from ..project.build_platforms import MZ, PLATFORMS
from ..project.drivers import driver_for
from ..project.extension import is_of_cuda_major
from ..project.source_files import file_sha256
from ..runtime.artifact.manifest import Library
from ..runtime.errors import BuildError
from ..runtime.machine.platforms import numbers
from .cross.windows.pe_inspect import PeFile
from .elf_inspect import ElfFile

AnyFile = ElfFile | PeFile
CUDA_LIBRARIES = {platform.shared("torch_cuda") for platform in PLATFORMS.values()}


def library_at(path: Path) -> AnyFile:
    """The reader of a library."""
    with path.open("rb") as stream:
        return PeFile(path) if stream.read(len(MZ)) == MZ else ElfFile(path)


def read_library(path: Path, cuobjdump: Path | None) -> Library:
    """Describe a library for the manifest.

    Raises:
        BuildError: it links against libtorch_cuda, and there is no cuobjdump, or that failed.
    """
    library = library_at(path)
    device = "cuda" if CUDA_LIBRARIES.intersection(library.needed) else "cpu"
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    if device == "cuda":
        code = _device_code(path, cuobjdump)
        sass, ptx = (_sorted(each.arch for each in code if each.kind == kind) for kind in ("elf", "ptx"))
    # `PyInit_<name>`, if it is a module (Python/C API, "Extension modules").
    module = next((name.removeprefix("PyInit_") for name in library.exported() if name.startswith("PyInit_")), None)
    return Library(path.name, file_sha256(path), path.stat().st_size, device, sass, ptx, module)


def driver_for_ptx(paths: Iterable[Path], cuobjdump: Path | None, release: tuple[int, int]) -> str:
    """The CUDA release of the oldest driver that compiles all PTX in these libraries; that of the toolkit if unknown.

    clang can make PTX that is older than the toolkit; nvcc does not.
    """
    found = [each.version for path in paths for each in _device_code(path, cuobjdump) if each.kind == "ptx"]
    return driver_for(max(found, default=(0, 0)), release)


class _Code(NamedTuple):
    """Device code in a library: `elf` or `ptx`, `sm_90` or `compute_90`, and the version of ELF's ABI or of PTX."""

    kind: str
    arch: str
    version: tuple[int, int]


def kernel_names(path: Path, cuobjdump: Path | None) -> set[tuple[frozenset[str], ...]]:
    """The kernels and variables that host code knows by name: of each source, as architectures have them."""
    found: dict[str, list[frozenset[str]]] = {}
    for text in _listing(path, cuobjdump).split("Fatbin elf code:\n")[1:]:
        names = re.findall(r"^STT_(?:FUNC +\S+ +STO_ENTRY|OBJECT +\S+ +\S+) +(\S+)$", text, re.MULTILINE)
        found.setdefault(text.split("arch = ", 1)[1].split("\n", 1)[0], []).append(frozenset(names))
    return {tuple(names) for names in found.values()}


def _device_code(path: Path, cuobjdump: Path | None) -> set[_Code]:
    """The device code in a library for CUDA."""
    listed = re.findall(
        r"^Fatbin (elf|ptx) code:\n=+\narch = ((?:sm|compute)_\d+[af]?)\ncode version = \[(\d+),(\d+)\]$",
        _listing(path, cuobjdump),
        re.MULTILINE,
    )
    return {_Code(kind, arch, (int(major), int(minor))) for kind, arch, major, minor in listed}


def _listing(path: Path, cuobjdump: Path | None) -> str:
    """What cuobjdump prints of a library for CUDA: its device code, with the symbols of each.

    The shorter lists (`--list-elf`) of older ones, such as triton's, leave out the suffix of `sm_90a`.
    """
    if cuobjdump is None:
        raise BuildError(
            f"the device code of {path.name} cannot be read",
            required="cuobjdump",
            found="no cuobjdump in the toolchain",
            remedies=["install it next to torch: pip install 'cuda-toolkit[cuobjdump]'"],
        )
    with library_at(path).device_code() as file:
        done = subprocess.run([cuobjdump, "--dump-elf-symbols", file], capture_output=True, text=True, check=False)
    # With nothing to list, it says so and exits with 255.
    if done.returncode != 0 and "does not contain" not in done.stdout + done.stderr:
        raise BuildError(
            f"cuobjdump cannot read {path.name}",
            required=f"a list of device code from {cuobjdump} --dump-elf-symbols",
            found=(done.stderr or done.stdout).strip() or f"exit status {done.returncode}",
            remedies=["install the cuobjdump of this CUDA toolkit"],
        )
    return done.stdout


def _sorted(codes: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(str, sorted(set(map(from_code, codes)))))


def libraries_of_cuda_major(paths: Iterable[Path]) -> list[str]:
    """The libraries of one CUDA major, such as `libcublas.so.13`, that any of these libraries needs."""
    return sorted({name for path in paths for name in library_at(path).needed if is_of_cuda_major(name)})


def newest_symbol_versions(paths: list[Path], *prefixes: str) -> list[str]:
    """The newest symbol version with each prefix, such as `GLIBC_`, that any library needs; empty if none does."""
    versions = {symbol.version for path in paths for symbol in library_at(path).needed_symbols}
    found = ([each for each in versions if re.fullmatch(rf"{prefix}[\d.]+", each)] for prefix in prefixes)
    return [max(each, key=numbers, default="") for each in found]
