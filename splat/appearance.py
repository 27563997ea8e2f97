"""What is blended of each Gaussian, and whether it is fit to be blended at all.

Shapes: `...` leading batch dimensions, N Gaussians, C cameras of each batch, M visible pairs of camera and Gaussian.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .arguments import Sizes
from .harmonics import spherical_harmonics
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


def shade(degree: int, means: Tensor, coeffs: Tensor, per_camera: bool, viewmats: Tensor, radii: Tensor) -> Tensor:
    """Colours [..., C, N, 3] as each camera sees them; what they are where culled does not matter."""
    directions = means[..., None, :, :] - _centers(viewmats)[..., None, :]
    coeffs = coeffs if per_camera else coeffs[..., None, :, :, :]
    values = spherical_harmonics(degree, directions, coeffs, (radii > 0).all(dim=-1))
    return (values + 0.5).clamp_min(0.0)


def _centers(viewmats: Tensor) -> Tensor:
    """Where the cameras are, [..., C, 3]: the last column of the inverse, by Cramer's rule.

    Unlike torch.linalg.inv it waits for no GPU.
    """
    a, b, c = (viewmats[..., row, :3] for row in range(3))
    cofactors = torch.stack([torch.linalg.cross(b, c), torch.linalg.cross(c, a), torch.linalg.cross(a, b)], dim=-1)
    # What the first three rows map to 0, in homogeneous coordinates.
    column = torch.cat([-cofactors @ viewmats[..., :3, 3:], (a * cofactors[..., 0]).sum(-1)[..., None, None]], dim=-2)
    return (column / (viewmats[..., 3:, :] @ column))[..., :3, 0]


def features_of_pairs(colors: Tensor, per_camera: bool, visible: Visible | None, sizes: Sizes) -> Tensor:
    """Colours of all pairs, [..., C, N, D], or of those that are visible, [M, D]."""
    if visible is not None:
        return (visible.pack if per_camera else visible.pack_gaussians)(colors, sizes)
    shape = (*sizes.batch, sizes.cameras, sizes.gaussians, colors.shape[-1])
    return colors if per_camera else colors[..., None, :, :].expand(shape)
