"""The Extension: what `[[tool.kernelwheel.extension]]` declares to be built, and the registry of its keys."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, NoReturn, cast, get_args

from ..runtime.errors import SettingsError
from ..runtime.platforms import library_file
from . import arch_choice
from .arch_choice import ArchList, chosen_by
from .build_platforms import HOST_PLATFORM

EXTENSION = "[[tool.kernelwheel.extension]]"
# What a library is: imported by Python (pybind11, Python/C API); operators on torch's stable ABI; or operators
# registered with TORCH_LIBRARY, on all of torch's C++ API.
Kind = Literal["module", "operators", "torch-library"]
CudaNeed = Literal["required", "optional", "none"]
CXX_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++")
CUDA_SUFFIX = ".cu"
# How the names of libraries begin that have one build for each CUDA major (CUDA Toolkit, "Release Notes", components).
OF_CUDA_MAJOR = (
    *("cublas", "cudart", "cudnn", "cudss", "cufft", "cufile", "cupti", "curand", "cusolver", "cusparse", "cutensor"),
    *("nccl", "npp", "nvblas", "nvfatbin", "nvJitLink", "nvjpeg", "nvrtc", "nvshmem", "nvvm"),
)
_DEFINITION = re.compile(r"[A-Za-z_]\w*(\([^)]*\))?(=[^\n]*)?")
_LIBRARY = re.compile(r"[A-Za-z0-9_][\w.+-]*")
_RELOCATABLE = re.compile(r"--?(rdc|relocatable-device-code)=true$|--?(dc|device-c|dlink|device-link|dlto)$")


@dataclass(frozen=True)
class Extension:
    """One library to build, without a CMakeLists.txt. All files and folders are relative to the project.

    Attributes:
        name: where it is imported from, `simple_knn._C`.
        kind: see `Kind`.
        cuda: whether it can be built without CUDA (`optional`), with CUDA only, or has nothing to do with it.
        sources: C++ and CUDA files; patterns, until `source_files.find_sources` replaces them by the files that match.
        cuda_sources: C++ files that are compiled only with CUDA, as CUDA files are.
        include_dirs: folders with headers.
        define: macros, `NAME` or `NAME=VALUE`; `cuda_define`: those of a build with CUDA.
        cxx_flags, cuda_flags: options for the C++ compiler and for nvcc.
        file_flags: further options for single files.
        link_flags: options for the linker driver.
        libraries: further libraries to link, `cublas`.
        archs: the architectures of its kernels, if they are for one family of GPUs only; empty: those of the build.
        exclude: patterns of files that are left out.
        by_path: whether the package loads it by its path, so that the library itself lies where its name says.
    """

    name: str
    kind: Kind
    cuda: CudaNeed
    sources: tuple[str, ...]
    cuda_sources: tuple[str, ...]
    include_dirs: tuple[str, ...]
    define: tuple[str, ...]
    cuda_define: tuple[str, ...]
    cxx_flags: tuple[str, ...]
    cuda_flags: tuple[str, ...]
    file_flags: Mapping[str, tuple[str, ...]]
    link_flags: tuple[str, ...]
    libraries: tuple[str, ...]
    archs: str
    exclude: tuple[str, ...] = ()
    by_path: bool = False

    @property
    def module(self) -> str:
        """The last part of its name, which is TORCH_EXTENSION_NAME."""
        return self.name.rpartition(".")[2]

    @property
    def file(self) -> str:
        """The library's file in an Artifact."""
        return library_file(self.name)

    @property
    def has_kernels(self) -> bool:
        """Whether it has device code, once `sources` are files."""
        return self.cuda != "none" and any(source.endswith(CUDA_SUFFIX) for source in self.sources)

    @property
    def binds_cuda(self) -> bool:
        """Whether it needs libraries that belong to one CUDA major."""
        return self.cuda != "none" and any(map(is_of_cuda_major, self.libraries))

    @property
    def own_archs(self) -> ArchList:
        """`archs`, parsed; only if there are some."""
        return arch_choice.parse(self.archs, f"archs of {self.name}")

    def compiled(self, cuda: bool) -> tuple[str, ...]:
        """The files that are compiled, in a build with CUDA or without."""
        if cuda and self.cuda != "none":
            return tuple(sorted({*self.sources, *self.cuda_sources}))
        left_out = {*self.cuda_sources, *(source for source in self.sources if source.endswith(CUDA_SUFFIX))}
        return tuple(source for source in self.sources if source not in left_out)


