"""Leaving out what spoils a scene: Gaussians hardly there, that few cameras see, or too large for their distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from .camera import Camera
from .gaussians import Gaussians

_AT_ONCE: Final = 2**16
"""Gaussians, which bounds the memory."""


@dataclass(frozen=True)
class Pruning:
    """What is left out of a scene; by default nothing."""

    opacity: float = 0.0
    """Gaussians of a lower opacity,"""
    cameras: float = 0
    """those that fewer cameras see,"""
    size: float = math.inf
    """and those that are larger, beside their distance (`Seen.sizes`)."""

    @property
    def needs_cameras(self) -> bool:
        """Whether it depends on cameras."""
        return self.cameras > 0 or self.size < math.inf


class Seen(NamedTuple):
    """How cameras see N Gaussians: by their centres, as if nothing were in the way."""

    counts: Tensor
    """[N] int32: how many cameras have it in their picture."""
    sizes: Tensor
    """[N]: the largest standard deviation by the depth for the nearest of these cameras; 0 if there is none."""


def seen_by(scene: Gaussians, cameras: Sequence[Camera]) -> Seen:
    """How these cameras see a scene on the CPU."""
    counts = torch.zeros(len(scene), dtype=torch.int32)
    nearest = torch.full((len(scene),), math.inf, dtype=torch.float64)
    for start in range(0, len(scene), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        points = scene.means[part].double()
        for camera in cameras:
            depths, seen = camera.sees(points)
            counts[part] += seen
            nearest[part] = torch.where(seen, depths.minimum(nearest[part]), nearest[part])
    return Seen(counts, scene.scales.amax(dim=1) / nearest)


def prune_scene(scene: Gaussians, pruning: Pruning, cameras: Sequence[Camera] = ()) -> tuple[Gaussians, dict[str, int]]:
    """What is left, and how many Gaussians each reason, in words, leaves out: some have several."""
    reasons: dict[str, Tensor] = {}
    if pruning.opacity > 0:
        reasons[f"of opacity below {pruning.opacity:g}"] = scene.opacities < pruning.opacity
    if pruning.needs_cameras:
        seen = seen_by(scene, cameras)
        if pruning.cameras > 0:
            words = f"that fewer than {pruning.cameras:g} of {len(cameras)} cameras see"
            reasons[words] = seen.counts < pruning.cameras
        if pruning.size < math.inf:
            reasons[f"larger than {pruning.size:g} of their distance"] = seen.sizes > pruning.size
    left_out = torch.zeros(len(scene), dtype=torch.bool)
    for chosen in reasons.values():
        left_out |= chosen
    return scene.select(~left_out), {words: int(chosen.sum()) for words, chosen in reasons.items()}
