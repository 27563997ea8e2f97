"""A scene of 3D Gaussians in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .coordinates import NO_OFFSET, Offset, find_offset

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
    offset: Offset = field(default=NO_OFFSET, kw_only=True)
    """x, y, z to add to `means`, in float64, for the coordinates in the scene's file; 0 unless those are a map's."""
    antialiased: bool = field(default=False, kw_only=True)
    """Whether it was fitted to be drawn with `rasterize_mode="antialiased"`."""
    up: str | None = field(default=None, kw_only=True)
    """The axis that its file says points up, such as "y" or "-z"; None if it does not say."""

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

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The means, quats, scales, opacities and sh."""
        return self.means, self.quats, self.scales, self.opacities, self.sh

    @property
    def coordinates(self) -> Tensor:
        """[N, 3] float64: the centres as they stand in the scene's file."""
        return self.means.double() + torch.tensor(self.offset, dtype=torch.float64, device=self.means.device)

    def with_offset(self, offset: Offset) -> Gaussians:
        """The same Gaussians with another offset."""
        origin = torch.tensor(offset, dtype=torch.float64, device=self.means.device)
        return replace(self, means=(self.coordinates - origin).float(), offset=offset)

    def placed(self, coordinates: Tensor) -> Gaussians:
        """The Gaussians with their centres at these coordinates [N, 3], float64, less the offset that those need."""
        offset = find_offset(coordinates.detach().cpu().numpy())
        if offset != NO_OFFSET:
            coordinates = coordinates - torch.tensor(offset, dtype=torch.float64, device=coordinates.device)
        return replace(self, means=coordinates.float(), offset=offset)

    def to(self, device: torch.device | str) -> Gaussians:
        """The same Gaussians on `device`."""
        return self._with([value.to(device) for value in self.tensors])

    def select(self, chosen: Tensor | slice) -> Gaussians:
        """The Gaussians where `chosen`, [N] of bool, is true; or those with these indices, in their order."""
        return self._with([value[chosen] for value in self.tensors])

    def _with(self, tensors: list[Tensor]) -> Gaussians:
        means, quats, scales, opacities, sh = tensors
        return replace(self, means=means, quats=quats, scales=scales, opacities=opacities, sh=sh)

    def bounds(self, outside: float = 0.02) -> tuple[Tensor, Tensor]:
        """Corners [3], [3] of the box that leaves out the share `outside` of the Gaussians at each end of each axis.

        Gaussians are weighted by their opacity. Trained scenes have a few Gaussians far away from everything else, so
        the full extent (`outside=0`) says little about the visible part.

        Raises SceneError if all Gaussians are fully transparent.
        """
        weights = self.opacities.double()
        if not len(self) or not weights.sum() > 0:
            raise SceneError(f"the scene has no visible Gaussian (of {len(self)}), so it has no bounds")
        corners = []
        for means in self.means.unbind(dim=1):
            places, order = means.sort()
            shares = weights[order].cumsum(dim=0)
            shares /= shares[-1].clone()
            lower = torch.searchsorted(shares, outside, right=True)
            corners.append(places[torch.stack([lower, torch.searchsorted(shares, 1 - outside)])])
        lowest, highest = torch.stack(corners, dim=1)
        return lowest, highest

    def middle(self) -> tuple[float, float, float]:
        """x, y, z of the middle of `bounds`. Raises as that."""
        lower, upper = self.bounds()
        x, y, z = ((lower + upper) / 2).tolist()
        return x, y, z
