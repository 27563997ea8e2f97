"""Folders that stand for a scene, such as those that programs leave."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from .formats import is_scene

_TRAINED: Final = "point_cloud/iteration_*/point_cloud.ply"
"""Where 3DGS's training writes scenes; what is called input.ply beside are the points that it began with."""


def scene_in(folder: Path) -> Path | None:
    """The scene that a folder stands for: the last of 3DGS's training, or the only one in it; None if there is none."""
    trained = [
        (int(number[1]), path)
        for path in folder.glob(_TRAINED)
        if (number := re.fullmatch(r"iteration_([0-9]{1,18})", path.parent.name)) and path.is_file()
    ]
    if trained:
        return max(trained)[1]
    found = [path for path in folder.iterdir() if is_scene(path)]
    return found[0] if len(found) == 1 else None
