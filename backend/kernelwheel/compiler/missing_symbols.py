"""Symbols that a library needs and nothing defines: looked for in what a loader would load.

A linker does not know: a library on all of torch has some through others, as cuBLAS through torch's, and Python's are
in no library; what a CMakeLists.txt links, and by which linker, is its own affair.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from ..flags.words import values_of
from ..project.build_platforms import HEADER, PLATFORMS, LinuxBuild
from ..runtime.errors import BuildError
from ..runtime.progress import Say
from ..version import LOADED
from .cmake_build import source_of
from .elf_inspect import ElfFile
from .plan import Plan
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit import LIBRARY_FOLDERS

# The symbols of the driver's libraries, which no builder needs to have.
DRIVER = {"libcuda.so.1": "cu[A-Z]", "libnvidia-ml.so.1": "nvml[A-Z]"}
# What torch gives to the whole process, whoever names it; and symbols of device code that has to be linked.
GLOBAL = "libtorch_global_deps.so"
OF_DEVICE_LINK = ("__cudaRegisterLinkedBinary", "__fatbinwrap_")
MOST = 10
Find = Callable[[str, Iterable[str]], ElfFile | None]  # a library by its name, there or where others are


def refuse_missing_symbols(plan: Plan, toolchain: Toolchain, work: Path, say: Say) -> None:
    """Reject libraries that no process could load.

    Raises:
        BuildError: names the symbols as C++ has them, and the sources that use them.
    """
    if plan.host_code or not isinstance(platform := PLATFORMS[plan.platform], LinuxBuild):
        return  # nothing was linked; or a library for Windows, which never has undefined symbols
    folders = _folders(plan, toolchain, work)
    read = cache(ElfFile)

    def find(name: str, own: Iterable[str]) -> ElfFile | None:
        for path in (Path(folder, name) for folder in (*own, *folders)):
            if path.is_file():
                with path.open("rb") as stream:
                    if platform.is_library(stream.read(HEADER)):
                        return read(path)
        return None

    missing: dict[str, set[str]] = {}
    for path in sorted((work / "out").iterdir()):
        library = read(path)
        _refuse_own(library, find, work / "build")
        names, absent = _missing(library, plan, find)
        if names and absent:
            say(f"{path.name}: not all of its symbols were found, and neither was {', '.join(absent)}")
        elif names:
            missing[path.name] = names
    if missing:
        raise _refusal(plan, work, missing)


def _missing(library: ElfFile, plan: Plan, find: Find) -> tuple[set[str], list[str]]:
    """The symbols of a library that nothing defines, and those of the libraries it names that are not here.

    On the stable ABI it must name what it uses: what torch's own libraries need changes with each release.
    """
    python = ("Py", "_Py") if plan.binding and plan.binding.python else ()
    wanted = {name for name in library.undefined() if not name.startswith(python)}
    pending = [(library, name) for name in (*library.needed, *([GLOBAL] if plan.binding else []))]
    seen: set[str] = set()
    absent = []
    while pending and wanted:
        by, name = pending.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if found := find(name, by.folders):
            wanted.difference_update(found.exported())
            pending += [(found, each) for each in found.needed if plan.binding]
        elif name in DRIVER:
            wanted = {each for each in wanted if not re.match(DRIVER[name], each)}
        elif name in library.needed:
            absent.append(name)
    return wanted, absent


def _folders(plan: Plan, toolchain: Toolchain, work: Path) -> tuple[str, ...]:
    """Where libraries are: made here, torch's or what stands for them, CUDA's, those of flags, and the system's."""
    nvcc, site = toolchain.cuda.nvcc, toolchain.torch.root.parent
    toolkit = [nvcc.root / folder for folder in LIBRARY_FOLDERS] if nvcc else []
    ours = (
        work / "out",
        work / "build/torch",
        toolchain.torch.root / "lib",
        *sorted(site.glob("nvidia/*/lib")),
        *toolkit,
    )
    return (*map(str, ours), *values_of(plan.linker_flags, ("-L",), linker=True), *toolchain.cxx.linker_folders())


def _refuse_own(library: ElfFile, find: Find, build: Path) -> None:
    """Reject a library that needs one that was made with it and is not one of the wheel, as those in `out` are."""
    absent = (name for name in library.needed if name not in DRIVER and not find(name, library.folders))
    if made := [name for name in absent if any(build.rglob(Path(name).name))]:
        raise BuildError(
            f"{library.path.name} needs {made[0]}, which this build made and no wheel has",
            required="code of one's own within the library: from its own sources, and from static libraries",
            found=f"{made[0]}, a shared library",
            remedies=[
                "in CMakeLists.txt, make it STATIC, with POSITION_INDEPENDENT_CODE: add_library(<name> STATIC ...)",
                "or add its files to SOURCES of what needs it",
            ],
        )


def _refusal(plan: Plan, work: Path, missing: dict[str, set[str]]) -> BuildError:
    every = {name for names in missing.values() for name in names}
    build = work / "build"
    users = {
        file.relative_to(build).as_posix(): ElfFile(file).undefined(".symtab") for file in sorted(build.rglob("*.o"))
    }

    def line(file: str, name: str) -> str:
        sources = [source_of(file) for file, used in users.items() if name in used]
        return f"{file}: {demangled(name)}, used by {', '.join(sources) or 'what is linked in'}"

    lines = [line(file, name) for file, names in missing.items() for name in sorted(names)]
    loaded, tables = plan.version == LOADED, bool(plan.extensions)
    source = "to the sources" if loaded or tables else "to SOURCES in CMakeLists.txt"
    library = "in extra_ldflags" if loaded else "in libraries" if tables else "by target_link_libraries"
    link = "-rdc=true" if loaded else "device-link = true" if tables else "the property CUDA_SEPARABLE_COMPILATION"
    of_device = [f"have device code linked: {link}"] if any(name.startswith(OF_DEVICE_LINK) for name in every) else []
    return BuildError(
        f"{plan.package} needs symbols that nothing defines: no process could load it",
        required="symbols of its own sources, of libraries that it is linked with, or of torch",
        found="\n".join(lines[:MOST]) + (f"\nand {len(lines) - MOST} more" if lines[MOST:] else ""),
        remedies=[
            *of_device,
            f"add the file that defines them {source}, or name their library {library}",
            "or, where the code can do without, declare them __attribute__((weak))",
        ],
    )


def demangled(symbol: str) -> str:
    """A symbol as C++ has it, by the compilers' own library (Itanium C++ ABI, "Demangler"); or itself without that."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return symbol
    demangle.restype = ctypes.c_char_p
    text: bytes | None = demangle(symbol.encode(), None, None, ctypes.byref(ctypes.c_int()))
    return text.decode(errors="replace") if text else symbol
