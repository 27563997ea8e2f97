"""Edits of scenes: merging, cropping, scaling and moving them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .gaussians import Gaussians
from .names import listed

Corner = tuple[float, float, float]


def merge_scenes(scenes: Sequence[Gaussians]) -> Gaussians:
    """The Gaussians of all scenes, with the highest degree among them: coefficients that a scene lacks are 0."""
    if len(scenes) == 1:
        return scenes[0]
    most = max(scene.sh.shape[1] for scene in scenes)
    padded = [torch.nn.functional.pad(scene.sh, (0, 0, 0, most - scene.sh.shape[1])) for scene in scenes]
    parts = [(*scene.tensors[:4], sh) for scene, sh in zip(scenes, padded, strict=True)]
    antialiased = {scene.antialiased for scene in scenes}
    up = sorted({scene.up or "not said" for scene in scenes})
    if len(antialiased) > 1:
        warnings.warn("some of the scenes are to be drawn antialiased, others not: together they are not", stacklevel=2)
    if len(up) > 1:
        warnings.warn(f"what is up differs in the scenes ({listed(up)}): of all together it is not said", stacklevel=2)
    merged = Gaussians(
        *(torch.cat(values) for values in zip(*parts, strict=True)),
        antialiased=all(antialiased),
        up=scenes[0].up if len(up) == 1 else None,
    )
    return merged.placed(torch.cat([scene.coordinates for scene in scenes]))


def crop_scene(scene: Gaussians, lower: Corner, upper: Corner) -> Gaussians:
    """The Gaussians whose centres lie in a box of the file's coordinates, borders included."""
    return scene.select(in_box(scene, lower, upper))


def in_box(scene: Gaussians, lower: Corner, upper: Corner) -> Tensor:
    """[N] of bool: whose centres lie in a box of the file's coordinates, borders included."""
    offset = torch.tensor(scene.offset, dtype=torch.float64)
    low, high = (
        (torch.tensor(corner, dtype=torch.float64) - offset).to(scene.means.device, scene.means.dtype)
        for corner in (lower, upper)
    )
    return ((scene.means >= low) & (scene.means <= high)).all(dim=1)


def scale_scene(scene: Gaussians, factor: float) -> Gaussians:
    """The scene made larger by a factor, seen from the origin: centres and standard deviations."""
    return replace(scene, scales=scene.scales * factor).placed(scene.coordinates * factor)


def shift_scene(scene: Gaussians, shift: Corner) -> Gaussians:
    """The scene moved by x, y, z."""
    return scene.placed(scene.coordinates + torch.tensor(shift, dtype=torch.float64, device=scene.means.device))


def limit_degree(scene: Gaussians, degree: int) -> Gaussians:
    """The scene with spherical harmonics of at most this degree."""
    return replace(scene, sh=scene.sh[:, : (degree + 1) ** 2].contiguous())
