"""Small corrections of where cameras stand and look, fitted together with the scene.

All cameras and the scene may be moved, turned and scaled together without changing a picture. So what the corrections
have in common, to first order, is taken out of them: the scene stays where the cameras as given put it, and those that
are held out go on fitting it.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from .picture_parameters import PictureParameters

_TURN: Final = 0.005
"""How far a camera turns at most, in radians; and how far it moves, as a share of the scene's extent."""
_SHIFT: Final = 0.005


class CameraCorrections:
    """A rotation vector and a shift in world coordinates for each of the cameras `viewmats` [C, 4, 4]; first 0."""

    def __init__(self, viewmats: Tensor, extent: float, steps: int, common: bool = False) -> None:
        """With `common`, what all corrections have in common stays in them."""
        self.viewmats, self.common = viewmats, common
        self.centers = -torch.linalg.solve(viewmats[:, :3, :3].double(), viewmats[:, :3, 3:].double())[..., 0].float()
        self._around = self.centers - self.centers.mean(dim=0)
        reach = torch.tensor([_TURN] * 3 + [_SHIFT * extent] * 3, device=viewmats.device)
        self.values = PictureParameters(len(viewmats), reach, steps)

    def viewmats_of(self, cameras: list[int]) -> Tensor:
        """Those of some of the cameras, [C, 4, 4], differentiable."""
        if not cameras:
            return self.viewmats[:0].clone().requires_grad_()
        return torch.stack([self.viewmat(camera) for camera in cameras])

    def viewmat(self, camera: int) -> Tensor:
        """The corrected world-to-camera matrix [4, 4], differentiable."""
        change = self.values.row(camera) - self._common()[camera]
        return self.viewmats[camera] @ _moved(self.centers[camera], change)

    @torch.no_grad()
    def corrected(self) -> Tensor:
        """All of the corrected matrices, [C, 4, 4]."""
        return self.viewmats_of(list(range(len(self.viewmats))))

    @torch.no_grad()
    def _common(self) -> Tensor:
        """What a rotation, a shift and a scale of everything would change, [C, 6], as far as all changed so."""
        if self.common:
            return torch.zeros_like(self.values.values)
        turns, shifts = self.values.values[:, :3], self.values.values[:, 3:]
        mean = shifts.mean(dim=0)
        spread = self._around.square().sum()
        scale = ((shifts - mean) * self._around).sum() / spread if spread > 0 else spread
        return torch.cat([turns.mean(dim=0).expand_as(turns), mean + scale * self._around], dim=1)


def _moved(center: Tensor, change: Tensor) -> Tensor:
    """The motion [4, 4] of the world that a camera at `center` [3] sees if it turns and moves by `change` [6]."""
    turn, shift = change[:3], change[3:]
    zero = torch.zeros_like(turn[0])
    x, y, z = turn.unbind()
    skew = torch.stack([zero, z, -y, -z, zero, x, y, -x, zero]).view(3, 3)  # the world turns the other way
    rotation = torch.linalg.matrix_exp(skew)
    last = torch.tensor([[0.0, 0.0, 0.0, 1.0]], device=center.device)
    return torch.cat([torch.cat([rotation, (center - rotation @ (center + shift))[:, None]], dim=1), last])
