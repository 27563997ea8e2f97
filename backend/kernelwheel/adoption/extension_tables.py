"""The translation of one CUDAExtension or CppExtension into a table `[[tool.kernelwheel.extension]]`."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..project.extension import CUDA_SUFFIX
from .setup_flags import Places, SortedFlags, sort_flags
from .setup_runs import ObservedExtension
from .source_texts import brings_python, headers_of_python, reached, read_source

CXX_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".c++")
# What every extension is linked with.
LINKED_ANYWAY = {"c10", "torch", "torch_cpu", "torch_python", "cudart", "c10_cuda", "torch_cuda"}
# Fields of an Extension that no key stands for.
NO_KEY = ("undef_macros", "runtime_library_dirs", "extra_objects", "export_symbols", "optional")
# More sources than this are better told by a glob.
LONG_LIST = 6


@dataclass(frozen=True)
class AdoptionNotes:
    """What a maintainer must be told.

    Attributes:
        untranslated: what pyproject.toml does not have, and why.
        remarks: what is as it should be, and yet worth a look.
    """

    untranslated: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ExtensionTable:
    """The keys of `[[tool.kernelwheel.extension]]`, with `_` for `-`."""

    name: str
    kind: str
    sources: list[str]
    cuda_sources: list[str]
    include_dirs: list[str]
    define: list[str]
    cuda_define: list[str]
    cxx_flags: list[str]
    cuda_flags: list[str]
    link_flags: list[str]
    libraries: list[str]
    cuda: str
    by_path: bool = False

    def keys(self) -> dict[str, str | list[str] | bool]:
        """The keys that say something, as pyproject.toml spells them."""
        return {name.replace("_", "-"): value for name, value in vars(self).items() if value}


def translate(
    extension: ObservedExtension, project: Places, notes: AdoptionNotes
) -> tuple[ExtensionTable, tuple[str, ...]]:
    """An extension's table, and the flags that choose its architectures."""
    translation = _Translation(extension, project, notes)
    return translation.table(), translation.archs


