"""Where cameras begin and cease to see: it follows from how far away things are, in whatever unit of length."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

NEAR: Final = 0.01
"""The near plane where nothing says how far away anything is: that of gsplat's `rasterization`."""
_SHARE: Final = 1e-3
"""What the near plane has of the distance to what is seen."""
_LEAST, _MOST = 1e-15, 1e15
_SAMPLE: Final = 500
"""Cameras, and points, whose distances are looked at."""


def near_plane(distance: float) -> float:
    """The distance of the near plane for what is seen at a distance, in the same unit."""
    return min(max(_SHARE * distance, _LEAST), _MOST)


def near_plane_of(viewmats: Tensor, points: Tensor) -> float:
    """That of cameras at `viewmats` [C, 4, 4], for all of them, which see points [P, 3], at the median distance."""
    viewmats, points = (_some(values).double().cpu() for values in (viewmats, points))
    places = torch.einsum("cij,pj->cpi", viewmats[:, :3, :3], points) + viewmats[:, None, :3, 3]
    distances = places.norm(dim=-1).flatten()
    distances = distances[distances.isfinite() & (distances > 0)]
    return near_plane(float(distances.median())) if len(distances) else NEAR


def far_plane(near: float) -> float:
    """The far plane: 12 orders of magnitude beyond the near one, and at least 1e10."""
    return min(max(1e10, 1e12 * near), 3e38)


def _some(values: Tensor) -> Tensor:
    return values.detach()[:: len(values) // _SAMPLE + 1]
