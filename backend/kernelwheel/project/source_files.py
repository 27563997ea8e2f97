"""The source files of a package: those of a folder with CMakeLists.txt, or those that its extensions declare."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from ..readable import readable
from ..runtime.errors import SettingsError
from ..runtime.machine.files import is_file, is_folder, stream_sha256
from ..source_language import CUDA_SUFFIX, CXX_SUFFIXES, UNFIT
from .extension import Extension, refuse

# Files that can reach a compiler. Files without a suffix count too: some libraries name headers so (Eigen/Core).
# Anything else in the folder (editor files, notes, caches) is ignored.
SOURCE_SUFFIXES = {
    ".c", ".cc", ".cpp", ".cxx", ".c++", ".cu", ".cuh", ".ptx", ".s", ".S", ".h", ".hh", ".hpp", ".hxx", ".h++",
    ".inl", ".inc", ".ipp", ".tpp", ".tcc", ".txx", ".def", ".in", ".cmake",
}  # fmt: skip
SOURCE_NAMES = {"CMakeLists.txt"}
# Some sources include others as text, so whatever a compiler can read goes along with an extension's own files.
INCLUDED = SOURCE_SUFFIXES - {".cmake", ".in"}
# For a folder that is empty: git makes none but those of submodules.
FETCH = "git submodule update --init --recursive"
# Folders in a project that are made from it, or are not about it.
NOT_SOURCES = ("build", "dist", "__pycache__", "node_modules", "*.egg-info")


def find_sources(extensions: Iterable[Extension], project: Path) -> tuple[Extension, ...]:
    """The same extensions with files in place of patterns, in the order of their names.

    Raises:
        SettingsError: a pattern matches nothing, or a folder does not exist.
    """
    return tuple(sorted((_resolve(each, project) for each in extensions), key=lambda each: each.name))


def files_of(extensions: Sequence[Extension], project: Path) -> tuple[str, ...]:
    """The files that may be compiled or included: an extension's own, and those that can be included by them.

    They are looked for in the folders of the sources and in include-dirs, and below them; of the project's own folder,
    if there are sources in it, only its files are.
    """
    found: set[str] = set()
    for each in extensions:
        sources = each.compiled(cuda=True)
        found.update(sources)
        around = {PurePosixPath(source).parent.as_posix() for source in sources}
        folders = {*around, *each.include_dirs}
        for folder in sorted(folders):
            below = folder != "." or "." in each.include_dirs
            for path in _files(project / folder, (), NOT_SOURCES) if below else (project / folder).iterdir():
                name = path.relative_to(project).as_posix()
                bare = path.suffix == "" and folder in each.include_dirs
                if (path.suffix in INCLUDED or bare) and is_file(path) and not _matches(name, each.exclude):
                    found.add(name)
    return tuple(sorted(found))


def source_digests(root: Path, files: Iterable[str] | None = None) -> dict[str, str]:
    """The sha256 of the source files in `root`, keyed by path relative to `root`, with forward slashes.

    Without `files`, of every one below the folder with CMakeLists.txt. Symbolic links are followed, so a folder may be
    shared with another package. Hidden files are ignored.

    Raises:
        SettingsError: there is no CMakeLists.txt in `root`.
        BuildError: a file or folder cannot be read.
    """
    with readable("the native sources", f"files and folders that this user can read in {root}"):
        names = _sources_below(root) if files is None else files
        return {name: file_sha256(root / name) for name in names}


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return stream_sha256(stream)


def _resolve(extension: Extension, project: Path) -> Extension:
    for folder in extension.include_dirs:
        if empty := _empty(project, folder):
            refuse(extension.name, "include-dirs", f"a folder with headers: {folder}", empty, FETCH)
        if not is_folder(project / folder):
            refuse(extension.name, "include-dirs", f"a folder in the project: {folder}", "none")
    sources = _expand(extension, "sources", extension.sources, project)
    cuda_sources = _expand(extension, "cuda-sources", extension.cuda_sources, project)
    own = [source for source in sources if source not in cuda_sources]
    if bad := [name for name in (*own, *cuda_sources, *extension.include_dirs) if re.search(UNFIT, name)]:
        required = "names that CMake and Ninja take, without ; : | $< and backslashes, and without control characters"
        refuse(extension.name, "sources", required, repr(bad[0]), "rename it")
    with_cuda = bool(cuda_sources) or any(source.endswith(CUDA_SUFFIX) for source in sources)
    cuda = extension.cuda or ("required" if with_cuda else "none")
    if cuda == "none" and with_cuda:
        files = ", ".join([*cuda_sources, *(source for source in own if source.endswith(CUDA_SUFFIX))])
        refuse(
            extension.name, "cuda", "no CUDA files, as cuda is none", files, "set cuda to required, optional or only"
        )
    if cuda == "optional" and all(source.endswith(CUDA_SUFFIX) for source in own):
        remedy = 'set cuda to "required", or to "only" if builds without CUDA do without it'
        refuse(extension.name, "cuda", "C++ files, to be built without CUDA", "only CUDA files", remedy)
    flags: dict[str, tuple[str, ...]] = {}
    for pattern, options in extension.file_flags.items():
        matching = [file for file in (*own, *cuda_sources) if _matches(file, (pattern,))]
        if not matching:
            refuse(extension.name, "file-flags", f"a source that matches {pattern}", f"none of {', '.join(sources)}")
        for file in matching:
            flags[file] = (*flags.get(file, ()), *options)
    return replace(extension, sources=tuple(own), cuda_sources=cuda_sources, cuda=cuda, file_flags=flags)


def _empty(project: Path, folder: str) -> str:
    """What to say of a folder if it, or the one that it would be in, is empty."""
    around = (folder, *map(str, PurePosixPath(folder).parents))
    there = next((each for each in around if is_folder(project / each)), ".")
    return "" if any((project / there).iterdir()) else f"{there} is empty, as a git submodule is before it is fetched"


def _expand(extension: Extension, key: str, patterns: Iterable[str], project: Path) -> tuple[str, ...]:
    """The files that match, sorted. A pattern with a wildcard may match other files too, which are not compiled."""
    found: set[str] = set()
    for pattern in patterns:
        paths = [path for path in project.glob(pattern) if is_file(path)]
        compiled = [path for path in paths if path.suffix in (*CXX_SUFFIXES, CUDA_SUFFIX)]
        if not compiled:
            there = ", ".join(path.relative_to(project).as_posix() for path in paths[:3])
            sources = (path for path in _files(project, (), NOT_SOURCES) if path.suffix in (*CXX_SUFFIXES, CUDA_SUFFIX))
            names = [path.relative_to(project).as_posix() for path in sources]
            near = "".join(f"; the nearest is {name}" for name in difflib.get_close_matches(pattern, names, 1, 0.4))
            required = f"C++ or CUDA files ({', '.join((*CXX_SUFFIXES, CUDA_SUFFIX))}) that match {pattern}"
            if empty := _empty(project, re.split(r"[*?\[]", pattern)[0].rpartition("/")[0] or "."):
                refuse(extension.name, key, required, empty, FETCH)
            refuse(extension.name, key, required, there or f"none{near}")
        matching = (path.relative_to(project).as_posix() for path in compiled)
        found.update(name for name in matching if not _matches(name, extension.exclude))
    if patterns and not found:
        refuse(extension.name, "exclude", f"at least one file of {key} that is not excluded", "none")
    return tuple(sorted(found))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a file matches one of the patterns, or lies in a folder that does."""
    above = [name, *(path.as_posix() for path in PurePosixPath(name).parents)]
    return any(fnmatchcase(each, pattern.replace("**/", "*")) for pattern in patterns for each in above)


def _sources_below(root: Path) -> list[str]:
    if not is_file(root / "CMakeLists.txt"):
        raise SettingsError(
            "the native sources are missing",
            required="a folder with CMakeLists.txt",
            found=f"no CMakeLists.txt in {root}",
            remedies=["fix `sources` in [tool.kernelwheel]; for an sdist, add the folder to MANIFEST.in"],
        )
    files = (path for path in _files(root, ()) if path.suffix in {*SOURCE_SUFFIXES, ""} or path.name in SOURCE_NAMES)
    return [path.relative_to(root).as_posix() for path in sorted(files)]


def _files(folder: Path, above: tuple[Path, ...], left_out: Sequence[str] = ("__pycache__",)) -> Iterator[Path]:
    """The files below a folder that are not hidden; a link to an enclosing folder is not followed."""
    around = (*above, folder.resolve())
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if is_file(path):
            yield path
        elif is_folder(path) and path.resolve() not in around and not _is_made(path, left_out):
            yield from _files(path, around, left_out)


def _is_made(folder: Path, left_out: Sequence[str]) -> bool:
    return is_file(folder / "pyvenv.cfg") or any(fnmatchcase(folder.name, pattern) for pattern in left_out)
