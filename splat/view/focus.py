"""What is clicked on a page: the point of the scene under a pixel, and whether two clicks are a double-click."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import torch

from ..scene.camera import Camera
from .drawing import Look, rasterized
from .pose import Pose, camera_of

if TYPE_CHECKING:
    import viser

    from .session import Session

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


class Focus:
    """A double-click on the picture makes the page's camera look at what was clicked, and orbit around it.

    A click on a frustum is the photographs' (`photo_controls.py`).
    """

    def __init__(self, page: Session) -> None:
        self._page = page
        self._last: Click | None = None
        page.client.scene.on_click()(self._clicked)  # type: ignore[arg-type]

    async def _clicked(self, event: viser.SceneClickEvent) -> None:
        # In the event loop, so that clicks stay in order.
        click = Click(*event.screen_pos)
        try:
            if self._page.photos.click(click):
                self._last = None
                return
        except Exception as error:  # a page's camera may be none
            self._page.say(error)
            return
        double = is_double(self._last, click)
        self._last = None if double else click
        if double:
            self._page.send(lambda look, pose: self._look_at(look, pose, click))

    def _look_at(self, look: Look, pose: Pose, click: Click) -> None:
        """Called in the painter's thread."""
        point = self._page.terms.measure(look, camera_of(pose, look.near), click)
        if point is not None and self._page.look is not None:
            self._page.client.camera.look_at = point


Measure = Callable[[Look, Camera, Click], Point | None]
