"""The scenes that a viewer offers, by name: each is read when a page first shows it, and kept while one does."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..scene.camera import FirstView
from ..scene.camera_list import TakenPicture
from ..scene.formats import ENDINGS, is_scene
from ..scene.gaussians import Gaussians, SceneError
from ..scene.names import one_line
from ..scene.scene_folders import scene_in
from .prominence import Prominence

BUILT_IN: Final = "built-in scene"
MOST_FILES: Final = 1000
"""A folder may have this many scenes."""


@dataclass(frozen=True)
class LoadedScene:
    """A scene, and how it is first seen."""

    scene: Gaussians
    view: FirstView
    middle: tuple[float, ...]
    """x, y, z of the point around which pages orbit."""
    prominence: Prominence
    """What of the scene is drawn while the camera moves."""
    taken: Sequence[TakenPicture] = ()
    """What it was fitted to, if that is known."""


class SceneChoices:
    """Scenes by name. A page can only choose among these names: no path comes from a page."""

    def __init__(
        self,
        paths: dict[str, Path | None],
        read: Callable[[Path | None], Gaussians],
        place: Callable[[Gaussians, Path | None], tuple[FirstView, Sequence[TakenPicture]]],
    ) -> None:
        """`read` reads a scene, the built-in one for None; `place` says how it is first seen, and
        what it was fitted to."""
        self._paths, self._read, self._place = paths, read, place
        self._kept: weakref.WeakValueDictionary[str, LoadedScene] = weakref.WeakValueDictionary()
        self._stamps: dict[str, tuple[int, int] | None] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """What can be chosen, in the order given."""
        return list(self._paths)

    def get(self, name: str) -> LoadedScene:
        """The scene of this name, read now unless a page already shows it as it is; scenes are read one at a time.

        Raises what `read` and `place` raise, and SceneError if the name is not offered.
        """
        if name not in self._paths:
            raise SceneError("the name of one of the scenes on offer is required, found another")
        with self._lock:
            loaded = self._kept.get(name)
            if loaded is None or self.has_changed(name):
                stamp = _stamp(self._paths[name])
                scene = self._read(self._paths[name])
                loaded = self._kept[name] = loaded_scene(scene, *self._place(scene, self._paths[name]))
                self._stamps[name] = stamp
            return loaded

    def has_changed(self, name: str) -> bool:
        """Whether the scene's file is another one than was read; not if it is gone."""
        stamp = _stamp(self._paths[name])
        return stamp is not None and stamp != self._stamps.get(name)


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """What changes with a file: when it was written, and its size."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found else None


def loaded_scene(scene: Gaussians, view: FirstView, taken: Sequence[TakenPicture] = ()) -> LoadedScene:
    """A scene as it is shown. Raises SceneError if nothing in it is visible."""
    middle = scene.middle()
    return LoadedScene(scene, view, middle, Prominence(scene, middle), taken)


def find_scenes(places: Sequence[Path]) -> dict[str, Path | None]:
    """The scenes of these files and folders by the names that are shown; the built-in one if there are no places.

    Of a folder that a program left, it is the scene in it (`scene_folders.py`).

    Raises:
        SceneError: if a folder has no scene, or too many.
        OSError: if a place is missing.
    """
    if not places:
        return {BUILT_IN: None}
    paths: list[Path] = []
    for place in places:
        left = scene_in(place) if place.is_dir() else place
        paths += [left] if left else _scenes_in(place)
    for path in paths:
        path.stat()  # a missing file is reported now, not when it is chosen
    names = [path.name for path in paths]
    # As a page can show them: it could not even be told of one that is not UTF-8.
    return {one_line(path.name if names.count(path.name) == 1 else str(path)): path for path in paths}


def _scenes_in(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if is_scene(path))
    if not 0 < len(found) <= MOST_FILES:
        raise SceneError(
            f"{folder}: a folder with 1 to {MOST_FILES} scenes ({ENDINGS}) is required, found {len(found)}"
        )
    return found
