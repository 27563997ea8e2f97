"""What one call of `load` compiles: its sources, and every header of the caller's that these can reach.

Headers are found as compiler/headers.py finds those of torch and of the system. The compilers get a folder with these
files and no others, so a header that was not found is an error of theirs, not one whose edits nobody notices.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .load_flags import Call, Flags, Paths, paths
from .runtime.errors import SettingsError, way_out
from .runtime.files import is_file
from .runtime.record import Record
from .source_language import CUDA_SUFFIX, CXX_SUFFIXES, named_headers

# Where sources are that are given as text: no header can be beside them.
INLINE = "/dev/null"
# Folders with one of these are searched in any case, as are those of the system: torch's and Python's.
_PROVIDED = ("torch/extension.h", "torch/torch.h", "Python.h")
_OF_THE_SYSTEM = ("/usr/include", "/usr/local/include")


class Tree(Record):
    """Files by their names in the folder that is compiled, which say nothing about where they came from."""

    files: Mapping[str, bytes]
    sources: list[str]
    include_dirs: list[str]
    headers: set[str]  # all headers as they are named, found or not


def read_sources(call: Call, sources: Paths) -> dict[str, bytes]:
    """The texts of source files, by absolute path.

    Raises:
        SettingsError: one is missing or cannot be read.
    """
    absolute = [os.path.abspath(path) for path in paths(sources)]  # noqa: PTH100  # as compilers do, links are not resolved
    missing = [path for path in absolute if not is_file(Path(path))]
    if missing or not absolute:
        found = "no file " + ", ".join(missing) if missing else "an empty list"
        raise call.refusal("sources", "C++ and CUDA files; relative paths start at the current folder", found)
    if other := [path for path in absolute if not path.endswith((*CXX_SUFFIXES, CUDA_SUFFIX))]:
        raise call.refusal("sources", f"files called {', '.join((*CXX_SUFFIXES, CUDA_SUFFIX))}", ", ".join(other))
    return {path: _read(path) for path in absolute}


def gather(texts: Mapping[str, bytes], flags: Flags, cuda: bool = False) -> Tree:
    """Find all headers that sources can reach, and name all files by where they are relative to each other.

    Args:
        texts: the sources, by absolute path.
        flags: with the folders of headers, and archives, which are among the files under their names.
        cuda: whether the toolkit's headers are searched in any case, too.

    Raises:
        SettingsError: a header cannot be read.
    """
    provided = (*_PROVIDED, "cuda_runtime.h") if cuda else _PROVIDED
    others = [folder for folder in flags.include_dirs if folder not in _OF_THE_SYSTEM]
    folders = [folder for folder in others if not any(is_file(Path(folder, header)) for header in provided)]
    roots = [os.path.commonpath([os.path.dirname(path) for path in texts])]  # noqa: PTH120
    for folder in folders:
        _add(roots, folder)
    files = dict(texts)
    headers: set[str] = set()
    begin = (next(iter(texts)), flags.directives)  # what comes before each source
    pending = [(path, named_headers(text)) for path, text in (begin, *texts.items())]
    while pending:
        path, names = pending.pop()
        headers.update(each[1:].strip() for each in names)
        for found in _found(path, names, folders):
            if found not in files:
                _add_root_of(roots, found, path)
                files[found] = _read(found)
                pending.append((found, named_headers(files[found])))
    label = {root: f"include{number}/" if number else "sources/" for number, root in enumerate(roots)}

    def named(path: str) -> str:
        root = next(each for each in roots if _inside(path, each))
        return os.path.normpath((label[root] if len(roots) > 1 else "") + os.path.relpath(path, root))

    every = {named(path): text for path, text in sorted(files.items())}
    every |= {f"linked/{number}/{Path(path).name}": _read(path) for number, path in enumerate(flags.archives)}
    return Tree(every, sorted(map(named, texts)), list(dict.fromkeys(map(named, folders))), headers)


def _found(path: str, names: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    """The files that headers' names, as in `path`, can stand for."""
    for written in names:
        quote, header = written[0], written[1:].strip()
        places = [os.path.join(os.path.dirname(path), header)] if quote == '"' else []  # noqa: PTH118, PTH120
        if not (places and is_file(Path(places[0]))):
            places = [os.path.join(folder, header) for folder in folders]  # noqa: PTH118
        yield from (os.path.normpath(place) for place in places if is_file(Path(place)))


def _add_root_of(roots: list[str], found: str, includer: str) -> None:
    """See to it that a header is in a root: one that is reached by `../` from another file, in that file's."""
    folder = os.path.dirname(found)  # noqa: PTH120
    if any(_inside(found, root) for root in roots):
        return
    around = next(root for root in roots if _inside(includer, root))
    _add(roots, folder if around == INLINE else os.path.commonpath([around, folder]))


def _add(roots: list[str], folder: str) -> None:
    """Add a folder, in the place of the first of those inside it."""
    if not any(_inside(folder, root) for root in roots):
        inside = [root for root in roots if _inside(root, folder)]
        place = roots.index(inside[0]) if inside else len(roots)
        roots[:] = [*roots[:place], folder, *(root for root in roots[place:] if root not in inside)]


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(
            "a source or a header that it includes cannot be read",
            required=f"a file that this user can read: {path}",
            found=f"{type(error).__name__}: {error}",
            remedies=[way_out(error)],
        ) from error
