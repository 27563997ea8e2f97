"""The cameras that a scene was fitted to as frusta: their lines in the scene, and which of them is under a click."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..scene.camera import Camera
from ..scene.camera_list import TakenPicture

MOST_SHOWN: Final = 500
"""So many cameras are drawn and offered, evenly chosen if there are more."""
_SHARE: Final = 0.04
"""The size of a frustum, of the diagonal of the box around all cameras,"""
_ALONE: Final = 0.1
"""or of its distance to the scene's middle, if there is one place only."""
_MARGIN: Final = 0.01
"""Of the page, around a frustum, where a click still counts as one on it."""
_EDGES: Final = ((0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (4, 1))
"""From the camera's centre to the corners of the picture, and around it."""


def shown_pictures(taken: Sequence[TakenPicture]) -> list[TakenPicture]:
    """Those whose cameras are drawn: all, or `MOST_SHOWN` of them, evenly chosen with the first and the last."""
    if len(taken) <= MOST_SHOWN:
        return list(taken)
    return [taken[round(index * (len(taken) - 1) / (MOST_SHOWN - 1))] for index in range(MOST_SHOWN)]


def frustum_corners(cameras: Sequence[Camera], middle: Sequence[float]) -> Tensor:
    """[N, 5, 3] float64, in the world: the centre of each camera, and the corners of its picture at a small distance.

    `middle` is the scene's, x, y, z.
    """
    turns = torch.stack([camera.viewmat[:3, :3].double() for camera in cameras])
    shifts = torch.stack([camera.viewmat[:3, 3].double() for camera in cameras])
    centres = -(turns.mT @ shifts[:, :, None])[:, :, 0]
    size = _SHARE * float((centres.amax(0) - centres.amin(0)).norm())
    size = size or _ALONE * float((centres[0] - torch.tensor(middle, dtype=torch.float64)).norm()) or _ALONE
    corners = []
    for camera in cameras:
        pixels = [(0, 0, 1), (camera.width, 0, 1), (camera.width, camera.height, 1), (0, camera.height, 1)]
        corners.append(torch.linalg.solve(camera.K.double(), torch.tensor(pixels, dtype=torch.float64).T).T)
    ends = size * torch.stack(corners) @ turns + centres[:, None]
    return torch.cat([centres[:, None], ends], dim=1)


def frustum_lines(corners: Tensor) -> npt.NDArray[np.float32]:
    """[8 N, 2, 3]: the edges of frusta with these corners."""
    return np.asarray(corners[:, _EDGES].reshape(-1, 2, 3).float().numpy())


def clicked_frustum(corners: Tensor, camera: Camera, across: float, down: float) -> int | None:
    """Which of the frusta is under a click on the picture of `camera`, if one is; of several, whose middle is nearest.

    `across` and `down` are shares of the picture's width and height.
    """
    size = torch.tensor([camera.width, camera.height], dtype=torch.float64)
    places = corners @ camera.viewmat[:3, :3].double().T + camera.viewmat[:3, 3].double()
    pixels = places @ camera.K.double().T
    shares = pixels[..., :2] / pixels[..., 2:].clamp_min(1e-30) / size
    click = torch.tensor([across, down], dtype=torch.float64)
    low, high = shares.amin(dim=1), shares.amax(dim=1)
    hit = (places[..., 2] > camera.near).all(dim=1)
    hit &= ((click >= low - _MARGIN) & (click <= high + _MARGIN)).all(dim=1)
    if not hit.any():
        return None
    distances = ((low + high) / 2 - click).norm(dim=1)
    return int(torch.where(hit, distances, torch.inf).argmin())
