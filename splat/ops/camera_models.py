"""The camera models, and what each makes of points in camera coordinates.

To add one: a function like `_ortho`, a row in `CAMERA_MODELS`, and a row in csrc/math/camera_models.h, which says what
the kernels need. Everything else follows; tests/ops/test_camera_models.py compares the two tables.

Shapes: `...` leading batch dimensions, C cameras, N Gaussians.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

# As in csrc/math/constants.h and fisheye.h.
_FRUSTUM_MARGIN: Final = 0.3
_SERIES: Final = 0.05


class CameraModel:
    """One row of the table.

    `unit_image` takes means [..., C, N, 3], focal lengths and principal points [..., C, 1, 2] and the size of the image
    [2], and gives the image for focal lengths of 1, [..., C, N, 2], and its derivative, [..., C, N, 2, 3].

    `flips`: whether a negative focal length turns an axis round; otherwise it is an error.
    """

    def __init__(
        self,
        name: str,
        unit_image: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
        *,
        flips: bool,
    ) -> None:
        self.name = name
        self.unit_image = unit_image
        self.flips = flips


def _pinhole(means: Tensor, focal: Tensor, centre: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    z = means[..., 2:]
    tangents = means[..., :2] / z
    margin = _FRUSTUM_MARGIN * 0.5 * size / focal
    # The larger bound last, as in the kernels: with a negative focal length it is below the other one.
    clamped = tangents.maximum(-(centre / focal + margin)).minimum((size - centre) / focal + margin)
    inverse, none = 1 / z, torch.zeros_like(z)
    row_x = torch.cat([inverse, none, -clamped[..., :1] * inverse], dim=-1)
    row_y = torch.cat([none, inverse, -clamped[..., 1:] * inverse], dim=-1)
    return tangents, torch.stack([row_x, row_y], dim=-2)


def _ortho(means: Tensor, focal: Tensor, centre: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    return means[..., :2], torch.eye(2, 3, dtype=means.dtype, device=means.device).expand(*means.shape[:-1], 2, 3)


def _fisheye(means: Tensor, focal: Tensor, centre: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    x, y, z = means.unbind(-1)
    rho2 = x * x + y * y
    i = 1 / (rho2 + z * z)
    g, h = _angle_over_distance(rho2, z, i)
    mixed = x * y * h
    row_x = torch.stack([g + x * x * h, mixed, -x * i], dim=-1)
    row_y = torch.stack([mixed, g + y * y * h, -y * i], dim=-1)
    return torch.stack([x * g, y * g], dim=-1), torch.stack([row_x, row_y], dim=-2)


def _angle_over_distance(rho2: Tensor, z: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
    """theta / rho, and twice its derivative by rho^2; csrc/math/fisheye.h says why there is a series near the axis."""
    near = (z > 0) & (rho2 < _SERIES * z * z)
    # Where one way is not taken it gets numbers that it can be differentiated at.
    inverse = 1 / torch.where(near, z, 1.0)
    q = torch.where(near, rho2, 0.0) * inverse * inverse
    series_g, series_h = torch.zeros_like(q), torch.zeros_like(q)
    for n in range(6, -1, -1):
        series_g = 1 / (2 * n + 1) - q * series_g
        series_h = -(2 * n + 2) / (2 * n + 3) - q * series_h
    away2 = torch.where(near, 1.0, rho2)
    rho = away2.sqrt()
    away_z = torch.where(near, 1.0, z)
    g = torch.atan2(rho, away_z) / rho
    h = (away_z * torch.where(near, 1.0, i) - g) / away2
    return torch.where(near, inverse * series_g, g), torch.where(near, inverse**3 * series_h, h)


# By name, in the order of their numbers in the operators.
CAMERA_MODELS: Final = {
    model.name: model
    for model in (
        CameraModel("pinhole", _pinhole, flips=False),
        CameraModel("ortho", _ortho, flips=True),
        CameraModel("fisheye", _fisheye, flips=True),
    )
}
