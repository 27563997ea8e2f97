"""Shape inference of the operators of 2D Gaussians; registration.py has that of all others, and their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rasterize_2dgs_shapes(means2d: Tensor, ray_transforms: Tensor, colors: Tensor, *others: Any) -> tuple[Tensor, ...]:
    """Colours [I, H, W, D]; alphas, distortions (or size 0), medians, depth sums [I, H, W, 1]; and i32 [I, H, W]."""
    width, height, _, isect_offsets, *_, distloss = others[-7:]
    pixels = (isect_offsets.shape[0], height, width)
    return (
        means2d.new_empty((*pixels, colors.shape[-1])),
        means2d.new_empty((*pixels, 1)),
        means2d.new_empty((*pixels, 1) if distloss else (0,)),
        *(means2d.new_empty((*pixels, 1)) for _ in range(2)),
        *(means2d.new_empty(pixels, dtype=torch.int32) for _ in range(2)),
    )


def rasterize_2dgs_backward_shapes(
    means2d: Tensor, ray_transforms: Tensor, colors: Tensor, opacities: Tensor, depths: Tensor, *others: Any
) -> tuple[Tensor, ...]:
    """Gradients of means2d (and absolute ones, or size 0), ray transforms, colours, opacities and depths."""
    absolute = means2d.new_empty(means2d.shape if others[-1] else (0,))
    gradients = (torch.empty_like(each) for each in (ray_transforms, colors, opacities, depths))
    return torch.empty_like(means2d), absolute, *gradients
