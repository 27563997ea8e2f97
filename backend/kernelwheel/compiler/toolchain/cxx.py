"""The C++ compiler: which one to use, its kind and version, its target, and whether nvcc supports it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...project.build_platforms import LinuxBuild
from ...project.build_settings import BuildSettings
from ...project.source_files import file_sha256
from ...runtime.errors import BuildError
from ...runtime.machine.files import json_sha256
from .compiler_environment import passed_on
from .launchers import split_cxx
from .programs import last_line, output_of
from .toolkit import Nvcc

NAMES = ("c++", "g++", "clang++")  # the usual names of the default compiler
# The option that nvcc's own refusal suggests, and the macro behind it: whoever sets one of them takes the risk.
UNCHECKED = ("-allow-unsupported-compiler", "--allow-unsupported-compiler", "-D__NV_NO_HOST_COMPILER_CHECK")
_NEWEST = 29  # that is looked for by its number, where no nvcc says which it supports
OLDEST = 9  # an older gcc or clang does not compile torch's headers

# What a compiler for another platform needs besides itself: headers and files of libc and of libstdc++.
CROSS_HEADERS = ("stdlib.h", "vector")
CROSS_FILES = ("crti.o", "libc.so.6", "libm.so.6", "libstdc++.so")
# What becomes part of every shared library (GCC Internals, "Initialization"; ld(1), "crti.o").
LINKED_IN = ("crti.o", "crtbeginS.o", "crtendS.o", "crtn.o", "libgcc.a", "libc_nonshared.a")
# The program behind the driver, which is in `cc1plus` for gcc and in the driver itself for clang.
COMPILERS = {"gcc": "cc1plus", "clang": "clang"}


@dataclass(frozen=True)
class Cxx:
    """A C++ compiler."""

    path: Path  # where it is
    kind: str  # `gcc`, `clang` or `zig`
    version: str  # `12.2.0`
    target: str  # `x86_64-linux-gnu`
    passed_over: tuple[str, ...] = ()  # the compilers that were rejected before it, each with the reason, for messages
    environ: Mapping[str, str] = field(default_factory=dict)  # the variables that it sees when it compiles

    @property
    def major(self) -> int:
        """`12`."""
        return int(self.version.split(".")[0])

    @property
    def mode(self) -> tuple[str, ...]:
        """The words that make a compiler of its program, for its target."""
        return ()

    def answer(self, *arguments: str) -> str:
        """What it prints when it is asked something, in the environment that it compiles in."""
        return output_of(str(self.path), *arguments, environ=self.environ).rstrip()

    def search_folders(self) -> tuple[Path, ...]:
        """The folders in which it looks for headers without being told, in its order (gcc(1), `-v`)."""
        output = self.answer("-v", "-E", "-x", "c++", os.devnull)
        listed = (Path(line[1:]) for line in output.splitlines() if line.startswith(" /"))
        return tuple(dict.fromkeys(folder for folder in listed if folder.is_dir()))

    def linker_folders(self) -> tuple[str, ...]:
        """The folders in which it looks for libraries without being told (gcc(1), `-print-search-dirs`)."""
        listed = re.search(r"^libraries: =(.+)$", self.answer("-print-search-dirs"), re.MULTILINE)
        return tuple(dict.fromkeys(map(os.path.realpath, listed[1].split(":")))) if listed else ()

    def identity(self) -> dict[str, str]:
        """The compiler's kind, version and target, and one digest for each part that shapes its output.

        If its program is a script, which may add options, it is such a part.

        A version alone does not tell one compiler from another: two distributions build gcc 12.2.0 with other defaults,
        and beside another assembler, linker and startup files it makes other bytes.

        Returns:
            `{"kind": "gcc", "version": "12.2.0", "target": …, "script": sha256, "compiler": sha256, "assembler":
            sha256, "linker": sha256, "linked_in": sha256}`. A part that there is not is left out.
        """
        identity = {"kind": self.kind, "version": self.version, "target": self.target}
        with self.path.open("rb") as stream:
            if stream.read(2) == b"#!":
                identity["script"] = file_sha256(self.path)
        for part, name in {"compiler": COMPILERS[self.kind], "assembler": "as", "linker": "ld"}.items():
            named = self.answer(f"-print-prog-name={name}")
            program = shutil.which(named, path=self.environ.get("PATH", "")) if named else None
            if program:
                identity[part] = file_sha256(Path(program))
        paths = ((name, Path(self.answer(f"-print-file-name={name}"))) for name in LINKED_IN)
        if linked := [(name, file_sha256(path)) for name, path in paths if path.is_absolute() and path.is_file()]:
            identity["linked_in"] = json_sha256(linked)
        return identity

    # In a work folder

    def program(self, work: Path) -> Path:
        """How it is called there."""
        return self.path

    def environment(self, work: Path) -> Mapping[str, str]:
        """What it sees there besides other compilers' variables."""
        return {}

    def make_links(self, work: Path) -> None:
        """Make the links that it needs there."""

    def response_file(self, option: str) -> str:
        """A response file with one option. In a work folder's path (work_folder.FIT), only a space is special there.

        It is escaped, not quoted, because sccache does not understand quotes in response files.
        """
        return option.replace(" ", "\\ ") + "\n"


