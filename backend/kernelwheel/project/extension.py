"""The Extension: what `[[tool.kernelwheel.extension]]` declares to be built, and the registry of its keys."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import filterfalse
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, NoReturn, get_args

from ..flags.options import FOLDERS, without_device_linking
from ..runtime.errors import SettingsError
from ..runtime.machine.platforms import library_file
from ..runtime.settings import TABLE, choice
from ..source_language import CUDA_SUFFIX
from . import arch_choice
from .arch_choice import ArchList
from .build_platforms import HOST_PLATFORM
from .build_settings import OPTIONS

EXTENSION = "[[tool.kernelwheel.extension]]"
# What a library is: imported by Python (pybind11, Python/C API); operators on torch's stable ABI; or operators
# registered with TORCH_LIBRARY, on all of torch's C++ API.
Kind = Literal["module", "operators", "torch-library"]
CudaNeed = Literal["required", "optional", "only", "none"]
# How the names of libraries begin that have one build for each CUDA major (CUDA Toolkit, "Release Notes", components).
OF_CUDA_MAJOR = (
    *("cublas", "cudart", "cudnn", "cudss", "cufft", "cufile", "cupti", "curand", "cusolver", "cusparse", "cutensor"),
    *("nccl", "npp", "nvblas", "nvfatbin", "nvJitLink", "nvjpeg", "nvrtc", "nvshmem", "nvvm"),
)


@dataclass(frozen=True)
class Extension:
    """One library to build, without a CMakeLists.txt. All files and folders are relative to the project."""

    name: str  # where it is imported from, `simple_knn._C`
    kind: Kind
    # whether a build without CUDA fails (`required`), has it too (`optional`), or leaves it out (`only`)
    cuda: CudaNeed
    sources: tuple[str, ...]  # C++ and CUDA files; patterns, until `source_files.find_sources` looks for them
    cuda_sources: tuple[str, ...]  # C++ files that are compiled only with CUDA, as CUDA files are
    include_dirs: tuple[str, ...]  # folders with headers
    define: tuple[str, ...]  # macros, `NAME` or `NAME=VALUE`
    cuda_define: tuple[str, ...]  # those of a build with CUDA
    cxx_flags: tuple[str, ...]
    cuda_flags: tuple[str, ...]  # for nvcc
    file_flags: Mapping[str, tuple[str, ...]]  # further options for single files
    link_flags: tuple[str, ...]  # options for the linker driver
    libraries: tuple[str, ...]  # further libraries to link, `cublas`
    archs: str  # the architectures of its kernels, if they are for one family of GPUs only; empty: those of the build
    exclude: tuple[str, ...] = ()  # patterns of files that are left out
    device_link: bool = False  # whether device code in several files, and in archives among `libraries`, is linked
    apart: bool = False  # whether it is found, compiled and loaded by itself, and shares no types with others
    by_path: bool = False  # whether the library itself lies where its name says, as the package loads it by its path

    @property
    def module(self) -> str:
        """The last part of its name, which is TORCH_EXTENSION_NAME."""
        return self.name.rpartition(".")[2]

    def file(self, platform: str) -> str:
        """The library's file in an Artifact for a platform."""
        return library_file(self.name, platform)

    @property
    def abi(self) -> str:
        """What it uses of torch: its `stable` ABI, or all of `torch`."""
        return "stable" if self.kind == "operators" else "torch"

    @property
    def has_kernels(self) -> bool:
        """Whether it has device code, once `sources` are files."""
        return self.cuda != "none" and any(source.endswith(CUDA_SUFFIX) for source in self.sources)

    @property
    def binds_cuda(self) -> bool:
        """Whether it needs libraries that belong to one CUDA major."""
        return self.cuda != "none" and any(map(is_of_cuda_major, self.libraries))

    def linked(self, cuda: bool) -> tuple[str, ...]:
        """The libraries that it is linked with, in a build with CUDA or without."""
        return self.libraries if cuda or self.cuda == "none" else tuple(filterfalse(is_of_cuda, self.libraries))

    @property
    def own_archs(self) -> ArchList:
        """`archs`, parsed; only if there are some."""
        return arch_choice.parse(self.archs, f"archs of {self.name}")

    def is_built(self, cuda: bool) -> bool:
        """Whether a build with CUDA, or one without, has it."""
        return cuda or self.cuda != "only"

    def compiled(self, cuda: bool) -> tuple[str, ...]:
        """The files that are compiled, in a build with CUDA or without."""
        if cuda and self.cuda != "none":
            return tuple(sorted({*self.sources, *self.cuda_sources}))
        left_out = {*self.cuda_sources, *(source for source in self.sources if source.endswith(CUDA_SUFFIX))}
        return tuple(source for source in self.sources if source not in left_out)


