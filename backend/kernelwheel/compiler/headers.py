"""The headers outside a package that its sources can reach: what is compiled in besides the sources themselves.

They are found by reading `#include` lines, not by asking a compiler, which would take seconds and need the flags of
each file. Conditions are not evaluated, so too many are found rather than too few. After a compile, `check_headers`
compares them with what the compilers really read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from posixpath import dirname, normpath
from typing import TYPE_CHECKING, NamedTuple

from ..runtime.errors import BuildError, way_out
from ..runtime.files import json_sha256
from ..source_language import FOLDER_OPTIONS, HEADER_OPTIONS, named_headers
from .toolchain.binding import cuda_folders, python_folders
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit_identity import is_identified

if TYPE_CHECKING:
    from .plan import Plan

# Origin (`torch`, `python`, `cuda`, `flags`, `system`) -> name of a header in a search folder -> sha256 of it.
Headers = dict[str, dict[str, str]]

# Options that name a folder of headers or a header, of gcc, clang and nvcc.
_OPTION = re.compile(
    r"(?:-Xcompiler=|--compiler-options=)?"
    rf"(?:{FOLDER_OPTIONS}|(?P<header>{HEADER_OPTIONS}))=?(?P<value>.*)"
)


# The folder of torch's headers that is a search folder too.
API = "torch/csrc/api/include/"


class _Place(NamedTuple):
    """Where a header was found: origin, search folder, and its name in that folder."""

    origin: str
    folder: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


def headers_of(plan: Plan, toolchain: Toolchain, source_root: Path) -> Headers:
    """The headers that a Plan's sources can reach: of torch, Python, CUDA libraries, the C++ compiler and in its flags.

    Those of the CUDA toolkit's identity are left out. In its folder there may be others, such as cuBLAS's.

    Raises:
        BuildError: a file cannot be read.
    """
    named, first = _named_in_flags(plan)
    torch = toolchain.torch.root / "include"
    folders = {
        "flags": named,
        "torch": (torch, torch / API),
        **header_folders(plan, toolchain),
        "system": toolchain.cxx.search_folders(),
    }
    try:
        texts = [b"".join(b'#include "%s"\n' % os.fsencode(header) for header in first)]
        texts += [(source_root / name).read_bytes() for name in plan.sources]
        return _reached(texts, folders)
    except OSError as error:
        raise BuildError(
            "a source or a header that it includes cannot be read",
            required="files and folders that this user can read",
            found=f"{type(error).__name__}: {error}",
            remedies=[way_out(error)],
        ) from error


def header_folders(plan: Plan, toolchain: Toolchain) -> dict[str, tuple[Path, ...]]:
    """The folders of headers besides torch's that the Plan's libraries are compiled with: CUDA's, and Python's."""
    nvcc = toolchain.cuda.nvcc if plan.cuda else None
    if plan.binding is None:
        return {"cuda": nvcc.header_folders if nvcc else (), "python": ()}
    return {
        "cuda": cuda_folders(nvcc, toolchain.torch.root.parent) if nvcc else (),
        "python": python_folders() if plan.binding.python else (),
    }


def digests(headers: Headers) -> dict[str, str]:
    """One digest for each origin, of names and contents."""
    return {origin: json_sha256(named) for origin, named in headers.items()}


def check_headers(plan: Plan, headers: Headers, read: Iterable[str]) -> None:
    """Compare the headers that sources can reach now, and those of torch that were read, with those of the Plan.

    Raises:
        BuildError: a header has changed meanwhile, or one was read that the Plan does not cover.
    """
    changed = sorted(origin for origin, digest in digests(headers).items() if plan.headers.get(origin) != digest)
    if changed:
        raise BuildError(
            "headers were changed during the build",
            required="the headers that the Plan was drawn up with",
            found=f"other ones: {', '.join(changed)}",
            remedies=["build again, while nothing is being installed"],
        )
    known = {name.removeprefix(API) for name in headers.get("torch", {})}
    unknown = sorted(name for name in read if name.removeprefix(API) not in known)
    if unknown:
        raise BuildError(
            "a header of torch was compiled in that the Plan does not cover",
            required="headers named by an #include line, or by a macro that is one header's name",
            found=", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if unknown[3:] else ""),
            remedies=[f"name it in a source, so that a change is noticed: #if 0, #include <{unknown[0]}>, #endif"],
        )


def headers_read(work: Path) -> set[str]:
    """The headers of torch that the objects in the folder were compiled with, by their names in its include folder.

    From the dependency files as the compilers wrote them, which KernelWheel.cmake keeps (GNU make, "Rule Syntax").
    """
    start = re.escape(in_makefile(work / "torch" / "include"))
    names: set[str] = set()
    for file in (work / "build").rglob("*.d.read"):
        written = file.read_text(encoding="utf-8", errors="surrogateescape")
        names.update(re.findall(rf"{start}/((?:[^\s\\]|\\[^\n])+)", written))
    return {normpath(name) for name in names}


def in_makefile(path: Path) -> str:
    """A path as dependency files write it: a backslash before a space or #, and a doubled $."""
    return re.sub(r"([ #])", r"\\\1", str(path)).replace("$", "$$")


