"""The paths and compiler flags of a setup.py, sorted into what pyproject.toml has keys for and what is left."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..compiler.machine_flags import NATIVE_OPTION
from ..flags.options import HOST_COMPILER, without_device_linking
from ..flags.standard import with_standard
from ..project.arch_choice import chosen_by

# Flags whose value may be the next word.
PAIRED = {
    "-I", "-isystem", "-iquote", "-idirafter", "--include-path", "--system-include", "-include", "-D", "-U", "-L", "-l",
    "-x", "-z", "-rpath", "-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code", "-ccbin",
    "--compiler-bindir", "-Xcompiler", "--compiler-options", "-Xlinker", "-Xptxas", "--ptxas-options", "-Xcudafe",
    "-Xnvlink", "-Xfatbin", "-maxrregcount", "--maxrregcount", "-t", "--threads", "-std", "--std",
}  # fmt: skip
_INCLUDE = re.compile(r"(?:-I|-isystem|--include-path|--system-include)[= ]?(.+)", re.DOTALL)
# nvcc's options that begin as -lNAME does (`nvcc --help`).
_NOT_LIBRARIES = {"-ldir", "-lib", "-lineinfo", "-list-gpu-arch", "-list-gpu-code", "-lto"}
# The first C++ standard that is not what every torch asks for by itself (compiler/standards.py).
_AFTER_ALL = 18
# A library by its name, or by its file, `-l:libnvshmem_host.so.3`.
_LIBRARY = re.compile(r"-l ?(?:([\w.+-]+)|:lib([\w+-]+)\.(?:so(?:\.\d+)*|a))")
_ABSOLUTE = re.compile(r"""(?:^|[=,:;"'\s]|-L|-B|-iquote|-idirafter|-include)(/[\w.@+~-][^\s,:;"']*)""")


class Places(NamedTuple):
    """What paths in a setup.py are measured by."""

    project: Path  # its folder, resolved
    known: Sequence[str]  # folders of torch and of the toolkit; what lies in them, a build finds by itself
    searched: Sequence[str]  # folders that a build searches anyway

    def relative(self, text: str) -> str | None:
        """A path relative to the project; None if it leaves the project, or leads into an environment inside it."""
        path = self._full(text)
        if Path(sys.prefix).is_relative_to(self.project) and path.is_relative_to(sys.prefix):
            return None
        return path.relative_to(self.project).as_posix() if path.is_relative_to(self.project) else None

    def comes_anyway(self, text: str) -> bool:
        """Whether a path is torch's, the toolkit's, Python's or the compiler's: a build finds it by itself."""
        path = self._full(text)
        if any(path.is_relative_to(folder) for folder in self.known) or str(path) in self.searched:
            return True
        return bool(re.match(r"/(usr/local|opt)/cuda(-[\d.]+)?(/|$)", str(path))) or "pybind11" in path.parts[-2:]

    def package_of_pip(self, text: str) -> str | None:
        """The folder below site-packages, `nvidia/nccl`, if this is its folder of headers or libraries; else None.

        A build looks into these folders beside torch by itself.
        """
        match = re.search(r"/site-packages/(nvidia/[\w.-]+)/(?:include|lib)(?:/|$)", str(self._full(text)))
        return match[1] if match else None

    def _full(self, text: str) -> Path:
        return Path(os.path.normpath(self.project / text))


class SortedFlags(NamedTuple):
    """The flags of one compiler, or of the linker."""

    kept: list[str]  # what stays a flag
    include_dirs: list[str]  # folders of headers, as they were written
    link_dirs: list[str]  # folders of libraries, as they were written
    libraries: list[str]  # the names of libraries
    archs: list[str]  # nvcc's flags that choose architectures, each in one word
    old_standards: list[str]  # flags for a C++ standard up to C++17, which torch's own replaces
    of_this_machine: list[str]  # what names a place on this machine
    of_this_cpu: list[str]  # what compiles for the CPU of this machine, which a wheel is not for
    device_link: list[str]  # what asks for device code in several files to be linked


def sort_flags(flags: Sequence[str], places: Places) -> SortedFlags:
    """Sort the flags of one compiler, or of the linker."""
    flags, device_link = without_device_linking(flags)
    flags, old = with_standard(flags, _AFTER_ALL, leave_out=True)
    result = SortedFlags([], [], [], [], [], [*old], [], [], device_link)
    for words in _for_any_cpu(_grouped(flags), result.of_this_cpu):
        flag = " ".join(words)
        absolute = _ABSOLUTE.findall(flag)
        if chosen_by([flag]):
            result.archs.append(flag)
        elif include := _INCLUDE.fullmatch(flag):
            result.include_dirs.append(include[1])
        elif flag.startswith("-L") and len(flag) > 2:
            result.link_dirs.append(flag[2:].strip())
        elif (library := _LIBRARY.fullmatch(flag)) and flag not in _NOT_LIBRARIES:
            result.libraries.append(library[1] or library[2])
        elif absolute and flag.startswith("-Wl,-rpath") and all(map(places.comes_anyway, absolute)):
            pass  # torch is loaded before the library, so that it needs no path to it
        elif absolute or str(places.project) in flag or flag.startswith(HOST_COMPILER):
            result.of_this_machine.append(flag)
        elif words[0] in ("-D", "-U"):
            result.kept.append("".join(words))
        else:
            result.kept.extend(words)
    return result


def _for_any_cpu(groups: Iterable[list[str]], of_this_cpu: list[str]) -> Iterator[list[str]]:
    """The flags without those that compile for the CPU of this machine, which are added to a list."""
    for words in groups:
        native = [each[0] for word in words for each in NATIVE_OPTION.finditer(word)]
        of_this_cpu += native
        rest = [re.sub(f"{NATIVE_OPTION.pattern},?", "", word).rstrip(" ,=") for word in words] if native else words
        if rest[-1] not in ("", "-Xcompiler", "--compiler-options") or not native:  # which hand nothing on now
            yield rest


def _grouped(flags: Sequence[str]) -> Iterator[list[str]]:
    """Each flag with its value, if that is the next word."""
    words = iter([flag.strip() for flag in flags if flag.strip()])
    for word in words:
        value = next(words, None) if word in PAIRED else None
        yield [word] if value is None else [word, value]