def find_cxx(
    settings: BuildSettings, environ: Mapping[str, str], nvcc: Nvcc | None = None, target: LinuxBuild | None = None
) -> Cxx:
    """The C++ compiler: the one set by `cxx`, or the first of c++, g++ and clang++ on PATH that `nvcc` supports.

    For another platform than this machine's, it is that platform's g++, such as aarch64-linux-gnu-g++. Older majors
    have a number in their name, such as g++-13; they are searched for too.

    Raises:
        BuildError: there is no gcc or clang for that platform, or none that nvcc supports.
    """
    limits = {} if nvcc is None or nvcc.clang or _is_unchecked(settings) else host_limits(nvcc)
    _, named = split_cxx(settings, environ)
    names = [named] if named else list(_names(limits, target))
    passed_over: list[str] = []
    known: list[Cxx] = []
    for name in names:
        path = shutil.which(name, path=environ.get("PATH", ""))
        if path is None:
            continue
        cxx = inspect_cxx(path)
        if isinstance(cxx, str):
            passed_over.append(f"{path}: {cxx}")
            continue
        cxx = replace(cxx, environ=passed_on(environ))
        if target and (lacks := _lacks(cxx, target)):
            passed_over.append(f"{path}: {lacks}")
        elif cxx.major > limits.get(cxx.kind, cxx.major):
            known.append(cxx)
            newest = f"{cxx.kind} {limits[cxx.kind]}, the newest that nvcc supports"
            passed_over.append(f"{path}: {cxx.kind} {cxx.version}, newer than {newest}")
        else:
            return replace(cxx, passed_over=tuple(passed_over))
    if nvcc is not None and known:
        raise _too_new(settings, nvcc, limits, known[0], passed_over)
    if target:
        raise _no_cross_compiler(settings, target, passed_over or [f"{name}: not on PATH" for name in names])
    raise BuildError(
        "no C++ compiler",
        required="gcc or clang with C++17" + (f", as set by {settings.origin('cxx')}" if settings.cxx else ""),
        found="\n".join(passed_over) or ", ".join([settings.cxx] if settings.cxx else NAMES) + ": not on PATH",
        remedies=["install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++)", "or set CXX"],
    )


def any_cxx(settings: BuildSettings, environ: Mapping[str, str]) -> str:
    """A C++ compiler, whatever its version, that nvcc must be told of before it says anything; empty if there is none.

    By itself, it looks for gcc alone, which neither conda-forge's compilers nor Debian's g++-15 bring.
    """
    path = environ.get("PATH", "")
    if shutil.which("gcc", path=path):
        return ""
    named = split_cxx(settings, environ)[1]
    names = [named] if named else _names(dict.fromkeys(("gcc", "clang"), _NEWEST), None)
    return next(filter(None, (shutil.which(name, path=path) for name in names)), "")


