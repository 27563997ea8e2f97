"""Scenes put together, parts of them, and scenes of another size: what a conversion does beside the format."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .gaussians import Gaussians

Corner = tuple[float, float, float]


def merge_scenes(scenes: Sequence[Gaussians]) -> Gaussians:
    """The Gaussians of all scenes, with the highest degree among them: coefficients that a scene lacks are 0."""
    if len(scenes) == 1:
        return scenes[0]
    most = max(scene.sh.shape[1] for scene in scenes)
    padded = [torch.nn.functional.pad(scene.sh, (0, 0, 0, most - scene.sh.shape[1])) for scene in scenes]
    return Gaussians(
        torch.cat([scene.means for scene in scenes]),
        torch.cat([scene.quats for scene in scenes]),
        torch.cat([scene.scales for scene in scenes]),
        torch.cat([scene.opacities for scene in scenes]),
        torch.cat(padded),
    )


def crop_scene(scene: Gaussians, lower: Corner, upper: Corner) -> Gaussians:
    """The Gaussians whose centres lie in a box, borders included."""
    low, high = (torch.tensor(corner, dtype=scene.means.dtype, device=scene.means.device) for corner in (lower, upper))
    return scene.select(((scene.means >= low) & (scene.means <= high)).all(dim=1))


def prune_scene(scene: Gaussians, opacity: float) -> Gaussians:
    """The Gaussians of at least this opacity."""
    return scene.select(scene.opacities >= opacity)


def scale_scene(scene: Gaussians, factor: float) -> Gaussians:
    """The scene made larger by a factor, seen from the origin: centres and standard deviations."""
    return Gaussians(scene.means * factor, scene.quats, scene.scales * factor, scene.opacities, scene.sh)


def shift_scene(scene: Gaussians, shift: Corner) -> Gaussians:
    """The scene moved by x, y, z."""
    by = torch.tensor(shift, dtype=scene.means.dtype, device=scene.means.device)
    return Gaussians(scene.means + by, scene.quats, scene.scales, scene.opacities, scene.sh)


def limit_degree(scene: Gaussians, degree: int) -> Gaussians:
    """The scene with spherical harmonics of at most this degree."""
    sh = scene.sh[:, : (degree + 1) ** 2].contiguous()
    return Gaussians(scene.means, scene.quats, scene.scales, scene.opacities, sh)
