"""What is blended of each Gaussian, and whether it is fit to be blended at all.

Shapes: `...` leading batch dimensions, N Gaussians, C cameras of each batch, M visible pairs of camera and Gaussian.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .arguments import Sizes
from .packing import Visible
from .projection import Gaussians

# Sums of so small a share of finite numbers are finite.
_SHARE = 1e-30


@torch.no_grad()
def finite_gaussians(gaussians: Gaussians, colors: Tensor, per_camera: bool, sizes: Sizes) -> Tensor:
    """Which Gaussians hold finite numbers only, bool [..., N]."""
    dims = len(sizes.batch) + 1
    sums = [_sums(tensor, dims) for tensor in gaussians.tensors if tensor is not None]
    sums.append(_sums(colors, dims + 1).sum(dim=dims - 1) if per_camera else _sums(colors, dims))
    return torch.stack(sums).sum(dim=0).isfinite()


def _sums(values: Tensor, dims: int) -> Tensor:
    """Sums over all but the first dimensions, scaled down: NaN or infinite where a number is.

    A product with a vector is one pass; isfinite, and torch's reductions over a few numbers each, take ten times as
    long and more.
    """
    if values.ndim == dims:
        return values * _SHARE
    rows = values.flatten(dims)
    return rows @ rows.new_full((rows.shape[-1],), _SHARE)


def features_of_pairs(colors: Tensor, per_camera: bool, visible: Visible | None, sizes: Sizes) -> Tensor:
    """Colours of all pairs, [..., C, N, D], or of those that are visible, [M, D]."""
    if visible is not None:
        return (visible.pack if per_camera else visible.pack_gaussians)(colors, sizes)
    shape = (*sizes.batch, sizes.cameras, sizes.gaussians, colors.shape[-1])
    return colors if per_camera else colors[..., None, :, :].expand(shape)