def is_of_cuda_major(library: str) -> bool:
    """Whether a library belongs to one CUDA major, by its name for the linker, `cublas`, or by its file.

    The CUDA runtime is linked statically, and the driver's own libraries serve every major.
    """
    name = HOST_PLATFORM.stem(library)
    return name.startswith(OF_CUDA_MAJOR) and not name.endswith("_static")


class Key(NamedTuple):
    """One key of the table: its name, the values it takes, in words, its default, in words, and what it is for."""

    name: str
    takes: str
    default: str
    help: str


KEYS = (
    Key("name", "a dotted name", "required", "Where the library is imported from: `simple_knn._C`, `fused_ssim_cuda`."),
    Key(
        "kind",
        "module, operators or torch-library",
        "`module`",
        "`module`: imported by Python (pybind11). `operators`: STABLE_TORCH_LIBRARY, for every torch. `torch-library`: "
        "TORCH_LIBRARY, for one torch release and every Python.",
    ),
    Key("sources", "a list of patterns", "required", "C++ and CUDA files; `**` stands for any folders."),
    Key("cuda-sources", "a list of patterns", "empty", "C++ files that are compiled only with CUDA."),
    Key("exclude", "a list of patterns", "empty", "Files that are neither compiled nor shipped."),
    Key("include-dirs", "a list of folders", "empty", "Folders with headers, searched before torch's."),
    Key("define", "a list of NAME or NAME=VALUE", "empty", "Macros, for C++ and CUDA files."),
    Key("cuda-define", "a list of NAME or NAME=VALUE", "empty", "Macros of a build with CUDA, for C++ files too."),
    Key("cxx-flags", "a list of compiler options", "empty", "Options for the C++ compiler."),
    Key("cuda-flags", "a list of compiler options", "empty", "Options for nvcc."),
    Key("file-flags", "a table of pattern = list of options", "empty", "Further options for single files."),
    Key("link-flags", "a list of linker options", "empty", "Options for the linker driver."),
    Key("libraries", "a list of names", "empty", "Further libraries, as in `cublas`; torch's own are always linked."),
    Key(
        "cuda",
        "required, optional or none",
        "`required` with CUDA files, else `none`",
        "Whether it can be built without CUDA: `optional` then leaves out CUDA files and `cuda-sources`.",
    ),
    Key(
        "by-path",
        "true or false",
        "`false`",
        "For a package that gives its library's path to `torch.ops.load_library`: the library itself lies where its "
        "name says, and nothing checks it against the machine.",
    ),
    Key("archs", "a list such as 9.0a;10.0a", "those of the build", "The one family of GPUs that its kernels are for."),
)
_NAMES = [key.name for key in KEYS]


def read_extensions(tables: Any) -> tuple[Extension, ...]:
    """Read `[[tool.kernelwheel.extension]]`.

    Raises:
        SettingsError: a key is unknown, or a value is not one that it takes; names the table and the key.
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(
            "extensions are declared in a list of tables",
            required=EXTENSION,
            found=f"tool.kernelwheel.extension is {tables!r}",
            remedies=[f"write {EXTENSION}, with two brackets, once for each extension"],
        )
    extensions = tuple(_Reader(table).extension() for table in tables)
    for extension in extensions:
        same = [other.name for other in extensions if other.name == extension.name]
        if len(same) > 1:
            refuse(extension.name, "name", "another name for each extension", f"{len(same)} extensions of that name")
    return extensions


def to_json(extension: Extension) -> dict[str, Any]:
    """An Extension as plain JSON values, as in a Plan."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(extension)))
    return values


def from_plan(values: Mapping[str, Any]) -> Extension:
    """The Extension in a Plan's JSON."""
    lists: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    flags = {file: tuple(options) for file, options in values["file_flags"].items()}
    return Extension(**{**lists, "file_flags": flags})


def refuse(name: str, key: str, required: str, found: str, remedy: str = "") -> NoReturn:
    """Raise the error for a key of an extension's table; the remedy defaults to correcting it."""
    raise SettingsError(
        f"the extension {name} cannot be built: {key}",
        required=required,
        found=found,
        remedies=[remedy or f"correct {key} of {name} in {EXTENSION} of pyproject.toml"],
    )