def _named_in_flags(plan: Plan) -> tuple[list[Path], list[str]]:
    """The folders of headers that the Plan's flags name, and the headers that they include before each source."""
    extensions = [
        flag
        for each in plan.extensions
        for flags in (each.cxx_flags, each.cuda_flags, *each.file_flags.values())
        for flag in flags
    ]
    flags = (*plan.flags("cxx-flags"), *plan.flags("cuda-flags"), *extensions)
    parts = [part for flag in flags for part in flag.split(",") if part != "-Xcompiler"]
    folders, headers = [], []
    for part, following in zip_longest(parts, parts[1:], fillvalue=""):
        if match := _OPTION.fullmatch(part):
            value = Path(match["value"] or following)
            if not match["header"]:
                folders.append(value)
            else:
                folders.append(value.parent)
                headers.append(value.name)
    return [folder for folder in folders if folder.is_absolute()], headers


def _reached(texts: Iterable[bytes], folders: Mapping[str, Sequence[Path]]) -> Headers:
    search = _Search(folders)
    found: Headers = {}
    seen: set[_Place] = set()
    pending = [place for text in texts for place in search.find(named_headers(text))]
    while pending:
        place = pending.pop()
        if place in seen:
            continue
        seen.add(place)
        status = os.stat(place.path)  # noqa: PTH116  # of a module on all of torch, there are thousands
        digest, names = _contents(place.path, status.st_ino, status.st_size, status.st_mtime_ns)
        by_name = found.setdefault(place.origin, {})
        # Two folders may have one name: C++'s stdlib.h includes the next one, C's.
        by_name[place.name] = " ".join(sorted({*by_name.get(place.name, "").split(), digest}))
        pending += search.find(names, place)
    return found


@cache
def _contents(path: str, inode: int, size: int, modified: int) -> tuple[str, tuple[str, ...]]:
    """The sha256 of a file, and the headers that it names; read again only if it was changed or replaced."""
    with open(path, "rb") as stream:  # noqa: PTH123
        text = stream.read()
    return hashlib.sha256(text).hexdigest(), named_headers(text)


class _Search:
    """A search for headers by name; the outcome of each look at the disk is kept."""

    def __init__(self, folders: Mapping[str, Sequence[Path]]) -> None:
        self._folders = [(origin, str(folder)) for origin, inside in folders.items() for folder in inside]
        self._known: dict[str, tuple[_Place, ...]] = {}
        self._files: dict[str, bool] = {}

    def find(self, names: Iterable[str], place: _Place | None = None) -> Iterator[_Place]:
        """Headers that a text names; `place` is that of the text, None for a source of the package."""
        for written in names:
            kind, name = written[0], written[1:].strip()
            if place and kind == '"':
                beside = place._replace(name=normpath(f"./{dirname(place.name)}/{name}"))
                if self._is_file(beside.path):
                    if beside.origin != "cuda" or not is_identified(beside.name):
                        yield beside
                    continue
            yield from self._anywhere(normpath(name))

    def _anywhere(self, name: str) -> tuple[_Place, ...]:
        if name not in self._known:
            identified = is_identified(name)
            folders = [each for each in self._folders if each[0] != "cuda" or not identified]
            places = (_Place(origin, folder, name) for origin, folder in folders)
            self._known[name] = tuple(place for place in places if self._is_file(place.path))
        return self._known[name]

    def _is_file(self, path: str) -> bool:
        if path not in self._files:
            self._files[path] = os.path.isfile(path)  # noqa: PTH113
        return self._files[path]
