"""The quality of a scene: PSNR and SSIM of its renders beside pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..scene.gaussians import Gaussians
from .losses import psnr, ssim
from .shards import ALONE, Shards
from .views import Views, render


class Quality(NamedTuple):
    """How well a scene shows some pictures, each and on the whole."""

    psnrs: list[float]
    """In decibels."""
    ssims: list[float]

    @property
    def psnr(self) -> float:
        """The mean in decibels."""
        return sum(self.psnrs) / len(self.psnrs)

    @property
    def ssim(self) -> float:
        """The mean."""
        return sum(self.ssims) / len(self.ssims)


@torch.no_grad()
def judge(
    scene: Gaussians,
    views: Views,
    recolored: Callable[[Tensor, Tensor, Tensor | None], Tensor] | None = None,
    shards: Shards = ALONE,
) -> Quality:
    """PSNR and SSIM of each of the pictures; `recolored` gets an image, its target and its mask first.

    Of several processes, each has its shard of the scene.
    """
    found = torch.zeros(len(views), 2, dtype=torch.float64)
    for first in range(0, len(views), shards.count):
        together = range(first, min(first + shards.count, len(views)))
        view = shards.own_of(together)
        image, _ = render(scene, views, view, scene.degree, distributed=shards.count > 1)
        if view is None:
            continue
        mask, target, image = views.mask(view), views.target(view), image.clamp(0, 1)
        image = recolored(image, target, mask).clamp(0, 1) if recolored else image
        found[view] = torch.tensor([psnr(image, target, mask), float(ssim(image, target, mask))])
    psnrs, ssims = shards.sums(found).T.tolist()
    return Quality(psnrs, ssims)
