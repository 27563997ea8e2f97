"""zig as the C++ compiler for Windows. It is clang with libc++ and mingw-w64's part of the C runtime, as sources.

It compiles those at the first link, in minutes, and keeps them in its own cache, `~/.cache/zig`, for as long as its own
files are the same ones by inode and time: each isolated build compiles them again. Nothing of MSVC is used: between a
library of operators and torch there are C functions alone.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ....project.build_platforms import WindowsBuild
from ....project.build_settings import BuildSettings
from ....requirements import FOR_WINDOWS, RELEASES, install, missing
from ....runtime.errors import BuildError
from ....runtime.files import file_sha256, json_sha256
from ...toolchain.cxx import Cxx
from ...toolchain.programs import last_line, output_of, passed_on

KIND = "zig"
RELEASE = r"0\.17\.\d+"  # what this was tried with
# In the work folder, a link to its folder, below the one that it is run in. It knows what it has compiled by the names
# that its own files have from there, so the link makes them the same for all work folders.
ZIG = "build/zig"
# What decides where it keeps what it compiles of its own libraries.
VARIABLES = ("XDG_CACHE_HOME", "ZIG_GLOBAL_CACHE_DIR")
# In its folder of libraries: all but the C libraries of other systems, and what Python makes of scripts for debuggers.
_FOR_WINDOWS = re.compile(r"libc/(mingw/|include/[^/]*windows[^/]*/)|(?!libc/|lldb/)")


def find_zig(settings: BuildSettings, environ: Mapping[str, str], target: WindowsBuild) -> Cxx:
    """The zig that `cxx` names, or else the one that pip installs.

    Raises:
        BuildError: there is none, or it is another release; or what reads its libraries is not installed.
    """
    found = [f"{name} is not installed in {sys.prefix}" for name in missing(FOR_WINDOWS)]
    if settings.cxx:
        found = [line for line in found if "ziglang" not in line]
        named = shutil.which(settings.cxx, path=environ.get("PATH", ""))
        path = Path(named or settings.cxx)
    else:
        spec = importlib.util.find_spec("ziglang")
        path = Path(next(iter((spec and spec.submodule_search_locations) or ["ziglang"]))) / "zig"
    version = output_of(str(path), "version", environ=passed_on(environ)).strip()
    if not re.fullmatch(RELEASE, version) or not _libraries(path).is_dir():
        found.append(f"{path}: {last_line(version)}" + (f" ({settings.origin('cxx')})" if settings.cxx else ""))
    if found:
        raise BuildError(
            f"no C++ compiler for {target.name}",
            required=", ".join(name + RELEASES.get(name, "") for _, name in FOR_WINDOWS),
            found="\n".join(found),
            remedies=[
                install(name for _, name in FOR_WINDOWS),
                *([f"and unset {settings.origin('cxx')}"] if settings.cxx else []),
            ],
        )
    return Cxx(path.resolve(), KIND, version, target.triple, environ=passed_on(environ))


def environment(work: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """What it sees besides other compilers' variables. Only its own libraries are kept longer than the work folder."""
    return {name: environ[name] for name in VARIABLES if name in environ} | {
        "ZIG_LIB_DIR": str(work / ZIG / "lib"),
        "ZIG_LOCAL_CACHE_DIR": str(work / "tmp" / "zig"),
    }


def zig_identity(cxx: Cxx) -> dict[str, str]:
    """As `cxx_identity`: digests of the program, and of all that it has for Windows."""
    return {
        "kind": KIND,
        "version": cxx.version,
        "target": cxx.target,
        "compiler": file_sha256(cxx.path),
        "linked_in": json_sha256(dict(_files(_libraries(cxx.path)))),
    }


def _libraries(zig: Path) -> Path:
    return zig.resolve().parent / "lib"


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """The digests of the files that a build for Windows may read, by name."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if _FOR_WINDOWS.match(name) and path.is_file():
            yield name, file_sha256(path)