def is_of_cuda(library: str) -> bool:
    """Whether a library for the linker is CUDA's, or the driver's, so that no build without CUDA is linked with it."""
    return library.startswith(OF_CUDA_MAJOR) or library in ("cuda", "cudadevrt", "nvidia-ml", "nvToolsExt")


def is_of_cuda_major(library: str) -> bool:
    """Whether a library belongs to one CUDA major, by its name for the linker, `cublas`, or by its file.

    The CUDA runtime is linked statically, and the driver's own libraries serve every major.
    """
    name = HOST_PLATFORM.stem(library)
    return name.startswith(OF_CUDA_MAJOR) and not name.endswith("_static")


# What strings in a list are refused, by patterns at their beginning, and why.
_Refused = tuple[tuple[str, str], ...]
_PATH: _Refused = ((r"(?s)\s*$|.*[\n\\]", "not a path"), (r"/|(.*/)?\.\.(/|$)", "it leaves the project"))
_OPTION: _Refused = (
    (r"(?s)\s*$|.*[\n\0]", "not an option"),
    ("|".join(FOLDERS), "folders with headers belong in include-dirs"),
)
_OF_NVCC: _Refused = (
    *_OPTION,
    (
        arch_choice.CHOOSES,
        "architectures belong in the option archs (TORCH_CUDA_ARCH_LIST) or in archs of the extension",
    ),
    (r"--?(dlink|device-link|dlto)$", "device-link = true links device code, into machine code"),
)
_MACRO: _Refused = ((r"(?![A-Za-z_]\w*(\([^)]*\))?(=[^\n]*)?\Z)", "not a macro"),)
_LIBRARY: _Refused = ((r"(?![A-Za-z0-9_][\w.+-]*\Z)", "not the name of a library"),)


def strings(refused: _Refused) -> Callable[[Any], tuple[str, ...]]:
    """A reader of a list of strings."""

    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError("not a list of strings")
        for each in value:
            for pattern, reason in refused:
                if re.match(pattern, each):
                    raise ValueError(reason)
        return tuple(value)

    return read


def _name(value: Any) -> str:
    if not isinstance(value, str) or not all(part.isidentifier() and part.isascii() for part in value.split(".")):
        raise ValueError("not identifiers separated by dots")
    return value


def _sources(value: Any) -> tuple[str, ...]:
    if not value:
        raise ValueError("at least one pattern is needed, such as csrc/*.cu")
    return strings(_PATH)(value)


