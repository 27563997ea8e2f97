"""What torch must know of the compiled operators beyond their schemas: the shapes of their outputs, for `torch.compile`
and `torch.export`, and that they have no backward pass yet.

The schemas are in csrc/ops.cpp. Shapes: I images, N Gaussians, M rows of a packed layout, K spherical harmonics
coefficients, D channels, n intersections.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import torch
from torch import Tensor


@functools.cache
def register() -> None:
    """Register shape functions and gradients. The CPU library, which defines the operators, must be loaded."""
    torch.library.register_fake("splat::project", _project)
    torch.library.register_fake("splat::spherical_harmonics", _spherical_harmonics)
    torch.library.register_fake("splat::intersect", _intersect)
    torch.library.register_fake("splat::rasterize", _rasterize)
    for name in ("project", "spherical_harmonics", "rasterize"):
        torch.library.register_autograd(f"splat::{name}", functools.partial(_no_backward, name))


def _no_backward(name: str, ctx: Any, *gradients: Tensor) -> NoReturn:
    # Without this, torch would warn at most, and leave .grad unset.
    raise NotImplementedError(
        f"splat::{name} has no backward pass in this version of splat: render under torch.no_grad(), or with inputs "
        "that do not require gradients"
    )


def _project(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor | None,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    eps2d: float,
    near_plane: float,
    far_plane: float,
    radius_clip: float,
    antialiased: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Radii i32 [I, N, 2], means2d [I, N, 2], depths [I, N], conics [I, N, 3] and compensations [I, N]."""
    images, gaussians = viewmats.shape[0], means.shape[0]
    return (
        means.new_empty((images, gaussians, 2), dtype=torch.int32),
        means.new_empty((images, gaussians, 2)),
        means.new_empty((images, gaussians)),
        means.new_empty((images, gaussians, 3)),
        means.new_empty((images, gaussians)),
    )


def _spherical_harmonics(degree: int, directions: Tensor, coeffs: Tensor, mask: Tensor | None) -> Tensor:
    """Values [I, N, 3]."""
    return directions.new_empty(directions.shape)


def _intersect(
    means2d: Tensor,
    radii: Tensor,
    depths: Tensor,
    conics: Tensor,
    opacities: Tensor,
    image_ids: Tensor | None,
    images: int,
    tile_size: int,
    tile_width: int,
    tile_height: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tiles per Gaussian i32 [I, N] or [M], keys i64 [n], indices i32 [n] and offsets i32 [I, rows, columns]."""
    intersections = torch.library.get_ctx().new_dynamic_size()
    return (
        depths.new_empty(depths.shape, dtype=torch.int32),
        depths.new_empty((intersections,), dtype=torch.int64),
        depths.new_empty((intersections,), dtype=torch.int32),
        depths.new_empty((images, tile_height, tile_width), dtype=torch.int32),
    )


def _rasterize(
    means2d: Tensor,
    conics: Tensor,
    colors: Tensor,
    opacities: Tensor,
    backgrounds: Tensor | None,
    width: int,
    height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Colours [I, H, W, D], alphas [I, H, W, 1] and the last Gaussian blended, i32 [I, H, W]."""
    images, channels = isect_offsets.shape[0], colors.shape[-1]
    return (
        means2d.new_empty((images, height, width, channels)),
        means2d.new_empty((images, height, width, 1)),
        means2d.new_empty((images, height, width), dtype=torch.int32),
    )
