"""The arguments of a call of `load`, and its flags, sorted: folders, libraries and architectures are no flags here."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .flag_words import FOLDERS, PLAIN, directives_of, with_headers
from .link_flags import LinkFlags
from .runtime.errors import SettingsError
from .runtime.files import is_file, is_folder
from .runtime.record import Record
from .source_language import LINKED, LINKED_FOR_CUDA

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
        for argument in ("build_directory", "extra_include_paths"):
            call.paths(argument, getattr(call, argument))
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
            given = (given,) if isinstance(given, str) else given
            return list(_with_files([word for flag in given for word in split(flag)]))
        except (ValueError, AttributeError, TypeError) as error:
            required = "a list of options, quoted as for a shell"
            raise self.refusal(argument, required, f"{given!r}: {error}") from None

    def texts(self, argument: str, given: Strings) -> tuple[str, ...]:
        """The texts of an argument that takes one or several."""
        several = (given,) if isinstance(given, str) else given or ()
        if not isinstance(several, Sequence) or not all(isinstance(each, str) for each in several):
            raise self.refusal(argument, "a string, or a list of strings", repr(given))
        return tuple(several)

    def paths(self, argument: str, given: Paths) -> tuple[str, ...]:
        """The paths of an argument that takes one or several."""
        try:
            several = (given,) if isinstance(given, (str, os.PathLike)) else () if given is None else given
            found = tuple(os.fspath(each) for each in several)
            if any("\0" in each for each in found):
                raise ValueError("embedded null character")
        except (TypeError, ValueError) as error:
            required = "a path, or a list of paths, each a string or an os.PathLike of one"
            raise self.refusal(argument, required, f"{given!r}: {error}") from None
        return found


class Flags(Record):
    """Flags in their order, with absolute paths; where files are linked, with those of their copies (link_flags.py)."""

    cxx: list[str]
    cuda: list[str]
    link: list[str]
    libraries: list[str]
    include_dirs: list[str]  # folders of headers that come before those in flags
    folders: list[str]  # all folders of headers
    archs: str  # in the grammar of TORCH_CUDA_ARCH_LIST; empty if no flag chooses them
    linked: list[str]  # files that become part of the library

    @property
    def directives(self) -> bytes:
        """What those that concern headers say, as lines of a source."""
        return directives_of([*self.cxx, *self.cuda])


def absolute(path: str) -> str:
    """A path from the root, with links, as compilers see it; `..` after a link leads to where the link leads."""
    whole = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
    short = os.path.normpath(whole)
    if ".." in Path(path).parts and os.path.realpath(whole) != os.path.realpath(short):
        return os.path.realpath(whole)
    return short


def sort_flags(call: Call, cuda: bool) -> Flags:
    """Sort the flags of a call.

    Raises:
        SettingsError: a path in them does not exist, their quotes do not match, or no list can say the architectures.
    """
    named = [absolute(path.strip()) for path in call.paths("extra_include_paths", call.extra_include_paths)]
    include_dirs = [folder for folder in named if is_folder(Path(folder))]
    if missing := sorted({*named} - {*include_dirs}):  # torch gives them to the compiler, which says nothing
        _warn(f"{call.name}: extra_include_paths has no folder {', '.join(missing)}")
    cxx, of_cxx, plain = _with_folders(call, "extra_cflags")
    for_nvcc, of_nvcc, plain_of_nvcc = _with_folders(call, "extra_cuda_cflags")
    if plain and (plain == plain_of_nvcc or not cuda):  # the same as extra_include_paths, in any way of saying it
        include_dirs += plain
        cxx, for_nvcc = _without_plain_folders(cxx), _without_plain_folders(for_nvcc)
    archs, for_nvcc = _without_archs(call, for_nvcc)
    always = LINKED | (LINKED_FOR_CUDA if cuda else set())
    words = call.words("extra_ldflags")
    try:
        linked = LinkFlags(words, absolute, lambda folder: _existing(call, "extra_ldflags", folder), always)
    except FileNotFoundError as error:
        raise call.refusal("extra_ldflags", "a library that exists", f"no file {error}") from None
    include_dirs = list(dict.fromkeys(include_dirs))
    folders = list(dict.fromkeys([*include_dirs, *of_cxx, *of_nvcc]))
    return Flags(cxx, for_nvcc, linked.flags, linked.libraries, include_dirs, folders, archs, linked.files)


def _warn(message: str) -> None:
    """Warn about the line that calls kernelwheel, whatever leads from there to here."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _with_files(words: Iterable[str], within: tuple[str, ...] = ()) -> Iterator[str]:
    """The words, with those of a file of options in its place: what is in it counts, wherever it is."""
    from shlex import split  # imported only if needed, to keep a warm start fast

    following = iter(words)
    for word in following:
        option, equals, value = word.partition("=")
        of_nvcc = option in ("-optf", "--options-file")
        name = (value if equals else next(following, "")) if of_nvcc else word[1:] if word.startswith("@") else ""
        file = absolute(name)
        if name and file not in within and is_file(Path(file)):
            yield from _with_files(split(Path(file).read_text(encoding="utf-8")), (*within, file))
        else:
            yield from (word, name) if of_nvcc and not equals else (word,)


def _with_folders(call: Call, argument: str) -> tuple[list[str], list[str], list[str]]:
    """The flags of an argument with absolute paths, the folders in them, and those of them that a plain -I names."""
    folders, plain = [], []

    def place(option: str, path: str, own: bool) -> str:
        if option not in FOLDERS:  # a header, which compilers also look for in folders
            return absolute(path) if path.startswith("/") else path
        folders.append(_existing(call, argument, path))
        if own and option in PLAIN:
            plain.append(folders[-1])
        return folders[-1]

    return with_headers(call.words(argument), place), folders, plain


def _without_plain_folders(flags: list[str]) -> list[str]:
    return with_headers(flags, lambda option, path, own: None if own and option in PLAIN else path)


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


def _existing(call: Call, argument: str, folder: str) -> str:
    found = absolute(folder)
    if not folder or not is_folder(Path(found)):
        raise call.refusal(argument, "a folder that exists", f"no folder {folder!r}")
    return found
