"""The headers outside a package that its sources can reach: what is compiled in besides the sources themselves.

They are found by reading `#include` lines, not by asking a compiler, which would take seconds and need the flags of
each file. Conditions are not evaluated, so too many are found rather than too few. After a compile, files_read.py
compares them with what was really read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from posixpath import dirname, normpath
from typing import NamedTuple

from ..flags.options import FOLDERS
from ..flags.words import directives_of, values_of
from ..readable import readable
from ..source_language import named_headers
from .plan import Headers, Plan
from .toolchain.binding import cuda_folders, python_folders
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit_identity import is_identified

# What compilers include by themselves: gcc and clang, nvcc, and clang in its place.
_BEFORE_CXX = b"#include <stdc-predef.h>\n"
_BEFORE_ALL = _BEFORE_CXX + b"#include <cuda_runtime.h>\n#include <__clang_cuda_runtime_wrapper.h>\n"
CLANG_HEADERS = "clang/include"  # in the folder where clang is in nvcc's place
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


class Reached(NamedTuple):
    """Files that are compiled or linked in: their digests by origin and name, and where each was found."""

    digests: Headers
    origins: dict[str, str]  # absolute path -> origin


def headers_of(plan: Plan, toolchain: Toolchain, source_root: Path) -> Reached:
    """The headers that a Plan's sources can reach: of torch, Python, CUDA libraries, the C++ compiler and in its flags.

    Those of the CUDA toolkit's identity are followed, but have no digest here. In its folder there may be others, such
    as cuBLAS's.

    Raises:
        BuildError: a file cannot be read.
    """
    flags = plan.compiler_flags
    with readable("a source or a header that it includes", "files and folders that this user can read"):
        texts = [
            _BEFORE_ALL if plan.cuda else _BEFORE_CXX,
            directives_of(flags),
            *((source_root / name).read_bytes() for name in plan.sources),
        ]
        return _reached(texts, search_folders(plan, toolchain, flags))


def search_folders(plan: Plan, toolchain: Toolchain, flags: Sequence[str]) -> dict[str, tuple[Path, ...]]:
    """The folders in which headers are searched, by their origin."""
    torch = toolchain.torch.root / "include"
    nvcc = toolchain.cuda.nvcc
    return {
        "flags": tuple(folder for folder in map(Path, values_of(flags, FOLDERS)) if folder.is_absolute()),
        "torch": (torch, torch / API),
        **header_folders(plan, toolchain),
        "system": (*toolchain.cxx.search_folders(), *((nvcc.root / CLANG_HEADERS,) if nvcc and nvcc.clang else ())),
    }


def header_folders(plan: Plan, toolchain: Toolchain) -> dict[str, tuple[Path, ...]]:
    """The folders of headers besides torch's that the Plan's libraries are compiled with: CUDA's, and Python's."""
    nvcc = toolchain.cuda.nvcc if plan.cuda else None
    if plan.binding is None:
        return {"cuda": nvcc.header_folders if nvcc else (), "python": ()}
    return {
        "cuda": cuda_folders(nvcc, toolchain.torch.root.parent) if nvcc else (),
        "python": python_folders() if plan.binding.python else (),
    }


def _reached(texts: Iterable[bytes], folders: Mapping[str, Sequence[Path]]) -> Reached:
    search = _Search(folders)
    found: Headers = {}
    origins: dict[str, str] = {}
    pending = [place for text in texts for place in search.find(named_headers(text))]
    while pending:
        place = pending.pop()
        if place.path in origins:
            continue
        origins[place.path] = place.origin
        status = os.stat(place.path)  # noqa: PTH116  # of a module on all of torch, there are thousands
        digest, names = _contents(place.path, status.st_ino, status.st_size, status.st_mtime_ns)
        if place.origin != "cuda" or not is_identified(place.name):
            by_name = found.setdefault(place.origin, {})
            # Two folders may have one name: C++'s stdlib.h includes the next one, C's.
            by_name[place.name] = " ".join(sorted({*by_name.get(place.name, "").split(), digest}))
        pending += search.find(names, place)
    return Reached(found, origins)


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
                    yield beside
                    continue
            yield from self._anywhere(normpath(name))

    def _anywhere(self, name: str) -> tuple[_Place, ...]:
        if name not in self._known:
            folders = [("flags", "")] if name.startswith("/") else self._folders
            places = (_Place(origin, folder, name.lstrip("/")) for origin, folder in folders)
            self._known[name] = tuple(place for place in places if self._is_file(place.path))
        return self._known[name]

    def _is_file(self, path: str) -> bool:
        if path not in self._files:
            self._files[path] = os.path.isfile(path)  # noqa: PTH113
        return self._files[path]
