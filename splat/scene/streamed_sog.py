"""Streamed SOG, version 1: a lod-meta.json, and unpacked .sog chunks of several levels of detail; the finest is read.

A tree of boxes has, for each leaf and level, a run of one chunk's Gaussians; an environment may be beside. Source:
developer.playcanvas.com, *The Streamed SOG Format* (2026).

The file may be hostile: chunks lie in its folder and are read once each, and the sizes of all are checked together.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import torch

from .edits import merge_scenes
from .file_input import check_unpacked_size, named_errors, path_inside, usable
from .gaussians import Gaussians, SceneError
from .json_input import JsonLimits, read_json
from .names import quoted
from .sog_file import sog_gaussians, sog_sizes
from .sog_meta import META

LOD_META: Final = "lod-meta.json"

_LIMITS: Final = JsonLimits(2**24, nests=200_000, values=1_200_000)
_DIGITS: Final = 9
"""Of numbers that are keys."""

_Run = tuple[int, int]
"""The first of some Gaussians of a chunk, and how many they are."""


def read_streamed(path: str | Path) -> Gaussians:
    """Read the finest level of a scene by the path of its lod-meta.json, and its environment, on the CPU.

    Raises SceneError if a file is damaged, malformed, outside of the folder or of another version, OSError if the path
    cannot be opened.
    """
    path = Path(path)
    meta = _read_meta(path)
    with named_errors(path):
        runs = _finest_runs(meta.get("tree"))
        chunks: dict[Path, list[_Run]] = {}
        for index, name in enumerate(_names(meta)):
            if index in runs:
                chunks.setdefault(_chunk(path.parent, name), []).extend(runs.pop(index))
        if runs:
            raise SceneError(f"the tree names chunk {max(runs)}, found {len(_names(meta))} filenames")
        if meta.get("environment") is not None:
            chunks[_chunk(path.parent, meta["environment"])] = []
        if not chunks:
            raise SceneError("at least one chunk is required in the tree, found none")
        sizes = [sog_sizes(chunk) for chunk in chunks]
        check_unpacked_size(*map(sum, zip(*sizes, strict=True)))
        scene = merge_scenes([_part(chunk, own) for chunk, own in chunks.items()])
    return usable(scene, path)


def streamed_levels(path: Path) -> int:
    """How many levels of detail a scene has; SceneError if it is none."""
    levels = _read_meta(path).get("lodLevels")
    if not isinstance(levels, int) or levels < 1:
        raise SceneError(f"{path}: 'lodLevels', a whole number above 0, is required, found {quoted(str(levels)[:40])}")
    return levels


def _read_meta(path: Path) -> dict[str, Any]:
    meta = read_json(path, f"{LOD_META} with one JSON object", _LIMITS)
    if not isinstance(meta, dict):
        raise SceneError(f"{path}: {LOD_META} must hold one JSON object, found another value")
    if meta.get("version", 1) != 1:  # the first ones have none
        raise SceneError(f"{path}: version 1 of streamed SOG is required, found {quoted(str(meta['version'])[:40])}")
    return meta


def _names(meta: dict[str, Any]) -> list[Any]:
    names = meta.get("filenames")
    if not isinstance(names, list):
        raise SceneError("'filenames', a list of the chunks' names, is required, found something else")
    return names


def _chunk(folder: Path, name: object) -> Path:
    """The meta.json of a chunk."""
    path = path_inside(folder, name, f"a {META}")
    if path.name != META:
        raise SceneError(f"the name of a {META} inside {folder} is required, found {quoted(str(name)[:80])!r}")
    return path


def _finest_runs(tree: object) -> dict[int, list[_Run]]:
    """For each chunk, by its index, the runs of the finest level that each leaf has."""
    runs: dict[int, list[_Run]] = defaultdict(list)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            raise SceneError("a node of the tree must be an object, found something else")
        children, levels = node.get("children") or [], node.get("lods") or {}
        if not isinstance(children, list) or not isinstance(levels, dict):
            raise SceneError("a node of the tree must have a list 'children' or an object 'lods', found something else")
        waiting += reversed(children)
        if not all(level.isdecimal() and len(level) <= _DIGITS for level in levels):
            raise SceneError("the names of 'lods' must be levels, whole numbers, found something else")
        if levels:
            index, *run = _whole_numbers(levels[min(levels, key=int)])
            runs[index].append((run[0], run[1]))
    return runs


def _whole_numbers(run: object) -> list[int]:
    values = [run.get(name) for name in ("file", "offset", "count")] if isinstance(run, dict) else []
    found = [value for value in values if isinstance(value, int) and 0 <= value < 2**32]
    if len(found) < 3:
        raise SceneError("a level must have 'file', 'offset' and 'count', whole numbers, found something else")
    return found


def _part(chunk: Path, runs: list[_Run]) -> Gaussians:
    """The Gaussians of some runs of a chunk, in its order; all if none is named, as of an environment."""
    scene = sog_gaussians(chunk)
    if not runs:
        return scene
    chosen = torch.zeros(len(scene), dtype=torch.bool)
    for first, count in runs:
        if first + count > len(scene):
            raise SceneError(f"{chunk}: {first + count} Gaussians are required for {LOD_META}, found {len(scene)}")
        chosen[first : first + count] = True
    return scene.select(chosen)
