"""The pictures that are held out of a fit, to measure the scene by."""

from __future__ import annotations

import hashlib
import warnings
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..scene.file_input import bytes_left, scene_file
from ..scene.gaussians import SceneError
from ..scene.names import listed
from .views import Views

EVERY: Final = 8
"""One picture in this many is held out, if there are that many and nothing else says which: what papers do."""
_MOST_BYTES: Final = 2**24
_SAMPLE: Final = 1000
"""Numbers of a picture that are compared before all of them are."""


@dataclass(frozen=True)
class HoldOut:
    """What says which pictures are held out."""

    every: int | None = None
    """One in this many, from the first one on; 0: none. None: whoever took them says, or one in EVERY."""
    names: Path | None = None
    """A file of the pictures' names, a line each."""

    def choose(self, views: Views) -> list[int]:
        """The numbers of the pictures; none if all are fitted to.

        Raises SceneError if no picture is left for one of the two uses, OSError if the file cannot be opened.
        """
        if self.names is not None:
            names = [views.name(view) for view in range(len(views))]
            return _checked(_named(self.names, names), same_pictures(views), views, f"{self.names}")
        if self.every is None and any(views.held_out):
            marked = [view for view, held_out in enumerate(views.held_out) if held_out]
            return _checked(marked, same_pictures(views), views, "the capture")
        every = EVERY if self.every is None else self.every
        if every == 0 or (self.every is None and len(views) < every):
            return []
        alike = same_pictures(views)
        different = sorted({min(group) for group in alike.values()} | {*range(len(views))} - {*alike})
        return _checked(different[::every], alike, views, f"--hold-out {every}")


def _named(path: Path, names: Sequence[str]) -> list[int]:
    with scene_file(path) as file:
        if bytes_left(file) > _MOST_BYTES:
            raise SceneError(f"a list of names of at most {_MOST_BYTES} bytes is required, found {bytes_left(file)}")
        data = file.read(_MOST_BYTES)
    # Windows' PowerShell writes a list of names as UTF-16, and its editors a mark in front of UTF-8.
    text = data.decode("utf-16" if data[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig", "replace")
    wanted = {line.strip() for line in text.splitlines() if line.strip()}
    if missing := sorted(wanted - set(names)):
        raise SceneError(
            f"{path}: names of the pictures, like {listed(names[:1])}, are required, found {listed(missing)}"
        )
    return [view for view, name in enumerate(names) if name in wanted]


def same_pictures(views: Views) -> dict[int, tuple[int, ...]]:
    """For each picture that is there more than once, pixel for pixel, the numbers of all that are the same as it."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for view, image in enumerate(views.images):
        few = image.flatten()[:: max(image.numel() // _SAMPLE, 1)]
        groups.setdefault((*image.shape, few.cpu().numpy().tobytes()), []).append(view)
    same: dict[bytes, list[int]] = {}
    for group in groups.values():
        for view in group if len(group) > 1 else ():
            pixels = views.images[view].cpu().contiguous().numpy()
            same.setdefault(hashlib.sha256(pixels.tobytes()).digest(), []).append(view)
    return {view: tuple(group) for group in same.values() if len(group) > 1 for view in group}


def _checked(chosen: list[int], alike: dict[int, tuple[int, ...]], views: Views, what: str) -> list[int]:
    """The pictures that are held out: those that were chosen, and any that are the same."""
    held_out = sorted({view for one in chosen for view in alike.get(one, (one,))})
    if alike:
        groups = [" = ".join(views.name(view) for view in group) for group in dict.fromkeys(alike.values())]
        warnings.warn(
            f"{len(alike)} of {len(views)} pictures are there more than once: {listed(groups)}; those that are the "
            f"same are all fitted to or all held out, which {len(held_out)} are",
            stacklevel=3,
        )
    if not 0 < len(held_out) < len(views):
        raise SceneError(
            f"{what}: pictures to fit to and pictures to measure by are required, found {len(held_out)} of "
            f"{len(views)} held out; --hold-out 0 holds none"
        )
    return held_out