class _Reader:
    """Reads one table."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = {key.replace("_", "-"): value for key, value in table.items()}
        self.name = str(self.table.get("name", "without a name"))

    def extension(self) -> Extension:
        self._refuse_unknown()
        name = self._text("name", "")
        parts = name.split(".")
        if not all(part.isidentifier() and part.isascii() for part in parts):
            refuse(self.name, "name", "identifiers separated by dots, such as simple_knn._C", repr(name))
        sources = self._list("sources", _pattern)
        if not sources:
            refuse(name, "sources", "at least one pattern, such as csrc/*.cu", "none")
        archs = self._text("archs", "")
        return Extension(
            name=name,
            kind=cast(Kind, self._choice("kind", get_args(Kind), "module")),
            cuda=cast(CudaNeed, self._choice("cuda", get_args(CudaNeed), "")),
            sources=sources,
            cuda_sources=self._list("cuda-sources", _pattern),
            include_dirs=tuple(PurePosixPath(folder).as_posix() for folder in self._list("include-dirs", _pattern)),
            define=self._list("define", _definition),
            cuda_define=self._list("cuda-define", _definition),
            cxx_flags=self._list("cxx-flags", _flag),
            cuda_flags=self._cuda_flags("cuda-flags", self._list("cuda-flags", _flag)),
            file_flags=self._file_flags(),
            link_flags=self._list("link-flags", _flag),
            libraries=self._list("libraries", _library),
            archs=str(arch_choice.parse(archs, f"archs of {name}")) if archs else "",
            exclude=self._list("exclude", _pattern),
            by_path=self._by_path(),
        )

    def _by_path(self) -> bool:
        value = self.table.get("by-path", False)
        if not isinstance(value, bool):
            refuse(self.name, "by-path", "true or false", repr(value))
        if value and self.table.get("kind", "module") == "module":
            refuse(self.name, "by-path", "operators or a torch-library", "a module, which Python imports by its name")
        return value

    def _refuse_unknown(self) -> None:
        for key in self.table:
            if key not in _NAMES:
                near = difflib.get_close_matches(key, _NAMES, n=1)
                remedy = f"write {near[0]}" if near else "remove it or correct its name"
                refuse(self.name, key, "one of " + ", ".join(_NAMES), f"unknown key {key!r}", remedy)

    def _text(self, key: str, default: str) -> str:
        value = self.table.get(key, default)
        if not isinstance(value, str) or (key == "name" and not value):
            refuse(self.name, key, "a string", repr(value) if key in self.table else "nothing")
        return value.strip()

    def _choice(self, key: str, choices: Sequence[str], default: str) -> str:
        value = self._text(key, default)
        if value not in choices and value != default:
            near = difflib.get_close_matches(value, choices, n=1)
            refuse(self.name, key, " or ".join(choices), repr(value), f"write {near[0]!r}" if near else "")
        return value

    def _list(self, key: str, problem: Callable[[str], str], values: Any = None) -> tuple[str, ...]:
        values = self.table.get(key, []) if values is None else values
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            refuse(self.name, key, "a list of strings", repr(values))
        for value in values:
            if found := problem(value):
                required = next((each.takes for each in KEYS if each.name == key), "")
                refuse(self.name, key, required, f"{value!r}: {found}")
        return tuple(values)

    def _file_flags(self) -> dict[str, tuple[str, ...]]:
        table = self.table.get("file-flags", {})
        if not isinstance(table, dict):
            refuse(self.name, "file-flags", "a table of pattern = list of options", repr(table))
        for pattern in table:
            if found := _pattern(pattern):
                refuse(self.name, "file-flags", "patterns of files in the project", f"{pattern!r}: {found}")
        return {
            pattern: self._cuda_flags("file-flags", self._list("file-flags", _flag, flags))
            for pattern, flags in table.items()
        }

    def _cuda_flags(self, key: str, flags: tuple[str, ...]) -> tuple[str, ...]:
        if chosen := chosen_by(flags):
            refuse(
                self.name,
                key,
                "architectures only in the option archs (TORCH_CUDA_ARCH_LIST), or in archs of the extension",
                " ".join(chosen),
                "remove them, and name the architectures with archs",
            )
        if linked := [flag for flag in flags if _RELOCATABLE.match(flag)]:
            refuse(
                self.name,
                key,
                "files whose device code is complete by itself",
                " ".join(linked),
                "build it with a CMakeLists.txt, which can link device code",
            )
        return flags


def _pattern(value: str) -> str:
    path = PurePosixPath(value)
    if not value.strip() or "\n" in value or "\\" in value:
        return "not a path"
    if path.is_absolute() or ".." in path.parts:
        return "it leaves the project"
    return ""


def _definition(value: str) -> str:
    return "" if _DEFINITION.fullmatch(value) else "not a macro"


def _library(value: str) -> str:
    return "" if _LIBRARY.fullmatch(value) else "not the name of a library"


def _flag(value: str) -> str:
    if not value.strip() or "\n" in value or "\0" in value:
        return "not an option"
    if re.match(r"-(I|isystem|iquote|idirafter)", value):
        return "folders with headers belong in include-dirs"
    return ""