def inspect_cxx(path: str) -> Cxx | str:
    """The compiler at `path`; if it is neither gcc nor clang, the reason in words."""
    version = output_of(path, "--version")
    kind = "clang" if "clang" in version else "gcc" if re.search(r"\b(gcc|g\+\+|GCC|Free Software)", version) else ""
    number = re.search(r"\d+\.\d+(\.\d+)?", output_of(path, "-dumpfullversion") if kind == "gcc" else version)
    if not kind or not number:
        return f"neither gcc nor clang ({last_line(version)})"
    return Cxx(Path(path), kind, number[0], output_of(path, "-dumpmachine").strip())


def host_limits(nvcc: Nvcc) -> dict[str, int]:
    """The newest major of gcc and clang that nvcc supports, by kind, from the header in which it refuses newer ones."""
    header = nvcc.include / "crt" / "host_config.h"
    text = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
    gcc = re.search(r"#error .*gcc versions later than (\d+) are not supported", text)
    clang = re.search(r"#error .*unsupported clang version! clang version must be less than (\d+)", text)
    return {**({"gcc": int(gcc[1])} if gcc else {}), **({"clang": int(clang[1]) - 1} if clang else {})}


def _is_unchecked(settings: BuildSettings) -> bool:
    return any(flag in UNCHECKED or flag.startswith(f"{UNCHECKED[-1]}=") for flag in settings.cuda_flags)


def _names(limits: Mapping[str, int], target: LinuxBuild | None) -> Iterator[str]:
    """The names to search for: after each kind's own, those with a number that is not too new, newest first."""
    for name in (f"{target.triple}-g++",) if target else NAMES:
        yield name
        kind = "gcc" if name.endswith("-g++") else {"g++": "gcc", "clang++": "clang"}.get(name, "")
        yield from (f"{name}-{major}" for major in range(limits.get(kind, 0), OLDEST - 1, -1))


def _lacks(cxx: Cxx, target: LinuxBuild) -> str:
    """Why a compiler cannot make libraries for a platform; empty if it can."""
    if not target.is_target_of(cxx.target):
        return f"compiles for {cxx.target}, not for {target.triple}"
    folders = cxx.search_folders()
    missing = [name for name in CROSS_HEADERS if not any((folder / name).is_file() for folder in folders)]
    paths = {name: Path(cxx.answer(f"-print-file-name={name}")) for name in CROSS_FILES}
    missing += [name for name, path in paths.items() if not (path.is_absolute() and path.is_file())]
    return f"lacks {', '.join(missing)} of {target.triple}" if missing else ""


def _no_cross_compiler(settings: BuildSettings, target: LinuxBuild, found: Sequence[str]) -> BuildError:
    named = f", as set by {settings.origin('cxx')}" if settings.cxx else ""
    install = f"apt-get install g++-{target.triple.replace('_', '-')}"
    return BuildError(
        f"no C++ compiler for {target.name}",
        required=f"gcc or clang with C++17 that compiles for {target.triple}, with its libc and libstdc++{named}",
        found="\n".join(found),
        remedies=[
            f"install a gcc with them (Debian, Ubuntu: {install})",
            *([f"and unset {settings.origin('cxx')}"] if settings.cxx else []),
            "or name one that is not on PATH: -C cxx=/path/to/it (CXX)",
        ],
    )


def _too_new(
    settings: BuildSettings, nvcc: Nvcc, limits: Mapping[str, int], found: Cxx, passed_over: Sequence[str]
) -> BuildError:
    newest = " or ".join(f"{kind} <= {major}" for kind, major in limits.items())
    named = f" (set by {settings.origin('cxx')})" if settings.cxx else ""
    gcc = limits.get("gcc", found.major - 1)
    return BuildError(
        f"the C++ compiler is too new for {nvcc.name}: {found.kind} {found.version}{named}",
        required=f"{newest}, according to crt/host_config.h in that CUDA toolkit",
        found="\n".join(passed_over),
        remedies=[
            f"install g++-{gcc} or an older one, and set CXX=g++-{gcc} (Debian, Ubuntu: apt-get install g++-{gcc})",
            "or use a newer release of the same CUDA major, which supports newer compilers",
        ],
    )
