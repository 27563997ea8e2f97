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


def finite_gaussians(gaussians: Gaussians, colors: Tensor, per_camera: bool, sizes: Sizes) -> Tensor:
    """Which Gaussians hold finite numbers only, bool [..., N]."""
    dims = len(sizes.batch)
    # Of each Gaussian the largest magnitude, which NaN and infinity survive: one pass, unlike isfinite.
    with torch.no_grad():
        largest = [
            torch.linalg.vector_norm(tensor.flatten(dims + 1), float("inf"), dim=-1)
            if tensor.ndim > dims + 1
            else tensor
            for tensor in gaussians.tensors
            if tensor is not None
        ]
        if not per_camera:
            largest.append(torch.linalg.vector_norm(colors.flatten(dims + 1), float("inf"), dim=-1))
        elif sizes.cameras:
            largest.append(torch.linalg.vector_norm(colors.flatten(dims + 2), float("inf"), dim=(dims, -1)))
        return torch.stack(largest).isfinite().all(dim=0)


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
