"""What one call of `load` compiles: its sources, and every header of the caller's that these can reach.

Headers are found as compiler/headers.py finds those of torch and of the system. The compilers get a folder with these
files and no others, so a header that was not found is an error of theirs, not one whose edits nobody notices.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..flags.linking import LINKED_FILES
from ..flags.words import directives_of
from ..readable import readable
from ..runtime.errors import SettingsError
from ..runtime.machine.files import is_file
from ..runtime.record import Record
from ..source_language import CUDA_SUFFIX, CXX_SUFFIXES, UNFIT, named_headers
from .arguments import LoadArguments, Paths, absolute
from .flags import Flags

# Where sources are that are given as text: no header can be beside them.
INLINE = "/dev/null"
_OF_THE_SYSTEM = ("/usr/include", "/usr/local/include")
# In the copy of a folder without files, which a path leads through.
_KEPT = ".folder"


class Tree(Record):
    """Files by their names in the folder that is compiled, which say nothing about where they came from."""

    files: Mapping[str, bytes]
    sources: list[str]
    include_dirs: list[str]
    headers: set[str]  # all headers as they are named, found or not
    names: Mapping[str, str | None]  # of files and folders, by their paths; None: a folder that is searched in any case


def read_sources(arguments: LoadArguments, sources: Paths) -> dict[str, bytes]:
    """The texts of source files, by absolute path.

    Raises:
        SettingsError: one is missing or cannot be read.
    """
    paths = [absolute(path) for path in arguments.paths("sources", sources)]
    missing = [path for path in paths if not is_file(Path(path))]
    if missing or not paths:
        found = "no file " + ", ".join(missing) if missing else "an empty list"
        raise arguments.refusal("sources", "C++ and CUDA files; relative paths start at the current folder", found)
    if other := [path for path in paths if not path.endswith((*CXX_SUFFIXES, CUDA_SUFFIX))]:
        raise arguments.refusal("sources", f"files called {', '.join((*CXX_SUFFIXES, CUDA_SUFFIX))}", ", ".join(other))
    return {path: _read(path) for path in paths}


def gather(texts: Mapping[str, bytes], flags: Flags, cuda: bool = False) -> Tree:
    """Find all headers that sources can reach, and name all files by where they are relative to each other.

    Which of several the compiler takes, the order and the kind of the options decide, which stay as they are: all that
    it can take are found.

    Args:
        texts: the sources, by absolute path.
        flags: with the folders of headers, and files that are linked, which are among the files under their names.
        cuda: whether the toolkit's headers are searched in any case, too.

    Raises:
        SettingsError: a header cannot be read, or a name is none for CMake.
    """
    folders = [folder for folder in flags.folders if not _is_provided(folder, cuda)]
    roots = [os.path.commonpath([os.path.dirname(path) for path in texts])]  # noqa: PTH120
    for folder in folders:
        _add(roots, folder)
    files = dict(texts)
    spelled = {path: path for path in texts}  # as the compiler reaches them; with links, another file than without `..`
    through: set[str] = set()
    before = named_headers(directives_of([*flags.cxx, *flags.cuda]))
    headers: set[str] = set()
    # Before each source come headers and macros that flags name; who uses a macro is not known.
    pending = [(path, before, False) for path in texts] + [(path, named_headers(texts[path]), True) for path in texts]
    while pending:
        includer, included, beside_first = pending.pop()
        headers.update(each[1:].strip() for each in included)
        for base, place in _found(includer, included, folders, beside_first):
            path = os.path.normpath(place)
            _cover(roots, base, os.path.dirname(path))  # noqa: PTH120
            through.update(_left(place))
            if path not in files:
                files[path], spelled[path] = _read(place), place
                pending.append((place, named_headers(files[path]), True))
            elif place != spelled[path] and not os.path.samefile(place, spelled[path]):  # noqa: PTH121
                raise _two_files(place, spelled[path])
    label = {root: f"include{number}/" if number else "sources/" for number, root in enumerate(roots)}

    def named(path: str) -> str:
        root = next(each for each in roots if _inside(path, each))
        return os.path.normpath((label[root] if len(roots) > 1 else "") + os.path.relpath(path, root))

    every = {named(path): text for path, text in sorted(files.items())}
    left = sorted({named(folder) for folder in through if any(_inside(folder, root) for root in roots)})
    every |= {f"{folder}/{_KEPT}": b"" for folder in left if not any(_inside(name, folder) for name in every)}
    for number, path in enumerate(flags.linked):
        every[f"{LINKED_FILES}/{number}/{os.path.basename(path)}"] = _read(path)  # noqa: PTH119
    names: dict[str, str | None] = {path: named(path) for path in (*files, *folders)}
    names |= {folder: None for folder in flags.folders if folder not in folders}
    _refuse_unfit(every)
    include_dirs = [name for folder in flags.include_dirs if (name := names[folder])]
    return Tree(every, sorted(map(named, texts)), include_dirs, headers, names)


def _is_provided(folder: str, cuda: bool) -> bool:
    """Whether the compiler searches a folder in any case: the system's, torch's, Python's and the toolkit's.

    Not a folder with headers of the same names, which the caller may have.
    """
    if folder in _OF_THE_SYSTEM:
        return True
    if cuda and all(is_file(Path(folder, name)) for name in ("cuda_runtime.h", "crt/host_defines.h")):
        return True
    own: list[str] = []
    if is_file(Path(folder, "Python.h")):
        from sysconfig import get_path  # imported only if needed, to keep a warm start fast

        own += (get_path("include"), get_path("platinclude"))
    if is_file(Path(folder, "torch/torch.h")) or is_file(Path(folder, "torch/extension.h")):
        from importlib.util import find_spec

        spec = find_spec("torch")
        for place in (spec.submodule_search_locations or ()) if spec else ():
            own += (f"{place}/include", f"{place}/include/torch/csrc/api/include")
    return os.path.realpath(folder) in map(os.path.realpath, own)


def _found(
    includer: str, names: Sequence[str], folders: Sequence[str], beside_first: bool
) -> Iterator[tuple[str | None, str]]:
    """The files that headers' names in a file can stand for, each with the folder that it was searched from."""
    for written in names:
        quote, header = written[0], written[1:].strip()
        absolute_path = header.startswith("/")
        beside = os.path.dirname(includer)  # noqa: PTH120
        bases = [beside] if quote == '"' or absolute_path else []
        if not (bases and beside_first and is_file(Path(beside, header))) and not absolute_path:
            bases += folders
        for base in bases:
            place = os.path.join(base, header)  # noqa: PTH118
            if is_file(Path(place)):
                yield None if absolute_path else os.path.normpath(base), place


