"""Finding the file of a folder that a name from another machine or system stands for."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ..scene.gaussians import SceneError
from ..scene.names import name_end, quoted
from .capture import CaptureFolder, normal
from .name_table import NameTable, leads_upwards, parts_of, slashed
from .other_layouts import shell_word

_LONGEST_ADVICE: Final = 300
_MOST_DEEPER: Final = 2
"""Levels below a folder in which its cameras are looked for; see `read_capture`."""


def find_files(
    source: Path, folder: CaptureFolder, names: Mapping[str, str], endings: Sequence[str] = ("",)
) -> dict[str, Path]:
    """The file of each name, with one of these endings; `names` has what messages call each. It need not exist.

    Where there is none, and exactly one file of the folder has such a name but for its case, the form of its accents,
    its encoding, the kind of its slashes, folders in front of one of the two, or the format of a picture, it is that
    one; a warning says so. That holds for a name that leads upwards, too, if the folder is one that its user named.

    Raises SceneError if a name could be none of the folder's, a link leads out of it, or two names are one file's.
    """
    found: dict[str, Path] = {}
    lost: list[str] = []
    for name, what in names.items():
        path = _exact(folder, name, what, endings)
        if path is not None:
            found[name] = path
        if path is None or not path.exists():
            lost.append(name)
    if not lost:
        return found
    if not folder.named:
        _check_upwards(folder, lost, names)
    guesses = _guesses(folder, lost, endings, {*found.values()} - {found[name] for name in lost if name in found})
    _check_single(source, folder, guesses)
    for name in lost:
        if name in guesses:
            found[name] = folder.file(os.path.relpath(guesses[name], folder.path), names[name])
        elif name not in found:
            found[name] = _missing(folder, name, names, bool(guesses))
    if guesses:
        name, path = next(iter(guesses.items()))
        warnings.warn(
            f"{source}: {len(guesses)} of its {len(names)} names are not quite those of the files, which are taken: "
            f"{quoted(os.path.relpath(path, folder.path))} for {name_end(name)}",
            stacklevel=4,
        )
    return found


def _exact(folder: CaptureFolder, name: str, what: str, endings: Sequence[str]) -> Path | None:
    """The file of exactly this name; None if it leads out of the folder."""
    if folder.inside(name) is None:
        return None
    path = folder.file(name, what)
    # The scenes of the first NeRFs name their pictures without an ending.
    if path.exists() or (path.suffix and path.suffix.lower() in endings):
        return path
    return next((other for ending in endings[1:] if (other := folder.file(name + ending, what)).exists()), path)


def _guesses(folder: CaptureFolder, names: Sequence[str], endings: Sequence[str], taken: set[Path]) -> dict[str, Path]:
    """The only file that each name may mean and no other has: one of the folder, else of where names may lead."""
    guesses: dict[str, Path] = {}
    for place in dict.fromkeys((folder.path, folder.reach)):
        table = NameTable(place)
        for name in names:
            guess = None if name in guesses else table.only(name, endings)
            if guess is not None and guess not in taken:
                guesses[name] = guess
    return guesses


def _check_upwards(folder: CaptureFolder, lost: Sequence[str], names: Mapping[str, str]) -> None:
    """SceneError if one of the lost names leads out of the folder, which nobody chose for it."""
    for name in lost:
        if leads_upwards(name) and folder.inside(slashed(name)) is None:
            raise _outside(folder, name, names)


def _check_single(source: Path, folder: CaptureFolder, guesses: Mapping[str, Path]) -> None:
    for path, count in Counter(guesses.values()).items():
        if count > 1:
            twins = [name_end(name) for name, guess in guesses.items() if guess == path]
            raise SceneError(
                f"{source}: a file for each name is required, found only "
                f"{quoted(os.path.relpath(path, folder.path))} for {count} of them, like {twins[0]} and {twins[1]}"
                + (f"; name the folder that has all of them: {folder.option}" if folder.option else "")
            )


def _missing(folder: CaptureFolder, name: str, names: Mapping[str, str], among_others: bool) -> Path:
    """Where the file of a name would be; among others that were found, it is no worse than another missing one."""
    inside = "/".join(parts_of(name))
    if not among_others or folder.inside(inside) is None:
        raise _outside(folder, name, names)
    return folder.file(inside, names[name])


def _outside(folder: CaptureFolder, name: str, names: Mapping[str, str]) -> SceneError:
    """The error about a name that leads out of the folder."""
    return SceneError(
        f"{names[name]}: the name of a file inside {folder.reach} is required, found {name_end(name)}"
        + (_advice(folder, names) if leads_upwards(name) else "")
    )


def _advice(folder: CaptureFolder, names: Iterable[str]) -> str:
    """What to do about names that lead upwards, found without a look at what is there."""
    inner = normal(folder.path)
    upwards = [normal(inner / slashed(name)).parent for name in names if leads_upwards(name)]
    place = os.path.commonpath(upwards)
    both = Path(os.path.commonpath([place, inner]))
    remedies = []
    if both != both.parent and len(inner.relative_to(both).parts) <= _MOST_DEEPER:
        remedies.append(f"splat fit {shell_word(both)}, which has both")
    if folder.option:
        remedies.append(f"add {folder.option} {shell_word(place)}")
    advice = f"; to fix: {', or '.join(remedies)}" if remedies else ""
    return advice if advice.isprintable() and len(advice) <= _LONGEST_ADVICE else ""