class _Translation:
    def __init__(self, extension: ObservedExtension, places: Places, notes: AdoptionNotes) -> None:
        self._extension = extension
        self._places = places
        self._notes = notes
        self.archs: tuple[str, ...] = ()

    def table(self) -> ExtensionTable:
        extension = self._extension
        for name in extension.unset:
            self._untranslated(f"{name} has None in place of what setup.py did not find here: add it by hand")
        sources = self._sources()
        compiled_by_nvcc = any(source.endswith(CUDA_SUFFIX) for source in sources)
        cuda = "required" if extension.made_by == "CUDAExtension" or compiled_by_nvcc else "none"
        cxx, nvcc = (sort_flags(flags, self._places) for flags in self._compile_flags())
        link = sort_flags(extension.listed("extra_link_args"), self._places)
        self.archs = tuple(nvcc.archs)
        self._report_left_out(cxx, nvcc, link)
        text = "\n".join(read_source(self._places.project / source) for source in sources)
        kind = self._kind(text)
        define = self._definitions(text, kind)
        libraries = [*extension.listed("libraries"), *cxx.libraries, *nvcc.libraries, *link.libraries]
        named = [*extension.listed("include_dirs"), *cxx.include_dirs, *nvcc.include_dirs, *link.include_dirs]
        include_dirs = self._folders("the include folder", named)
        if kind != "module":
            self._report_python(sources, include_dirs)
        return ExtensionTable(
            name=extension.name,
            kind=kind,
            sources=[glob.escape(source) for source in sources],
            cuda_sources=[],
            include_dirs=include_dirs,
            define=define,
            cuda_define=[],
            cxx_flags=cxx.kept,
            cuda_flags=nvcc.kept if cuda == "required" else [],
            link_flags=link.kept,
            libraries=_once(name for name in libraries if name not in LINKED_ANYWAY),
            cuda=cuda,
            by_path=kind != "module" and self._is_loaded_by_path(),
        )

    def _is_loaded_by_path(self) -> bool:
        """Whether a Python file of its package gives a path to torch.ops.load_library."""
        package = self._places.project / self._extension.name.partition(".")[0]
        return any(re.search(r"\bops\.load_library\s*\(", read_source(path)) for path in sorted(package.rglob("*.py")))

    def _untranslated(self, what: str) -> None:
        text = f"{self._extension.name}: {what}"
        if text not in self._notes.untranslated:
            self._notes.untranslated.append(text)

    def _sources(self) -> list[str]:
        found = []
        for source in self._extension.listed("sources"):
            inside = self._places.relative(source)
            if inside is None:
                continue  # checkout.report_outside tells it
            if not inside.endswith((CUDA_SUFFIX, *CXX_SUFFIXES)):
                self._untranslated(f"the source {inside} is neither C++ nor CUDA")
            else:
                if not (self._places.project / inside).is_file():
                    self._untranslated(f"the source {inside} does not exist; if setup.py makes it, keep a copy")
                found.append(inside)
        return _once(found)

    def _compile_flags(self) -> tuple[list[str], list[str]]:
        """The flags for the C++ compiler and for nvcc."""
        given = self._extension.flags_by_compiler()
        for compiler in sorted(set(given) - {"", "cxx", "nvcc"}):
            if given[compiler]:
                self._untranslated(
                    f"extra_compile_args for {compiler}, which no key takes: {' '.join(given[compiler])}"
                )
        both = given.get("", [])
        return [*both, *given.get("cxx", [])], [*both, *given.get("nvcc", [])]

    def _definitions(self, text: str, kind: str) -> list[str]:
        """The macros, without those that only bring Python into a library that does without."""
        macros = [(str(name), value) for name, value in self._extension.listed("define_macros")]
        if kind != "module":
            for name in _once(name for name, _ in macros if brings_python(text, name)):
                macros = [macro for macro in macros if macro[0] != name]
                self._notes.remarks.append(
                    f"{self._extension.name}: the macro {name} is left out: it includes Python.h, and a {kind} does "
                    "without Python"
                )
        return _once(name if value is None else f"{name}={value}" for name, value in macros)

    def _report_python(self, sources: Sequence[str], include_dirs: Sequence[str]) -> None:
        """Tell which lines bring Python into a library that does without."""
        macros = [str(name) for name, _ in self._extension.listed("define_macros")]
        folders = [self._places.project / folder for folder in include_dirs]
        for path, text in reached([self._places.project / source for source in sources], folders).items():
            for header in headers_of_python(text, macros):
                file = os.path.relpath(path, self._places.project)
                advice = "write torch/torch.h in its place" if header == "torch/extension.h" else "delete that line"
                said = f"{file} includes {header}, but what only registers operators is built without Python: {advice}"
                if said not in self._notes.untranslated:
                    self._notes.untranslated.append(said)

    def _folders(self, what: str, folders: Sequence[str]) -> list[str]:
        """Folders relative to the project, without those that a build searches anyway."""
        found = []
        for folder in folders:
            if self._places.comes_anyway(folder):
                continue
            inside = self._places.relative(folder)
            if inside is None:
                if not self._is_above(folder):
                    self._untranslated(f"{what} {folder} is outside of the project; copy it into the project")
            else:
                if not (self._places.project / inside).is_dir():
                    self._untranslated(f"{what} {inside} is not there: bring it, and run adopt again")
                found.append(inside)
        return _once(found)

    def _is_above(self, folder: str) -> bool:
        """Whether a folder is in that one, above the project, which has all sources: `checkout.report_outside`."""
        project = self._places.project
        places = [os.path.normpath(project / source) for source in self._extension.listed("sources")]
        shared = Path(os.path.commonpath([project, *places]))
        return shared != project and Path(os.path.normpath(project / folder)).is_relative_to(shared)

    def _report_left_out(self, cxx: SortedFlags, nvcc: SortedFlags, link: SortedFlags) -> None:
        extension = self._extension
        for flag in _once([*cxx.left_out, *nvcc.left_out, *link.left_out]):
            self._untranslated(f"the flag {flag!r} names a place on this machine")
        for flag in _once([*cxx.old_standards, *nvcc.old_standards]):
            remark = f"{extension.name}: the flag {flag} is left out: torch's headers say which C++ they need"
            self._notes.remarks.append(remark)
        if extension.fields.get("py_limited_api"):
            self._notes.remarks.append(
                f"{extension.name}: py_limited_api is left out: a module is for the Python that it is built by; one "
                'that only registers operators serves every Python without PyInit_ and with kind = "torch-library"'
            )
        for folder in _once([*extension.listed("library_dirs"), *link.link_dirs, *nvcc.link_dirs]):
            if not self._places.comes_anyway(folder):
                self._untranslated(f"the library folder {folder}, which no key takes")
        for name in NO_KEY:
            if extension.fields.get(name):
                self._untranslated(f"{name}, which no key takes: {extension.fields[name]}")
        for name in extension.beyond:
            self._untranslated(f"{name}, which no key takes")

    def _kind(self, text: str) -> str:
        """Told from what the sources register."""
        if re.search(r"\bPYBIND11_MODULE\s*\(|\bPyInit_", text):
            return "module"
        if re.search(r"\bTORCH_LIBRARY(_IMPL|_FRAGMENT)?\s*\(|\bRegisterOperators\s*\(", text):
            return "torch-library"
        if re.search(r"\bSTABLE_TORCH_LIBRARY(_IMPL|_FRAGMENT)?\s*\(", text):
            return "operators"
        self._notes.remarks.append(
            f"{self._extension.name}: no source has PYBIND11_MODULE or TORCH_LIBRARY; assumed to be a module"
        )
        return "module"


