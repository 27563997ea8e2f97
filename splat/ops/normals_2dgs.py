"""Normals of 2D Gaussians: of the discs, and of the surface that their depths show."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad


def in_world(vectors: Tensor, rotations: Tensor) -> Tensor:
    """Vectors [..., H, W, 3] of cameras, in world coordinates."""
    return (rotations[..., None, None, :, :] * vectors[..., None, :]).sum(-1)


def facing_normals(axes: Tensor, centres: Tensor) -> Tensor:
    """The third axes [..., 3] of rotations [..., 3, 3] in camera space, on the side of the camera."""
    towards = torch.where((axes[..., 2] * centres).sum(-1, keepdim=True) < 0, 1.0, -1.0).to(axes)
    return axes[..., 2] * towards


def surface_normals(depths: Tensor, rotations: Tensor, Ks: Tensor) -> Tensor:
    """Unit normals [..., H, W, 3] of the surface of depths [..., H, W, 1], in world coordinates; zeros at the edges."""
    height, width = depths.shape[-3:-1]
    x, y = (torch.arange(size, dtype=depths.dtype, device=depths.device) + 0.5 for size in (width, height))
    focal_x, focal_y, centre_x, centre_y = (Ks[..., i, j, None, None] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    rays = torch.stack([(x - centre_x) / focal_x + 0 * y[:, None], (y[:, None] - centre_y) / focal_y + 0 * x], dim=-1)
    points = depths * pad(rays, (0, 1), value=1.0)
    down = points[..., 2:, 1:-1, :] - points[..., :-2, 1:-1, :]
    right = points[..., 1:-1, 2:, :] - points[..., 1:-1, :-2, :]
    # In the world: a product of two turned vectors is the turned product.
    return pad(normalize(in_world(torch.cross(down, right, dim=-1), rotations), dim=-1), (0, 0, 1, 1, 1, 1))
