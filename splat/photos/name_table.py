"""A folder's files by the ends of their paths, folded once, so that a name is looked up and compared with none."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from .capture import LONGEST_NAME
from .other_layouts import PICTURES

_CODE_PAGES: Final = ("cp1252", "cp1250", "cp1251", "cp437", "cp850", "cp932", "cp936", "cp949", "cp950")
"""Of names that are not UTF-8."""
_MOST_FILES: Final = 100_000
"""Of a folder, that are looked at."""
_MOST_PARTS: Final = 10
"""Of a path, from its end, that are compared."""
_MASKS: Final = "masks"
"""The folder of pictures that only a name with this folder means: most have a photograph's name."""
_Parts = tuple[str, ...]


class NameTable:
    """The files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._names, self._pictures = _Ends(), _Ends()
        for path in islice(_files(folder), _MOST_FILES):
            for key in _keys(os.path.relpath(path, folder)):
                self._names.add(key, path)
                if stem := _without_format(key):
                    self._pictures.add(stem, path)

    def only(self, name: str, endings: Sequence[str]) -> Path | None:
        """The only file that a name with one of these endings may mean; None if there is none, or several.

        If none has the name, a picture of another format may: programs that remove backgrounds write PNG.
        """
        keys = {key for ending in endings for key in _keys(name + ending)}
        found = self._names.nearest(keys) or self._pictures.nearest(filter(None, map(_without_format, keys)))
        return found.pop() if len(found) == 1 else None


class _Ends:
    """Files by what their paths end in; None stands for several."""

    def __init__(self) -> None:
        self._ends: dict[_Parts, Path | None] = {}
        self._whole: dict[_Parts, Path | None] = {}

    def add(self, key: _Parts, path: Path) -> None:
        last = key[:-1].index(_MASKS) if _MASKS in key[:-1] else len(key) - 1
        for start in range(last + 1):
            end = key[start:]
            self._ends[end] = path if self._ends.get(end, path) == path else None
        self._whole[key] = path if self._whole.get(key, path) == path else None

    def nearest(self, keys: Iterable[_Parts]) -> set[Path | None]:
        """The files with which one of these keys has most in common: all of it, or all of the file's path."""
        most, found = 0, set[Path | None]()
        for key in keys:
            path, parts = self._longest(key)
            if parts > most:
                most, found = parts, {path}
            elif parts == most > 0:
                found.add(path)
        return found

    def _longest(self, key: _Parts) -> tuple[Path | None, int]:
        if key in self._ends:
            return self._ends[key], len(key)
        ends = (key[start:] for start in range(1, len(key)))
        end = next((end for end in ends if end in self._whole), ())
        return self._whole.get(end), len(end)


def slashed(name: str) -> str:
    """A name of any system, without its drive, with this system's slashes, and without needless parts."""
    return posixpath.normpath(re.sub("^[A-Za-z]:", "", name).replace("\\", "/"))


def leads_upwards(name: str) -> bool:
    """Whether a name leads out of the folder that it is relative to."""
    return slashed(name).split("/", 1)[0] == ".."


def parts_of(name: str) -> list[str]:
    """The folders of a name, and the file's, without those that lead to a drive or upwards."""
    return [part for part in slashed(name).split("/") if part not in ("", ".", "..")]


def _keys(name: str) -> set[_Parts]:
    """What names have in common that mean one file."""
    if len(name) > LONGEST_NAME:
        return set()
    readings = (parts_of(text)[-_MOST_PARTS:] for text in _readings(name))
    return {tuple(unicodedata.normalize("NFC", part).casefold() for part in parts) for parts in readings if parts}


def _readings(name: str) -> set[str]:
    """The name, and what its bytes are in each code page that has all of them; they may look like UTF-8."""
    readings = {name}
    for page in _CODE_PAGES if not name.isascii() else ():
        with contextlib.suppress(UnicodeError):  # its bytes are not this page's, or it was no file's name
            readings.add(os.fsencode(name).decode(page))
    return readings


def _without_format(key: _Parts) -> _Parts:
    """The key of a picture without its ending; an empty one if it has none."""
    stem, dot, ending = key[-1].rpartition(".")
    return (*key[:-1], stem) if stem and dot + ending in PICTURES else ()


def _files(folder: Path) -> Iterator[Path]:
    """The regular files below a folder, in order; no link to a folder is followed, and no hidden one."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(place, name) for name in sorted(names) if name[0] != ".")
        yield from (path for path in paths if path.is_file())