def merge(with_cuda: ExtensionTable, without: ExtensionTable, notes: AdoptionNotes) -> ExtensionTable:
    """The table of an extension that setup.py builds with CUDA and without."""
    name = with_cuda.name
    cuda_sources = [source for source in _minus(with_cuda.sources, without.sources) if not source.endswith(CUDA_SUFFIX)]
    flags = _minus(with_cuda.cxx_flags, without.cxx_flags)
    switches = [flag for flag in flags if flag.startswith("-D")]
    for what, more, less in (
        ("the source", without.sources, with_cuda.sources),
        ("the definition", without.define, with_cuda.define),
        ("the flag", without.cxx_flags, with_cuda.cxx_flags),
    ):
        for value in _minus(more, less):
            notes.untranslated.append(f"{name}: {what} {value}, which only a build without CUDA has")
    for what, found in (
        ("the flag", _minus(flags, switches)),
        ("the library", _minus(with_cuda.libraries, without.libraries)),
        ("the linker's flag", _minus(with_cuda.link_flags, without.link_flags)),
    ):
        for value in found:
            notes.untranslated.append(f"{name}: {what} {value} is for builds with CUDA only; here it is for all")
    return dataclasses.replace(
        with_cuda,
        sources=_minus(with_cuda.sources, cuda_sources),
        cuda_sources=cuda_sources,
        define=_minus(with_cuda.define, _minus(with_cuda.define, without.define)),
        cuda_define=_once([*_minus(with_cuda.define, without.define), *(flag[2:] for flag in switches)]),
        cxx_flags=_minus(with_cuda.cxx_flags, switches),
        cuda_flags=_minus(with_cuda.cuda_flags, switches),
        cuda="optional",
    )


def own_home(extensions: Sequence[ExtensionTable], project: Path, named: str) -> str | None:
    """The key `package` where extensions at the top level are all that there is: the first of them.

    A home named as the project would be hidden by its folder where Python is started beside that: its Python files are
    not installed, but imported from there.
    """
    names = [extension.name for extension in extensions]
    default = re.sub(r"[-.]+", "_", named)
    has_home = any((folder / default).is_dir() for folder in (project, project / "src"))
    return None if has_home or default in names or any("." in name for name in names) else names[0]


def with_globs(table: ExtensionTable, project: Path) -> ExtensionTable:
    """The same table, where a glob stands for many sources at once if it finds them and no other file."""
    left = table.sources
    for suffix in (CUDA_SUFFIX, *CXX_SUFFIXES):
        folders = _once(source.rpartition("/")[0] for source in left if source.endswith(suffix))
        shared = os.path.commonpath(folders) if folders and all(folders) else ""
        patterns = [f"{shared}/**/*{suffix}"] if shared and len(folders) > 1 else []
        for pattern in [*patterns, *(f"{folder}/*{suffix}" for folder in folders if folder)]:
            found = {glob.escape(path.relative_to(project).as_posix()) for path in project.glob(pattern)}
            if len(found) > LONG_LIST and found <= set(left):
                left = [pattern, *_minus(left, found)]
    return dataclasses.replace(table, sources=left)


def _once(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _minus(values: Iterable[str], others: Iterable[str]) -> list[str]:
    others = set(others)
    return [value for value in values if value not in others]
