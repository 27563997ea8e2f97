"""Flags for the linker: libraries, archives and objects in their places among the options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..runtime.machine.files import is_file
from ..source_language import SOURCES
from .options import OTHERS_OF_LINKER, READ_BY_LINKER
from .words import Word, join, split, valued

# Where the copies of files that become part of the library are, in the folder that is compiled.
LINKED_FILES = "linked"
# The libraries that every extension is linked with, and every one that uses CUDA: torch's, and the static runtime.
LINKED = {"torch", "torch_cpu", "c10", "torch_python"}
LINKED_FOR_CUDA = {"torch_cuda", "c10_cuda", "cudart", "cudart_static"}
# ld's options that choose which libraries `-l` stands for.
_STATIC = ("-Bstatic", "-dn", "-non_shared", "-static")
_SHARED = ("-Bdynamic", "-dy", "-call_shared")
_OBJECTS = (".a", ".o", ".lo")


class LinkFlags:
    """The flags of a call for the linker, in their order.

    Attributes:
        flags: the options. Files that become part of the library are named by where their copies are.
        libraries: those by the names that follow `-l` in the flags.
        files: the files that become part of the library, absolute.
    """

    def __init__(
        self, given: Sequence[str], absolute: Callable[[str], str], folder: Callable[[str], str], always: set[str]
    ) -> None:
        """Sort flags.

        Args:
            absolute: gives the absolute path of a file.
            folder: gives the absolute path of a folder, or raises an error if it does not exist.
            always: libraries that are linked in any case, and left out here.

        Raises:
            FileNotFoundError: a library does not exist; its path.
        """
        self.libraries: list[str] = []
        self.files: list[str] = []
        self._absolute, self._always, self._static = absolute, always, False
        words = [
            word._replace(text=f"-L{folder(word.text[2:])}") if word.text.startswith("-L") else word
            for word in _with_values(split(given))
        ]
        self._folders = [word.text[2:] for word in words if word.text.startswith("-L")]
        values = {each.end for each in valued(words, OTHERS_OF_LINKER, linker=True) if each.end != each.at}
        placed = ((word, self._placed(word.text, index in values)) for index, word in enumerate(words))
        self.flags = join(word._replace(text=text) for word, texts in placed for text in texts)

    def _placed(self, text: str, is_value: bool) -> list[str]:
        """What stands for a word, which may be the value of an option."""
        option, _, value = text.partition("=")
        self._static = (self._static or text in _STATIC) and text not in _SHARED
        if text.startswith("-l"):
            return self._library(text[2:])
        if option in READ_BY_LINKER and is_file(Path(value)):
            return [f"{option}={self._copy(self._absolute(value))}"]
        if text.startswith("-") or is_value or not ("/" in text or _is_library(text)):
            return [text]
        path = self._absolute(text)
        if not is_file(Path(path)):
            if _is_library(text):
                raise FileNotFoundError(path)
            return [text]
        if not _is_named_as_shared(path):
            return [self._copy(path)]
        folder, _, file = path.rpartition("/")  # what is loaded is the one that is found on the machine that runs it
        self.libraries.append(f":{file}")
        return [f"-L{folder}", f"-l:{file}"]

    def _library(self, name: str) -> list[str]:
        if name in self._always:
            return []
        if archive := _archive(name, self._folders, self._static):
            return [self._copy(archive)]
        if name not in self.libraries:
            self.libraries.append(name)
        return [f"-l{name}"]

    def _copy(self, path: str) -> str:
        if path not in self.files:
            self.files.append(path)
        return f"{SOURCES}/{LINKED_FILES}/{self.files.index(path)}/{Path(path).name}"


def _with_values(words: Sequence[Word]) -> list[Word]:
    """The words, in which the value of `-l` and `-L` is in the same one, and an equals sign follows long options."""
    changed: dict[int, Word | None] = dict(enumerate(words))
    for option, value, at, end in valued(words, ("-l", "-L", *READ_BY_LINKER), linker=True):
        if end != at:
            changed[end] = None
            changed[at] = words[at]._replace(text=option + "=" * option.startswith("--") + value)
    return [word for word in changed.values() if word]


def _archive(library: str, folders: Sequence[str], static: bool) -> str | None:
    """The archive or object that the linker takes for `-l`, if it is in one of these folders."""
    names = [library[1:]] if library.startswith(":") else [f"lib{library}.so", f"lib{library}.a"][static:]
    found = (f"{folder}/{name}" for folder in folders for name in names if is_file(Path(folder, name)))
    first = next(found, None)
    return None if first is None or _is_named_as_shared(first) else first


def _is_named_as_shared(path: str) -> bool:
    """By its name alone: a linker script of that name, too, says for itself what is linked."""
    return ".so" in Path(path).suffixes


def _is_library(path: str) -> bool:
    return path.endswith(_OBJECTS) or _is_named_as_shared(path)
