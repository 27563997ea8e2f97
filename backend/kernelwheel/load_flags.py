"""The arguments of a call of `load`, and its flags, sorted: folders, libraries and architectures are no flags here."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .runtime.errors import SettingsError
from .runtime.files import is_file, is_folder
from .runtime.record import Record
from .source_language import FOLDER_OPTIONS, LINKED, LINKED_FOR_CUDA, directives_of

if TYPE_CHECKING:
    from typing_extensions import Self

Abi = Literal["torch", "stable"]
Strings = str | Sequence[str] | None
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None


class Call(Record):
    """The arguments that say what to do with the sources; their names and meanings are torch.utils.cpp_extension's."""

    name: str
    extra_cflags: Strings
    extra_cuda_cflags: Strings
    extra_ldflags: Strings
    extra_include_paths: Paths
    build_directory: str | None
    verbose: bool
    with_cuda: bool | None
    is_python_module: bool
    abi: Abi
    unique_namespace: bool
    only_compile: bool

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Those of a call's arguments. Raises a SettingsError for what only torch's functions do."""
        call = cls(**{field: arguments[field] for field in cls._fields})
        if arguments.get("is_standalone"):
            remedy = "build it with CMake and torch's TorchConfig.cmake"
            raise call.refusal("is_standalone", "a library, which a Python process loads", "an executable", remedy)
        if any(arguments.get(each) for each in ("with_sycl", "sycl_sources", "extra_sycl_cflags")):
            remedy = "use torch.utils.cpp_extension for SYCL"
            raise call.refusal("SYCL", "sources for the CPU and for CUDA", "sources or options for SYCL", remedy)
        name: Any = call.name
        if not (isinstance(name, str) and name.isidentifier() and name.isascii() and len(name) < 80):
            raise call.refusal("name", "an identifier, of less than 80 letters, digits and _", repr(name))
        if call.abi not in ("torch", "stable"):
            raise call.refusal("abi", "torch or stable", repr(call.abi))
        return call

    @property
    def wants_module(self) -> bool:
        """Whether what it returns is a module."""
        return self.is_python_module and self.abi == "torch"

    def refusal(self, argument: str, required: str, found: str, remedy: str = "") -> SettingsError:
        """The error for an argument."""
        problem, remedies = f"{self.name} cannot be compiled: {argument}", [remedy or f"correct {argument}"]
        return SettingsError(problem, required=required, found=found, remedies=remedies)

    def words(self, argument: str) -> list[str]:
        """The options in an argument, each of which is what a shell would split."""
        if not (given := getattr(self, argument)):
            return []
        from shlex import split  # imported only if needed, to keep a warm start fast

        try:
            return [word for flag in strings(given) for word in split(flag)]
        except (ValueError, AttributeError, TypeError) as error:
            required = "a list of options, quoted as for a shell"
            raise self.refusal(argument, required, f"{given!r}: {error}") from None


class Flags(Record):
    """Flags, with absolute paths; `archs` is in the grammar of TORCH_CUDA_ARCH_LIST, and empty if none chooses them."""

    cxx: list[str]
    cuda: list[str]
    link: list[str]
    libraries: list[str]
    include_dirs: list[str]
    archs: str
    archives: list[str]  # files that become part of the library

    @property
    def directives(self) -> bytes:
        """What those that concern headers say, as lines of a source."""
        return directives_of([*self.cxx, *self.cuda])


def strings(given: Strings) -> tuple[str, ...]:
    """An argument that takes one string or several."""
    return (given,) if isinstance(given, str) else tuple(given or ())


def paths(given: Paths) -> tuple[str, ...]:
    """An argument that takes one path or several."""
    return tuple(os.fspath(each) for each in ((given,) if isinstance(given, (str, os.PathLike)) else given or ()))


def sort_flags(call: Call, cuda: bool) -> Flags:
    """Sort the flags of a call.

    Raises:
        SettingsError: a path in them does not exist, their quotes do not match, or no list can say the architectures.
    """
    named = [os.path.abspath(path.strip()) for path in paths(call.extra_include_paths)]  # noqa: PTH100
    folders = [folder for folder in named if is_folder(Path(folder))]
    if missing := sorted({*named} - {*folders}):  # torch gives them to the compiler, which says nothing
        _warn(f"{call.name}: extra_include_paths has no folder {', '.join(missing)}")
    cxx = _without_folders(call, "extra_cflags", folders)
    archs, for_nvcc = _without_archs(call, _without_folders(call, "extra_cuda_cflags", folders))
    link, libraries, archives = _link(call)
    always = LINKED | (LINKED_FOR_CUDA if cuda else set())
    libraries = [each for each in libraries if each not in always]
    return Flags(cxx, for_nvcc, link, libraries, list(dict.fromkeys(folders)), archs, archives)


def _warn(message: str) -> None:
    """Warn about the line that calls kernelwheel, whatever leads from there to here."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _without_folders(call: Call, argument: str, folders: list[str]) -> list[str]:
    """The words that name no folder of headers; those folders are added to `folders`."""
    rest, following = [], iter(call.words(argument))
    for word in following:
        if option := next((each for each in FOLDER_OPTIONS.split("|") if word.startswith(each)), None):
            named = word.removeprefix(option).removeprefix("=") or next(following, "")
            folders.append(_existing(call, "a flag for headers", named))
        else:
            rest.append(word)
    return rest


