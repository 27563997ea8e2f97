"""zig as the C++ compiler for Windows. It is clang with libc++ and mingw-w64's part of the C runtime, as sources.

It compiles those at the first link, in minutes, and keeps them in its own cache, `~/.cache/zig`, for as long as the
sources are the same files by inode and time. A copy beside them outlasts an isolated build. Nothing of MSVC is used:
between a library of operators and torch there are C functions alone.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ....project.build_platforms import WindowsBuild
from ....project.build_settings import BuildSettings
from ....project.source_files import file_sha256
from ....requirements import FOR_WINDOWS, RELEASES, install, missing
from ....runtime.errors import BuildError
from ....runtime.machine.files import json_sha256
from ....runtime.record import remembered
from ...toolchain.compiler_environment import FOR_ZIG, passed_on
from ...toolchain.cxx import Cxx
from ...toolchain.programs import last_line, output_of

RELEASE = r"0\.17\.\d+"  # what this was tried with
# In the work folder, links to it and its libraries. It knows what it has compiled by the names that its own files have
# from the folder that it is run in, `build`, so the link makes them the same for all work folders.
PROGRAM, LIBRARIES = "zig", "build/zig"
# In its folder of libraries: all but the C libraries of other systems, and what Python makes of scripts for debuggers.
_FOR_WINDOWS = re.compile(r"libc/(mingw/|include/[^/]*windows[^/]*/)|(?!libc/|lldb/)")


@dataclass(frozen=True)
class Zig(Cxx):
    """pip's zig."""

    @property
    def libraries(self) -> Path:
        """The folder of its own libraries, as sources."""
        return self.path.parent / "lib"

    @property
    def mode(self) -> tuple[str, ...]:
        """It is many programs in one."""
        return ("c++", f"--target={self.target}")

    @remembered
    def digest(self) -> str:
        """Of what of them a build for Windows may read: seconds, where the files have not been read before."""
        return _digest(self.libraries)

    def search_folders(self) -> tuple[Path, ...]:
        """None but its own, which are in its identity."""
        return ()

    def identity(self) -> dict[str, str]:
        """Digests of the program, and of all that it has for Windows."""
        return {
            "kind": self.kind,
            "version": self.version,
            "target": self.target,
            "compiler": file_sha256(self.path),
            "linked_in": self.digest,
        }

    def program(self, work: Path) -> Path:
        """A link, as each isolated environment has it elsewhere."""
        return work / PROGRAM

    def environment(self, work: Path) -> Mapping[str, str]:
        """Where its caches are. Only its own libraries are kept longer than the work folder."""
        caches = {"ZIG_LIB_DIR": str(work / LIBRARIES), "ZIG_LOCAL_CACHE_DIR": str(work / "tmp" / "zig")}
        return {**self.environ, **caches}

    def make_links(self, work: Path) -> None:
        """To it and to its libraries."""
        (work / PROGRAM).symlink_to(self.path)
        (work / LIBRARIES).parent.mkdir(exist_ok=True)
        (work / LIBRARIES).symlink_to(self.kept_libraries())

    def response_file(self, option: str) -> str:
        """It understands nothing but quotes."""
        return f'"{option}"\n'

    def kept_libraries(self) -> Path:
        """The copy of all that it has for Windows, by content, in the folder of its own cache."""
        general = Path(self.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache = Path(self.environ.get("ZIG_GLOBAL_CACHE_DIR") or general / "zig").absolute()
        copy = cache / f"kernelwheel-{self.digest}"
        if _digest(copy) != self.digest:  # there is none, or it is damaged
            shutil.rmtree(copy, ignore_errors=True)
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                made = Path(temporary, "lib")
                for name in _names(self.libraries):
                    (made / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(self.libraries / name, made / name)
                if not copy.is_dir():  # no other process was faster
                    made.rename(copy)
        return copy


def find_zig(settings: BuildSettings, environ: Mapping[str, str], target: WindowsBuild) -> Zig:
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
    if not re.fullmatch(RELEASE, version) or not (path.resolve().parent / "lib").is_dir():
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
    seen = passed_on(environ) | passed_on(environ, FOR_ZIG)
    return Zig(path.resolve(), "zig", version, target.triple, environ=seen)


def _digest(libraries: Path) -> str:
    """One digest of the names and contents of the files that a build for Windows may read."""
    return json_sha256({name: file_sha256(libraries / name) for name in _names(libraries)})


def _names(libraries: Path) -> Iterator[str]:
    names = (path.relative_to(libraries).as_posix() for path in libraries.rglob("*") if path.is_file())
    return filter(_FOR_WINDOWS.match, names)
