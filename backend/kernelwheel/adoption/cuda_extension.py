"""The translation of one CUDAExtension or CppExtension into a table `[[tool.kernelwheel.extension]]`."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..flags.linking import LINKED, LINKED_FOR_CUDA
from ..project.extension import is_of_cuda
from ..source_language import CUDA_SUFFIX, CXX_SUFFIXES
from .compile_args import Places, sort_flags
from .setup_runs import RecordedExtension

# Fields of an Extension that no key stands for.
NO_KEY = ("undef_macros", "runtime_library_dirs", "extra_objects", "export_symbols")
# What torch calls the device linker among those that extra_compile_args has flags for, and its own of these flags.
DEVICE_LINKER, OF_DEVICE_LINK = "nvcc_dlink", ("-dlink", "-dlto")
READ_BYTES = 2_000_000
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONDITION = re.compile(r"\s*#\s*(if(?:n?def)?|el\w+|endif)\b\s*(.*)")
_MACRO = re.compile(r"(?:defined\b)?[\s(]*(\w+)[\s)]*")
_OF_WINDOWS = ("_WIN32", "_MSC_VER")

# A table's keys and values, as pyproject.toml has them.
Table = dict[str, Any]


@dataclass(frozen=True)
class AdoptionNotes:
    """What a maintainer must be told."""

    untranslated: list[str] = field(default_factory=list)  # what pyproject.toml does not have, and why
    remarks: list[str] = field(default_factory=list)  # what is as it should be, and yet worth a look
    refused: list[str] = field(default_factory=list)  # why kernelwheel would not build these tables


def translate(extension: RecordedExtension, places: Places, notes: AdoptionNotes) -> tuple[Table, list[str]]:
    """An extension's table with every key that adopt writes, and the flags that choose its architectures."""
    lost: list[str] = []
    for name, value in extension.fields.items():
        if name in NO_KEY and value:
            lost.append(f"{name}, which no key takes: {value}")
        if isinstance(value, list) and None in value:
            lost.append(f"{name} has None in place of what setup.py did not find here: add it by hand")
    sources = _sources(extension, places, lost)
    given = extension.flags_by_compiler()
    for_nvlink = given.pop(DEVICE_LINKER, [])
    nvlink = sort_flags([flag for flag in for_nvlink if flag not in OF_DEVICE_LINK], places)
    given[DEVICE_LINKER] = nvlink.kept
    for compiler in sorted(set(given) - {"", "cxx", "nvcc"}):
        if given[compiler]:
            lost.append(f"extra_compile_args for {compiler}, which no key takes: {' '.join(given[compiler])}")
    cxx, nvcc = (sort_flags([*given.get("", []), *given.get(name, [])], places) for name in ("cxx", "nvcc"))
    link = sort_flags(extension.listed("extra_link_args"), places)
    every = (cxx, nvcc, link, nvlink)
    lost += (f"the flag {flag!r} names a place on this machine" for flags in every for flag in flags.of_this_machine)
    folders = [*extension.listed("library_dirs"), *(each for flags in every for each in flags.link_dirs)]
    own = _own_folders(extension.name, folders, places, notes)
    lost += (f"the library folder {folder}, which no key takes" for folder in own)
    if standards := _once([*cxx.old_standards, *nvcc.old_standards]):
        notes.remarks.append(
            f"{extension.name}: {' '.join(standards)} is left out: a build takes the C++ standard of torch's headers"
        )
    if native := _once(flag for flags in (cxx, nvcc, link) for flag in flags.of_this_cpu):
        said = "left out: that is the CPU of whoever builds, and a wheel is for others"
        advice = 'cpu = "x86-64-v3" in [tool.kernelwheel] names one, which is checked before loading'
        notes.remarks.append(f"{extension.name}: {' '.join(native)} is {said}; {advice}")
    text = "\n".join(_read(places.project / source) for source in sources)
    kind = _kind(extension.name, text, notes)
    with_cuda = extension.made_by == "CUDAExtension" or any(source.endswith(CUDA_SUFFIX) for source in sources)
    defined = _definitions(extension, text, kind, notes)
    if kind != "module":
        lost += _python_headers(kind, text, {each.partition("=")[0] for each in defined})
    libraries = [*extension.listed("libraries"), *cxx.libraries, *nvcc.libraries, *link.libraries, *nvlink.libraries]
    headers = [*extension.listed("include_dirs"), *(each for flags in (cxx, nvcc, link) for each in flags.include_dirs)]
    table = {
        "name": extension.name,
        "kind": kind,
        "sources": [glob.escape(source) for source in sources],
        "cuda-sources": [],
        "include-dirs": _include_dirs(_own_folders(extension.name, headers, places, notes), places, lost),
        "define": defined,
        "cuda-define": [],
        "cxx-flags": cxx.kept,
        "cuda-flags": nvcc.kept if with_cuda else [],
        "link-flags": link.kept,
        "libraries": _once(name for name in libraries if name not in LINKED | LINKED_FOR_CUDA),
        "device-link": bool(nvcc.device_link or for_nvlink),
        "cuda": "required" if with_cuda else "none",
        "archs": "",
        "by-path": kind != "module" and _is_loaded_by_path(places.project / extension.name.partition(".")[0]),
    }
    notes.untranslated.extend(f"{extension.name}: {what}" for what in _once(lost))
    return table, nvcc.archs