def _left(place: str) -> Iterator[str]:
    """The folders that a path goes into and leaves again by `..`: for compilers, they must be there."""
    parts = place.split("/")
    for number, part in enumerate(parts):
        if part == "..":
            yield os.path.normpath("/".join(parts[:number]))


def _cover(roots: list[str], base: str | None, folder: str) -> None:
    """See to it that a header's folder is in a root, and in the same one as where it was searched from."""
    around = next((root for root in roots if base and _inside(base, root)), None)
    if around is None:
        _add(roots, folder)
    elif not _inside(folder, around):
        _add(roots, os.path.commonpath([around, folder]))


def _two_files(one: str, other: str) -> SettingsError:
    return SettingsError(
        "two headers cannot be told apart without a link",
        required="paths that lead to one file, or are different without `..`",
        found=f"{one}\n{other}",
        remedies=["name one of them by a path that does not leave a link by `..`"],
    )


def _refuse_unfit(names: Iterable[str]) -> None:
    """Raise an error for names that CMake, Ninja or a compiler's lists cannot have."""
    if bad := [name for name in names if re.search(UNFIT, name)]:
        raise SettingsError(
            "a file cannot be compiled: its folder, or it, has a name that CMake or Ninja does not take",
            required="names without ; : | $< and backslashes, and without control characters",
            found=", ".join(map(repr, bad[:3])),
            remedies=["rename it, or put it elsewhere; folders above all sources may have any name"],
        )


def _add(roots: list[str], folder: str) -> None:
    """Add a folder, in the place of the first of those inside it."""
    if not any(_inside(folder, root) for root in roots):
        inside = [root for root in roots if _inside(root, folder)]
        place = roots.index(inside[0]) if inside else len(roots)
        roots[:] = [*roots[:place], folder, *(root for root in roots[place:] if root not in inside)]


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _read(path: str) -> bytes:
    with readable("a source or a header that it includes", f"a file that this user can read: {path}", SettingsError):
        return Path(path).read_bytes()
