"""The flags that torch.utils.cpp_extension takes, sorted: folders, libraries and architectures are no flags here."""

from __future__ import annotations

import os
import re
import shlex
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from .project.arch_choice import chosen_by, parse
from .project.extension import LINKED, LINKED_FOR_CUDA
from .project.header_names import FOLDER_OPTIONS
from .runtime.errors import SettingsError
from .runtime.files import is_file, is_folder

_FOLDER = re.compile(rf"({FOLDER_OPTIONS})=?(.*)")


class Flags(NamedTuple):
    """Flags, with absolute paths; `archs` is in the grammar of TORCH_CUDA_ARCH_LIST, and empty if none chooses them."""

    cxx: tuple[str, ...]
    cuda: tuple[str, ...]
    link: tuple[str, ...]
    libraries: tuple[str, ...]
    include_dirs: tuple[str, ...]
    archs: str

    @property
    def directives(self) -> str:
        """What those that concern headers say, as lines of a source."""
        flags = (*self.cxx, *self.cuda)
        defines = [f"#define {flag[2:].replace('=', ' ', 1)}" for flag in flags if flag.startswith("-D")]
        first = [f'#include "{header}"' for flag, header in pairwise(flags) if flag in ("-include", "--pre-include")]
        return "\n".join([*defines, *first])


def translate(
    name: str,
    cflags: Sequence[str],
    cuda_cflags: Sequence[str],
    ldflags: Sequence[str],
    include_paths: Sequence[str | os.PathLike[str]],
    cuda: bool,
) -> Flags:
    """Sort out the flags of a call; each item is what a shell would split.

    Raises:
        SettingsError: a path in them does not exist, or their quotes do not match.
    """
    named = [os.path.abspath(str(path).strip()) for path in include_paths]  # noqa: PTH100
    folders = [folder for folder in named if is_folder(Path(folder))]
    if missing := sorted({*named} - {*folders}):
        warnings.warn(f"{name}: extra_include_paths has no folder {', '.join(missing)}", stacklevel=5)
    cxx = _without_folders(name, _words(name, "extra_cflags", cflags), folders)
    for_nvcc = _without_folders(name, _words(name, "extra_cuda_cflags", cuda_cflags), folders)
    archs, for_nvcc = _without_archs(for_nvcc)
    link, libraries = _link(name, _words(name, "extra_ldflags", ldflags))
    always = LINKED | (LINKED_FOR_CUDA if cuda else set())
    return Flags(
        tuple(cxx),
        tuple(for_nvcc),
        tuple(link),
        tuple(each for each in libraries if each not in always),
        tuple(dict.fromkeys(folders)),
        archs,
    )


def _words(name: str, argument: str, flags: Sequence[str]) -> list[str]:
    try:
        return [word for flag in flags for word in shlex.split(flag)]
    except (ValueError, AttributeError, TypeError) as error:
        raise refusal(name, argument, "a list of options, quoted as for a shell", f"{flags!r}: {error}") from None


def refusal(name: str, argument: str, required: str, found: str, remedy: str = "") -> SettingsError:
    """The error for an argument of a call."""
    remedies = [remedy or f"correct {argument}"]
    return SettingsError(f"{name} cannot be compiled: {argument}", required=required, found=found, remedies=remedies)


def _without_folders(name: str, words: Sequence[str], folders: list[str]) -> list[str]:
    """The words that name no folder of headers; those folders are added to `folders`."""
    rest, following = [], iter(words)
    for word in following:
        if match := _FOLDER.fullmatch(word):
            folders.append(_existing(name, "a flag for headers", match[2] or next(following, "")))
        else:
            rest.append(word)
    return rest


def _without_archs(words: Sequence[str]) -> tuple[str, list[str]]:
    """The architectures that options for nvcc choose, which are a setting here, and the other options."""
    rest, chosen, following = [], [], iter(words)
    for word in following:
        if chosen_by([word]):
            value = word.partition("=")[2] or next(following, "")
            for kind, major, minor in re.findall(r"(sm|compute)_(\d+)(\d[af]?)", value.rpartition("code=")[2]):
                chosen.append(f"{major}.{minor}" + ("+PTX" if kind == "compute" else ""))
        else:
            rest.append(word)
    return str(parse(";".join(chosen), "extra_cuda_cflags")) if chosen else "", rest


def _link(name: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options for the linker, and libraries by the names that follow `-l`, which come after the objects."""
    link: list[str] = []
    libraries = []
    following = iter(words)
    for word in following:
        if word.startswith("-l"):
            libraries.append(word[2:] or next(following, ""))
        elif word.startswith("-L"):
            link.append("-L" + _existing(name, "extra_ldflags", word[2:] or next(following, "")))
        elif not word.startswith("-") and re.search(r"\.(a|o|so(\.\d+)*)$", word):
            path = Path(word).absolute()
            if not is_file(path):
                raise refusal(name, "extra_ldflags", "a library that exists", f"no file {path}")
            link.append(f"-L{path.parent}")
            libraries.append(f":{path.name}")
        else:
            link.append(word)
    return link, libraries


def _existing(name: str, argument: str, folder: str) -> str:
    if not is_folder(Path(folder)):
        raise refusal(name, argument, "a folder that exists", f"no folder {folder!r}")
    return os.path.abspath(folder)  # noqa: PTH100  # as compilers do, links are not resolved
