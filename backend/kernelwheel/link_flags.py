"""The flags of a call of `load` for the linker: libraries, archives and objects in their places among the options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .flag_words import Word, join, split
from .runtime.files import is_file
from .source_language import SOURCES

# Where the copies of files that become part of the library are, in the folder that is compiled.
LINKED_FILES = "linked"
# ld's options that choose which libraries `-l` stands for, and those that take a file.
_STATIC = ("-Bstatic", "-dn", "-non_shared", "-static")
_SHARED = ("-Bdynamic", "-dy", "-call_shared")
_READING = ("--version-script", "--dynamic-list", "--retain-symbols-file", "--just-symbols", "--script")
# What the next word is of, other than a file that is linked.
_VALUED = ("-o", "-Map", "-rpath", "-rpath-link", "-soname", "-h", "-u", "-z", "-e", "-m")
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
        before = ["", *(word.text for word in words)]
        placed = ((word, self._placed(word.text, last)) for word, last in zip(words, before, strict=False))
        self.flags = join(word._replace(text=text) for word, texts in placed for text in texts)

    def _placed(self, text: str, before: str) -> list[str]:
        """What stands for a word; `before` is the last one."""
        option, _, value = text.partition("=")
        self._static = (self._static or text in _STATIC) and text not in _SHARED
        if text.startswith("-l"):
            return self._library(text[2:])
        if option in _READING and is_file(Path(value)):
            return [f"{option}={self._copy(self._absolute(value))}"]
        if text.startswith("-") or before in _VALUED or not ("/" in text or _is_library(text)):
            return [text]
        path = self._absolute(text)
        if not is_file(Path(path)):
            if _is_library(text):
                raise FileNotFoundError(path)
            return [text]
        if not _is_shared(path):
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


def library_folders(flags: Sequence[str]) -> list[str]:
    """The options that name folders of libraries."""
    return [word.text for word in _with_values(split(flags)) if word.text.startswith("-L")]


def _with_values(words: Sequence[Word]) -> Iterator[Word]:
    """The words, in which the value of `-l` and `-L` is in the same one, and an equals sign follows long options."""
    following = iter(words)
    for word in following:
        if word.text in ("-l", "-L", *_READING) and (value := next(following, None)):
            yield word._replace(text=word.text + ("" if word.text in ("-l", "-L") else "=") + value.text)
        else:
            yield word


def _archive(library: str, folders: Sequence[str], static: bool) -> str | None:
    """The archive or object that the linker takes for `-l`, if it is in one of these folders."""
    names = [library[1:]] if library.startswith(":") else [f"lib{library}.so", f"lib{library}.a"][static:]
    found = (f"{folder}/{name}" for folder in folders for name in names if is_file(Path(folder, name)))
    first = next(found, None)
    return None if first is None or _is_shared(first) else first


def _is_shared(path: str) -> bool:
    return ".so" in Path(path).suffixes


def _is_library(path: str) -> bool:
    return path.endswith(_OBJECTS) or _is_shared(path)
