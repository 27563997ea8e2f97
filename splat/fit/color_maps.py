"""An affine map from the scene's colours to those of each picture, since exposure and white balance change."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from .picture_parameters import PictureParameters

APPEARANCES: Final = ("off", "affine")
_REACH: Final = 0.2
"""How far each number of a map gets from the identity."""
_WEIGHT: Final = 0.1
"""Of the squares of what a map differs from the identity by."""


class ColorMaps:
    """A map for each training picture, a 3x3 matrix and an offset, fitted with the scene; first the identity.

    The scene and all maps could change together without changing a picture, so the mean of the maps is kept at the
    identity: the scene has the colours that the pictures have on average.
    """

    def __init__(self, pictures: int, steps: int, device: torch.device) -> None:
        self.values = PictureParameters(pictures, torch.full((12,), _REACH, device=device), steps)

    def applied(self, image: Tensor, picture: int) -> Tensor:
        """An image [H, W, 3] of the scene in the colours of a picture."""
        change = self._change(picture).view(3, 4)
        return image + image @ change[:, :3].T + change[:, 3]

    def penalty(self, picture: int) -> Tensor:
        """What is added to the loss of a picture."""
        return _WEIGHT * self._change(picture).square().sum()

    def _change(self, picture: int) -> Tensor:
        return self.values.row(picture) - self.values.values.mean(dim=0)


def with_colors_of(image: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
    """An image [H, W, 3] after the affine map that brings it closest to `target`, by least squares.

    Only the pixels where `mask` [H, W] is true count.
    """
    used = torch.ones_like(image[..., 0], dtype=torch.bool) if mask is None else mask
    # The normal equations in float64, with so little ridge that it matters only where a colour is missing.
    sources = torch.cat([image, torch.ones_like(image[..., :1])], dim=-1).double()
    a, b = sources[used], target[used].double()
    ridge = 1e-6 * len(a) * torch.eye(4, dtype=a.dtype, device=a.device)
    identity = torch.eye(4, 3, dtype=a.dtype, device=a.device)
    solved = identity + torch.linalg.solve(a.T @ a + ridge, a.T @ (b - a @ identity))
    recolored: Tensor = (sources @ solved).to(image.dtype)
    return recolored
