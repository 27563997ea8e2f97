"""A scene of 3D Gaussians in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SH_C0 = 0.28209479177387814
"""The constant basis function of real spherical harmonics, 1 / (2 sqrt(pi)): a colour is 0.5 + SH_C0 * sh[:,
0]."""


class SceneError(ValueError):
    """A scene cannot be read, shown or written; the message says what was required and what was found."""


@dataclass(frozen=True)
class Gaussians:
    """N Gaussians after activation, as `rasterization` takes them: float32 tensors on one device.

    Raises ValueError if the shapes do not fit together.
    """

    means: Tensor
    """[N, 3] centres."""
    quats: Tensor
    """[N, 4] rotations as quaternions w, x, y, z, not normalised."""
    scales: Tensor
    """[N, 3] standard deviations along the rotated axes."""
    opacities: Tensor
    """[N] between 0 and 1."""
    sh: Tensor
    """[N, K, 3] coefficients of spherical harmonics, K = (degree + 1) ** 2."""

    def __post_init__(self) -> None:
        """Check the shapes."""
        n = self.means.shape[0]
        for name, ending in (("means", (3,)), ("quats", (4,)), ("scales", (3,)), ("opacities", ())):
            shape = tuple(getattr(self, name).shape)
            if shape != (n, *ending):
                raise ValueError(f"{name} must have shape {[n, *ending]}, found {list(shape)}")
        shape = tuple(self.sh.shape)
        if len(shape) != 3 or shape[0] != n or shape[2] != 3 or math.isqrt(shape[1]) ** 2 != shape[1] or not shape[1]:
            raise ValueError(f"sh must have shape [{n}, K, 3] with K = 1, 4, 9, 16 or 25, found {list(shape)}")

    def __len__(self) -> int:
        """N."""
        return self.means.shape[0]

    @property
    def degree(self) -> int:
        """Degree of the spherical harmonics; with 0, colours are the same from every direction."""
        return math.isqrt(self.sh.shape[1]) - 1

    def to(self, device: torch.device | str) -> Gaussians:
        """The same Gaussians on `device`."""
        return Gaussians(
            means=self.means.to(device),
            quats=self.quats.to(device),
            scales=self.scales.to(device),
            opacities=self.opacities.to(device),
            sh=self.sh.to(device),
        )

    def select(self, chosen: Tensor | slice) -> Gaussians:
        """The Gaussians where `chosen`, [N] of bool, is true; or those with these indices, in their order."""
        return Gaussians(*(value[chosen] for value in vars(self).values()))

    def bounds(self, outside: float = 0.02) -> tuple[Tensor, Tensor]:
        """Corners [3], [3] of the box that leaves out the share `outside` of the Gaussians at each end of each axis.

        Gaussians are weighted by their opacity. Trained scenes have a few Gaussians far away from everything else, so
        the full extent (`outside=0`) says little about the visible part.

        Raises SceneError if all Gaussians are fully transparent.
        """
        weights = self.opacities.double()
        if not len(self) or not weights.sum() > 0:
            raise SceneError(f"the scene has no visible Gaussian (of {len(self)}), so it has no bounds")
        means, order = self.means.double().sort(dim=0)
        shares = weights[order].cumsum(dim=0)
        shares = shares / shares[-1]
        index = torch.arange(3, device=means.device)
        lower = (shares > outside).int().argmax(dim=0)
        upper = (shares >= 1 - outside).int().argmax(dim=0)
        return means[lower, index].float(), means[upper, index].float()
