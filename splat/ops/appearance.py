"""The values that are blended for each Gaussian, and which Gaussians are finite.

Shapes: `...` leading batch dimensions, N Gaussians, C cameras of each batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import _kernels
from .arguments import Sizes
from .projection import GaussianParameters


@torch.no_grad()
def find_finite(gaussians: GaussianParameters, colors: Tensor, per_camera: bool, sizes: Sizes) -> tuple[Tensor, Tensor]:
    """Which Gaussians have only finite numbers, bool [..., N], and how many have not, int64 []."""
    _kernels.require_for(gaussians.means)
    scenes, n, dims = sizes.batches, sizes.gaussians, len(sizes.batch)
    sets, width = (sizes.cameras, colors.shape[dims + 2 :]) if per_camera else (1, colors.shape[dims + 1 :])
    means, quats, scales, covars, opacities = (
        None if tensor is None else tensor.detach().reshape(scenes, n, *tensor.shape[dims + 1 :])
        for tensor in gaussians.tensors
    )
    finite, invalid = torch.ops.splat.find_finite(
        means,
        quats,
        scales,
        None if covars is None else covars.flatten(2),
        opacities,
        colors.detach().reshape(scenes, sets, n, math.prod(width)),
    )
    return finite.reshape(*sizes.batch, n), invalid


def colors_of_pairs(colors: Tensor, per_camera: bool, sizes: Sizes) -> Tensor:
    """Colours of all pairs, [..., C, N, D]."""
    shape = (*sizes.batch, sizes.cameras, sizes.gaussians, colors.shape[-1])
    return colors if per_camera else colors[..., None, :, :].expand(shape)