def merge(with_cuda: Table, without: Table, notes: AdoptionNotes) -> Table:
    """The table of an extension that setup.py builds with CUDA and without."""
    merged = {**with_cuda, "cuda": "optional"}
    for key, has_own_key in (
        ("sources", True), ("define", True), ("cxx-flags", False), ("link-flags", False), ("libraries", False),
    ):  # fmt: skip
        more = [value for value in with_cuda[key] if value not in without[key]]
        if key == "libraries":  # a build without CUDA is not linked with CUDA's
            more = [name for name in more if not is_of_cuda(name)]
        if has_own_key:
            merged[f"cuda-{key}"] = [value for value in more if not value.endswith(CUDA_SUFFIX)]
            merged[key] = [value for value in with_cuda[key] if value not in merged[f"cuda-{key}"]]
        elif more:
            said = f"{with_cuda['name']}: of {key}, builds with CUDA alone have {' '.join(more)}: here all builds do"
            notes.untranslated.append(said)
        if less := [value for value in without[key] if value not in with_cuda[key]]:
            notes.untranslated.append(f"{with_cuda['name']}: of {key}, builds without CUDA alone have {' '.join(less)}")
    return merged


def _sources(extension: RecordedExtension, places: Places, lost: list[str]) -> list[str]:
    found, outside = [], []
    for source in extension.listed("sources"):
        inside = places.relative(source)
        if inside is None:
            outside.append(source)
        elif not inside.endswith((CUDA_SUFFIX, *CXX_SUFFIXES)):
            lost.append(f"the source {inside} is neither C++ nor CUDA")
        else:
            found.append(inside)
    if outside:
        lost.append(
            f"{len(outside)} sources are outside of the folder of setup.py, such as {outside[0]}, so that no sdist has "
            "them: put pyproject.toml and setup.py into the folder above, and run adopt there"
        )
    return _once(found)


def _include_dirs(folders: Iterable[str], places: Places, lost: list[str]) -> list[str]:
    """Folders relative to the project."""
    found: list[str] = []
    for folder in folders:
        if (inside := places.relative(folder)) is None:
            lost.append(f"the include folder {folder} is outside of the project; copy it into the project")
        else:
            found.append(inside)
    return _once(found)


def _own_folders(name: str, folders: Iterable[str], places: Places, notes: AdoptionNotes) -> Iterator[str]:
    """Folders without those that a build searches anyway; of one in a package of pip, say what must be required."""
    for folder in folders:
        if package := places.package_of_pip(folder):
            said = (
                f"{name}: the headers and libraries of pip's {package} need no folder, as a build finds them beside "
                "torch; if torch does not require their package, add it to requires in [build-system] and to the "
                "dependencies"
            )
            if said not in notes.remarks:
                notes.remarks.append(said)
        elif not places.comes_anyway(folder):
            yield folder


_PYTHON_S = re.compile(
    r"\s*#\s*include\s*[<\"](Python\.h|pybind11/[^>\"]+|torch/(?:extension|python|csrc/utils/pybind)\.h)[>\"]"
)


def _python_headers(kind: str, text: str, defined: Collection[str]) -> Iterator[str]:
    """The headers of Python that a library without Python includes; not those for a macro that is not defined."""
    for line in _compiled(text, lambda macro: macro not in defined and not macro.isdecimal()):
        if header := _PYTHON_S.match(line):
            yield (
                f"a source includes {header[1]}, and a {kind} is compiled without Python: remove it, or include "
                "torch/torch.h instead"
            )


def _definitions(extension: RecordedExtension, text: str, kind: str, notes: AdoptionNotes) -> list[str]:
    """The macros, without those that only bring Python into a library that does without."""
    found = []
    for name, value in extension.listed("define_macros"):
        brought = rf"#\s*(?:ifdef\s+|if\s+defined[\s(]*){re.escape(str(name))}\b[^#]*#\s*include\s*<Python\.h>"
        if kind != "module" and re.search(brought, text):
            notes.remarks.append(
                f"{extension.name}: the macro {name} is left out: it includes Python.h, which a {kind} does without"
            )
        else:
            found.append(str(name) if value is None else f"{name}={value}")
    return _once(found)


def _kind(name: str, text: str, notes: AdoptionNotes) -> str:
    """Told from what the sources register."""
    if re.search(r"\bPYBIND11_MODULE\s*\(|\bPyInit_", text):
        return "module"
    if re.search(r"\bTORCH_LIBRARY(_IMPL|_FRAGMENT)?\s*\(|\bRegisterOperators\s*\(", text):
        return "torch-library"
    if re.search(r"\bSTABLE_TORCH_LIBRARY(_IMPL|_FRAGMENT)?\s*\(", text):
        return "operators"
    notes.remarks.append(f"{name}: no source has PYBIND11_MODULE or TORCH_LIBRARY; assumed to be a module")
    return "module"


def _is_loaded_by_path(package: Path) -> bool:
    """Whether a Python file of a package gives a path to torch.ops.load_library."""
    return any(re.search(r"\bops\.load_library\s*\(", _read(path)) for path in sorted(package.rglob("*.py")))


def _read(path: Path) -> str:
    """The beginning of a source file without comments and what is for Windows; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(READ_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(_compiled(_COMMENT.sub("", text), _OF_WINDOWS.__contains__))


def _compiled(text: str, is_unset: Callable[[str], bool]) -> Iterator[str]:
    """The lines of a source, and all conditions, without what is compiled only where a macro is set that is not."""
    off: list[bool] = []  # for each condition around a line, whether it is certain that it does not hold
    for line in text.splitlines():
        if condition := _CONDITION.match(line):
            macro = _MACRO.fullmatch(condition[2])
            if condition[1] in ("if", "ifdef", "ifndef"):
                off.append(condition[1] != "ifndef" and macro is not None and is_unset(macro[1]))
            elif off:
                off[-1:] = [] if condition[1] == "endif" else [False]
        if condition or not any(off):
            yield line


def _once(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
