"""Photographs of the inside of a painted ball, by cameras with a lens, traced along rays without any Gaussian."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from splat.photos.capture import Capture, Photograph
from splat.photos.lens_formulas import FISHEYE
from splat.photos.lens_models import Lens

Floats = npt.NDArray[np.float64]

RADIUS = 3.0


def rays(lens: Lens) -> Floats:
    """Directions [H, W, 3] of the centres of pixels, of a lens whose coefficients but k1 to k4 are 0.

    By a table of the distances of angles from the middle.
    """
    k1, k2, _, _, k3, k4, *_ = lens.distortion.coefficients or (0.0,) * 8
    fisheye = lens.distortion.family is FISHEYE
    angles = np.linspace(0, 2.0 if fisheye else 1.3, 20_001)
    r = angles if fisheye else np.tan(angles)
    distances = r * (1 + k1 * r**2 + k2 * r**4 + k3 * r**6 + k4 * r**8)
    growing = np.append(True, np.cumprod(np.diff(distances) > 0).astype(bool))
    across, down = np.meshgrid(np.arange(lens.width) + 0.5, np.arange(lens.height) + 0.5)
    x, y = (across - lens.cx) / lens.fx, (down - lens.cy) / lens.fy
    distance = np.hypot(x, y)
    angle = np.interp(distance, distances[growing], angles[growing])
    side = np.sin(angle) / np.maximum(distance, 1e-12)
    return np.stack([x * side, y * side, np.cos(angle)], axis=-1)


def painted(places: Floats) -> Any:
    """The colours of places on the ball, uint8."""
    x, y, z = np.moveaxis(places, -1, 0)
    waves = [np.sin(2.5 * x + y), np.sin(2 * y - 1.5 * z), np.sin(2 * z + x) * np.cos(1.5 * x)]
    return (127.5 + 100 * np.stack(waves, axis=-1)).round().astype(np.uint8)


def photograph(lens: Lens, viewmat: Floats) -> Image.Image:
    """What a camera in the ball sees."""
    turn, shift = viewmat[:3, :3], viewmat[:3, 3]
    origin, directions = -turn.T @ shift, rays(lens) @ turn
    along = directions @ origin
    distance = np.sqrt(along**2 + RADIUS**2 - origin @ origin) - along
    return Image.fromarray(painted(origin + distance[..., None] * directions))


def viewmats(count: int) -> list[Floats]:
    """Cameras about the middle that look slightly downwards and, in turn, all around."""
    found = []
    for number in range(count):
        yaw, pitch = 2 * np.pi * number / count, 0.3 * (-1) ** number
        ahead = np.array([np.cos(yaw) * np.cos(pitch), np.sin(pitch), np.sin(yaw) * np.cos(pitch)])
        right = np.array([-np.sin(yaw), 0, np.cos(yaw)])
        matrix = np.eye(4)
        matrix[:3, :3] = [-right, np.cross(ahead, -right), ahead]
        matrix[:3, 3] = -matrix[:3, :3] @ (0.8 * np.array([np.cos(3 * yaw), 0.4 * np.sin(yaw), np.sin(2 * yaw)]))
        found.append(matrix)
    return found


def capture(folder: Path, lens: Lens, count: int = 16, points: int = 400) -> Capture:
    """The photographs, in a folder, and points of the ball with their colours."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    for number, viewmat in enumerate(viewmats(count)):
        path = folder / f"{number:02}.png"
        photograph(lens, viewmat).save(path)
        taken.append(Photograph(path, lens, viewmat))
    places = torch.randn(points, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    places = RADIUS * torch.nn.functional.normalize(places, dim=1)
    return Capture(folder, tuple(taken), places.numpy(), painted(places.numpy()))
