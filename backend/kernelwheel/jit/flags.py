"""The flags of a call of `load`, sorted: folders, libraries and architectures are no flags here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..flags.linking import LINKED, LINKED_FOR_CUDA, LinkFlags
from ..flags.options import FOLDERS, PLAIN, without_device_linking
from ..flags.words import with_headers
from ..runtime.machine.files import is_folder
from ..runtime.record import Record
from .arguments import LoadArguments, Strings, absolute


class Flags(Record):
    """Flags in their order, with absolute paths; of files that are linked, of their copies (flags/linking.py)."""

    cxx: list[str]
    cuda: list[str]
    link: list[str]
    libraries: list[str]
    include_dirs: list[str]  # folders of headers that come before those in flags
    folders: list[str]  # all folders of headers
    archs: str  # in the grammar of TORCH_CUDA_ARCH_LIST; empty if no flag chooses them
    linked: list[str]  # files that become part of the library
    device_link: bool  # whether device code in several files is linked


def flags_of_call(arguments: LoadArguments, cuda: bool) -> Flags:
    """Sort the flags of a call.

    Raises:
        SettingsError: a path in them does not exist, their quotes do not match, or no list can say the architectures.
    """
    named = [absolute(path.strip()) for path in arguments.paths("extra_include_paths", arguments.extra_include_paths)]
    include_dirs = [folder for folder in named if is_folder(Path(folder))]  # as compilers leave out others
    cxx, of_cxx, plain = _with_folders(arguments, "extra_cflags", arguments.extra_cflags)
    for_nvcc, of_nvcc, plain_of_nvcc = _with_folders(arguments, "extra_cuda_cflags", arguments.extra_cuda_cflags)
    if plain and (plain == plain_of_nvcc or not cuda):  # the same as extra_include_paths, in any way of saying it
        include_dirs += plain
        cxx, for_nvcc = _without_plain_folders(cxx), _without_plain_folders(for_nvcc)
    archs, for_nvcc = _without_archs(arguments, for_nvcc)
    for_nvcc, asked = without_device_linking(for_nvcc)
    always = LINKED | (LINKED_FOR_CUDA if cuda else set())
    words = arguments.words("extra_ldflags", arguments.extra_ldflags)
    try:
        linked = LinkFlags(words, absolute, lambda folder: _existing(arguments, "extra_ldflags", folder), always)
    except FileNotFoundError as error:
        raise arguments.refusal("extra_ldflags", "a library that exists", f"no file {error}") from None
    include_dirs = list(dict.fromkeys(include_dirs))
    folders = list(dict.fromkeys([*include_dirs, *of_cxx, *of_nvcc]))
    linking = (linked.flags, linked.libraries)
    return Flags(cxx, for_nvcc, *linking, include_dirs, folders, archs, linked.files, cuda and bool(asked))


def _with_folders(arguments: LoadArguments, argument: str, given: Strings) -> tuple[list[str], list[str], list[str]]:
    """The flags of an argument with absolute paths, the folders in them, and those of them that a plain -I names."""
    folders, plain = [], []

    def place(option: str, path: str, own: bool) -> str:
        if option not in FOLDERS:  # a header, which compilers also look for in folders
            return absolute(path) if path.startswith("/") else path
        folders.append(_existing(arguments, argument, path))
        if own and option in PLAIN:
            plain.append(folders[-1])
        return folders[-1]

    return with_headers(arguments.words(argument, given), place), folders, plain


def _without_plain_folders(flags: list[str]) -> list[str]:
    return with_headers(flags, lambda option, path, own: None if own and option in PLAIN else path)


def _without_archs(arguments: LoadArguments, words: Sequence[str]) -> tuple[str, list[str]]:
    """The architectures that options for nvcc choose, which are a setting here, and the other options."""
    if not any("arch" in word or "code" in word for word in words):
        return "", [*words]
    from ..project.arch_choice import chosen_by, from_flags  # imported only if needed, to keep a warm start fast

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
        raise arguments.refusal("extra_cuda_cflags", required, str(error), remedy) from None


def _existing(arguments: LoadArguments, argument: str, folder: str) -> str:
    found = absolute(folder)
    if not folder or not is_folder(Path(found)):
        raise arguments.refusal(argument, "a folder that exists", f"no folder {folder!r}")
    return found
