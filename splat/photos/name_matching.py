"""Finding the file of a folder that a name from another machine or system stands for."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from ..scene.gaussians import SceneError
from ..scene.names import name_end, quoted
from .capture import CaptureFolder

_CODE_PAGES: Final = ("cp1252", "cp1250", "cp1251", "cp437", "cp850", "cp932", "cp936", "cp949", "cp950")
"""Of names that are not UTF-8."""
_MOST_FILES: Final = 100_000
"""Of a folder, that are looked at."""
_Parts = tuple[str, ...]


def find_files(
    source: Path, folder: CaptureFolder, names: Mapping[str, str], endings: Sequence[str] = ("",)
) -> dict[str, Path]:
    """The file of each name, with one of these endings; `names` has what messages call each. It need not exist.

    Where there is none, and exactly one file of the folder has such a name but for its case, the form of its accents,
    its encoding, the kind of its slashes, or folders in front of one of the two, it is that one; a warning says so.

    Raises SceneError if a name could be none of the folder's, a link leads out of it, or two names are one file's.
    """
    found: dict[str, Path] = {}
    lost: list[str] = []
    for name, what in names.items():
        if _is_plain(name):
            found[name] = _exact(folder, name, what, endings)
        if name not in found or not found[name].exists():
            lost.append(name)
    guesses = _guesses(folder.path, lost, endings) if lost else {}
    taken = {path for name, path in found.items() if name not in lost}
    guesses = {name: path for name, path in guesses.items() if folder.path / path not in taken}
    for path, count in Counter(guesses.values()).items():
        if count > 1:
            twins = [name_end(name) for name, guess in guesses.items() if guess == path]
            raise SceneError(
                f"{source}: a file for each name is required, found only {quoted(path)} for {count} of them, like "
                f"{twins[0]} and {twins[1]}"
            )
    for name in lost:
        if name in guesses:
            found[name] = folder.file(guesses[name], names[name])
        elif name not in found:
            # A missing one among others that were found is no worse than another missing one.
            inside = "/".join(_parts(name)) if guesses and ".." not in name else name
            as_it_is = inside == name or (folder.path / inside).exists()
            found[name] = folder.file(name if as_it_is else inside, names[name])
    if guesses:
        name, path = next(iter(guesses.items()))
        warnings.warn(
            f"{source}: {len(guesses)} of its {len(names)} names are not quite those of the files, which are taken: "
            f"{quoted(path)} for {name_end(name)}",
            stacklevel=4,
        )
    return found


def _is_plain(name: str) -> bool:
    return not name.startswith("/") and "\\" not in name and not re.match("[A-Za-z]:", name)


def _exact(folder: CaptureFolder, name: str, what: str, endings: Sequence[str]) -> Path:
    path = folder.file(name, what)
    # The scenes of the first NeRFs name their pictures without an ending.
    if path.exists() or (path.suffix and path.suffix.lower() in endings):
        return path
    return next((other for ending in endings[1:] if (other := folder.file(name + ending, what)).exists()), path)


def _guesses(folder: Path, names: Iterable[str], endings: Sequence[str]) -> dict[str, str]:
    """The only file that each name may mean, as a path in the folder."""
    files: dict[str, dict[_Parts, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in islice(_files(folder), _MOST_FILES):
        for key in _keys(path):
            files[key[-1]][key].append(path)
    guesses = {}
    for name in names:
        shared: dict[str, int] = {}
        for key in {key for ending in endings for key in _keys(name + ending)}:
            for other, paths in files.get(key[-1], {}).items():
                both = min(len(key), len(other))
                if key[-both:] == other[-both:]:
                    shared |= dict.fromkeys(paths, both)
        shared = {path: parts for path, parts in shared.items() if (folder / path).is_file()}
        most = [path for path, parts in shared.items() if parts == max(shared.values())]
        if len(most) == 1:
            guesses[name] = most[0]
    return guesses


def _files(folder: Path) -> Iterator[str]:
    """The files below a folder, by their paths in it; no link to a folder is followed, and no hidden one."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        within = Path(place).relative_to(folder)
        yield from (str(within / name) for name in sorted(names) if name[0] != ".")


def _keys(name: str) -> set[_Parts]:
    """What names have in common that mean one file; none of a name that leads upwards."""
    keys = {tuple(unicodedata.normalize("NFC", part).casefold() for part in _parts(text)) for text in _readings(name)}
    return {key for key in keys if key and ".." not in key}


def _parts(name: str) -> list[str]:
    parts = re.sub("^[A-Za-z]:", "", name).replace("\\", "/").split("/")
    return [part for part in parts if part not in ("", ".")]


def _readings(name: str) -> set[str]:
    """The name, and what its bytes are in each code page that has all of them; they may look like UTF-8."""
    readings = {name}
    for page in _CODE_PAGES if not name.isascii() else ():
        with contextlib.suppress(UnicodeError):  # its bytes are not this page's, or it was no file's name
            readings.add(os.fsencode(name).decode(page))
    return readings