def _without_archs(call: Call, words: Sequence[str]) -> tuple[str, list[str]]:
    """The architectures that options for nvcc choose, which are a setting here, and the other options."""
    if not any("arch" in word or "code" in word for word in words):
        return "", [*words]
    from .project.arch_choice import chosen_by, from_flags  # imported only if needed, to keep a warm start fast

    rest, chosen, following = [], [], iter(words)
    for word in following:
        if chosen_by([word]):
            chosen.append(word if "=" in word else f"{word} {next(following, '')}")
        else:
            rest.append(word)
    try:
        return str(from_flags(chosen)), rest
    except ValueError as error:
        required = "architectures by -gencode arch=compute_NN,code=sm_NN or -arch=sm_NN"
        remedy = "name them in TORCH_CUDA_ARCH_LIST, without such options"
        raise call.refusal("extra_cuda_cflags", required, str(error), remedy) from None


def _link(call: Call) -> tuple[list[str], list[str], list[str]]:
    """Options for the linker, libraries by the names that follow `-l`, which come after the objects, and archives."""
    link: list[str] = []
    libraries: list[str] = []
    archives = []
    following = iter(call.words("extra_ldflags"))
    for word in following:
        path = Path(word).absolute()
        if word.startswith("-l"):
            libraries.append(word[2:] or next(following, ""))
        elif word.startswith("-L"):
            link.append("-L" + _existing(call, "extra_ldflags", word[2:] or next(following, "")))
        elif word.startswith("-") or not (path.suffix in (".a", ".o") or ".so" in path.suffixes):
            link.append(word)
        elif not is_file(path):
            raise call.refusal("extra_ldflags", "a library that exists", f"no file {path}")
        else:
            link.append(f"-L{path.parent}")
            libraries.append(f":{path.name}")
    for folder in (Path(option[2:]) for option in link if option.startswith("-L")):
        names = (each[1:] if each.startswith(":") else f"lib{each}.a" for each in libraries)
        archives += [str(folder / each) for each in names if each.endswith((".a", ".o")) and is_file(folder / each)]
    return link, libraries, sorted({*archives})


def _existing(call: Call, argument: str, folder: str) -> str:
    if not is_folder(Path(folder)):
        raise call.refusal(argument, "a folder that exists", f"no folder {folder!r}")
    return os.path.abspath(folder)  # noqa: PTH100  # as compilers do, links are not resolved
