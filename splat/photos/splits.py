"""The lists of a transforms.json that say what each picture is for: Nerfstudio's train, val and test_filenames."""

from __future__ import annotations

import posixpath
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ..scene.names import listed, name_end

_TRAIN: Final = "train_filenames"
SPLITS: Final = (_TRAIN, "val_filenames", "test_filenames")


def uses_of(path: Path, values: Mapping[str, Any], names: Sequence[str]) -> dict[str, bool | None]:
    """Which of the frames' pictures are used, and whether each is held out; None if the file's lists do not say.

    Pictures in none of the lists are left out, as Nerfstudio does, if there is a list of those to train on. Warnings
    name these, and what lists name that no frame has. Lists of which no frame has anything are not used.
    """
    frames = _Frames(names)
    uses: dict[str, bool | None] = {}
    missing: list[str] = []
    lists = [split for split in SPLITS if isinstance(values.get(split), list)]
    for split in lists:
        for name in values[split]:
            found = frames.find(name) if isinstance(name, str) else None
            if found is None:
                missing.append(str(name))
            else:
                uses[found] = split != _TRAIN or uses.get(found) is True
    if missing:
        warnings.warn(
            f"{path}: {' and '.join(lists)} name {len(missing)} pictures that no frame has: "
            f"{listed([name_end(name) for name in missing])}",
            stacklevel=5,
        )
    if not uses:
        return dict.fromkeys(names)
    others = [name for name in dict.fromkeys(names) if name not in uses]
    if _TRAIN not in lists:
        return uses | dict.fromkeys(others, False)
    if others:
        warnings.warn(
            f"{path}: {len(others)} of its {len(uses) + len(others)} pictures are in none of {', '.join(SPLITS)} and "
            f"left out: {listed([name_end(name) for name in others])}; take the lists away to use all",
            stacklevel=5,
        )
    return uses


class _Frames:
    """The names of the frames' pictures, found by others for the same: the end of a path, or one without an ending."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[tuple[str, ...], str] = {}
        self._alike: dict[str, tuple[str, ...] | None] = {}
        for name in dict.fromkeys(names):
            parts = _parts(name)
            self._names.setdefault(parts, name)
            stem = _stem(parts)
            self._alike[stem] = parts if self._alike.get(stem, parts) == parts else None

    def find(self, name: str) -> str | None:
        """The name in a frame, if there is one."""
        parts = _parts(name)
        if parts in self._names:
            return self._names[parts]
        alike = self._alike.get(_stem(parts))
        if alike is None:
            return None
        theirs, ours = ([*each[:-1], _stem(each)] for each in (parts, alike))
        count = min(len(theirs), len(ours))
        endings = {PurePosixPath(each[-1]).suffix for each in (parts, alike)} - {""}
        return self._names[alike] if theirs[-count:] == ours[-count:] and len(endings) < 2 else None


def _parts(name: str) -> tuple[str, ...]:
    return PurePosixPath(posixpath.normpath(name.replace("\\", "/"))).parts or (name,)


def _stem(parts: tuple[str, ...]) -> str:
    return PurePosixPath(parts[-1]).stem