def _file_flags(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError("not a table")
    return dict(zip(strings(_PATH)(list(value)), map(strings(_OF_NVCC), value.values()), strict=True))


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _archs(value: Any) -> str:
    return str(arch_choice.parse(str(value), f"archs in {EXTENSION}")) if value else ""


class Key(NamedTuple):
    """One key of the table, an attribute of Extension."""

    name: str  # as it is written
    read: Callable[[Any], Any]  # what reads its value, or raises ValueError
    takes: str  # the values that it takes, in words
    help: str  # what it is for
    default: str = "empty"  # what stands for it, in words
    absent: Any = ()  # the same as a value; None if the key is required


_PATTERNS, _MACROS, _OPTIONS = "a list of patterns", "a list of NAME or NAME=VALUE", "a list of compiler options"
KEYS = (
    Key(
        "name",
        _name,
        "a dotted name",
        "Where the library is imported from: `simple_knn._C`, `fused_ssim_cuda`.",
        "required",
        None,
    ),
    Key(
        "kind",
        lambda value: choice(*get_args(Kind))(str(value)),
        "module, operators or torch-library",
        "`module`: imported by Python (pybind11). `operators`: STABLE_TORCH_LIBRARY, for every torch. `torch-library`: "
        "TORCH_LIBRARY, for one torch release and every Python.",
        "`module`",
        "module",
    ),
    Key("sources", _sources, _PATTERNS, "C++ and CUDA files; `**` stands for any folders.", "required", None),
    Key("cuda-sources", strings(_PATH), _PATTERNS, "C++ files that are compiled only with CUDA."),
    Key("exclude", strings(_PATH), _PATTERNS, "Files that are neither compiled nor shipped."),
    Key("include-dirs", strings(_PATH), "a list of folders", "Folders with headers, searched before torch's."),
    Key("define", strings(_MACRO), _MACROS, "Macros, for C++ and CUDA files."),
    Key("cuda-define", strings(_MACRO), _MACROS, "Macros of a build with CUDA, for C++ files too."),
    Key("cxx-flags", strings(_OPTION), _OPTIONS, "Options for the C++ compiler."),
    Key("cuda-flags", strings(_OF_NVCC), _OPTIONS, "Options for nvcc."),
    Key(
        "file-flags",
        _file_flags,
        "a table of pattern = list of options",
        "Further options for single files.",
        absent={},
    ),
    Key("link-flags", strings(_OPTION), "a list of linker options", "Options for the linker driver."),
    Key(
        "libraries",
        strings(_LIBRARY),
        "a list of names",
        "Further libraries, as in `cublas`; torch's own are always linked.",
    ),
    Key(
        "device-link",
        _boolean,
        "true or false",
        "Whether device code that is in several files, or in static ones of `libraries`, is linked: into machine code, "
        "without PTX.",
        "`true` with `-rdc=true` or `-dc` in flags for nvcc, else `false`",
        False,
    ),
    Key(
        "cuda",
        lambda value: choice(*get_args(CudaNeed))(str(value)),
        "required, optional, only or none",
        "Whether it can be built without CUDA: `optional` then leaves out CUDA files and `cuda-sources`, `only` the "
        "whole extension, which is an ImportError.",
        "`required` with CUDA files, else `none`",
        "",
    ),
    Key(
        "apart",
        _boolean,
        "true or false",
        "Whether it is compiled by itself when it is first called, and not with extensions that it could share types "
        "with.",
        "`false`",
        False,
    ),
    Key(
        "by-path",
        _boolean,
        "true or false",
        "For a package that gives its library's path to `torch.ops.load_library`: the library itself lies where its "
        "name says, and nothing checks it against the machine.",
        "`false`",
        False,
    ),
    Key(
        "archs",
        _archs,
        "a list such as 9.0a;10.0a",
        "The one family of GPUs that its kernels are for.",
        "those of the build",
        "",
    ),
)


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
    extensions = tuple(map(_read, tables))
    for name, count in Counter(each.name for each in extensions).items():
        if count > 1:
            refuse(name, "name", "another name for each extension", f"{count} extensions of that name")
    return extensions


def _read(table: Mapping[str, Any]) -> Extension:
    given = {key.replace("_", "-"): value for key, value in table.items()}
    name, known = str(given.get("name") or "without a name"), {key.name: key for key in KEYS}
    for unknown in given.keys() - known.keys():
        near = difflib.get_close_matches(unknown, known, n=1)
        remedy = f"write {near[0]}" if near else "remove it or correct its name"
        if unknown in (*OPTIONS, "dispatched"):
            remedy = f"move it to {TABLE}: it is for all extensions"
        refuse(name, unknown, "one of " + ", ".join(known), f"unknown key {unknown!r}", remedy)
    values = {}
    for key in KEYS:
        value = given.get(key.name, key.absent)
        try:
            values[key.name.replace("-", "_")] = key.read(value) if key.name in given or value is None else value
        except ValueError as error:
            refuse(name, key.name, key.takes, f"{value!r}: {error}" if key.name in given else "nothing")
    values["include_dirs"] = tuple(PurePosixPath(folder).as_posix() for folder in values["include_dirs"])
    split = {file: without_device_linking(flags) for file, flags in values["file_flags"].items()}
    rest, asked = without_device_linking(values["cuda_flags"])
    values["device_link"] |= bool(asked) or any(in_file for _, in_file in split.values())
    values |= {"cuda_flags": tuple(rest), "file_flags": {file: tuple(flags) for file, (flags, _) in split.items()}}
    extension = Extension(**values)
    if extension.by_path and extension.kind == "module":
        refuse(name, "by-path", "operators or a torch-library", "a module, which Python imports by its name")
    return extension


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
