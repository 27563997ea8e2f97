"""Clicks on a page: the point of the scene under a pixel, and whether two are a double-click."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import torch

from ..scene.camera import Camera
from .drawing import Look, rasterized

DOUBLE: Final = 0.5
"""Seconds within which a second click makes a double-click,"""
NEARBY: Final = 0.02
"""if it is no farther than this share of the page's width and height from the first."""

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Click:
    """A click on a page's picture."""

    across: float
    """Where, as a share of the width, from the left."""
    down: float
    """The same of the height, from the top."""
    seconds: float = field(default_factory=time.monotonic)
    """When."""


Measure = Callable[[Look, Camera, Click], Point | None]


def is_double(first: Click | None, second: Click) -> bool:
    """Whether two clicks are a double-click."""
    return (
        first is not None
        and second.seconds - first.seconds <= DOUBLE
        and max(abs(second.across - first.across), abs(second.down - first.down)) <= NEARBY
    )


def point_seen(look: Look, camera: Camera, click: Click) -> Point | None:
    """The point of the scene that is seen where it was clicked; None where less than half is covered.

    It lies at the pixel's expected depth.
    """
    if not (0 <= click.across <= 1 and 0 <= click.down <= 1):
        return None
    x = min(int(click.across * camera.width), camera.width - 1)
    y = min(int(click.down * camera.height), camera.height - 1)
    depths, alphas, _ = rasterized(look.scene, camera, look.scene.opacities[:, None], render_mode="ED")
    if alphas[0, y, x, 0] < 0.5:
        return None
    pixel = torch.tensor([x + 0.5, y + 0.5, 1.0], dtype=torch.float64)
    place = torch.linalg.solve(camera.K.double(), pixel) * float(depths[0, y, x, 0])
    turn, shift = camera.viewmat[:3, :3].double(), camera.viewmat[:3, 3].double()
    across, down, along = (turn.T @ (place - shift)).tolist()
    return across, down, along
