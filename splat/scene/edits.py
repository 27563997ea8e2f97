"""Parts of scenes, and scenes of another size: what a conversion can do beside changing the format."""

from __future__ import annotations

import torch

from .gaussians import Gaussians

Corner = tuple[float, float, float]


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


def limit_degree(scene: Gaussians, degree: int) -> Gaussians:
    """The scene with spherical harmonics of at most this degree."""
    sh = scene.sh[:, : (degree + 1) ** 2].contiguous()
    return Gaussians(scene.means, scene.quats, scene.scales, scene.opacities, sh)
