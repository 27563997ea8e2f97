"""The page's controls of a box that limits what is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from ..scene.edits import Corner
from ..scene.gaussians import Gaussians
from .camera_controls import set_value
from .open_page import OpenPage
from .pose import Numbers

_AXES: Final = ("x", "y", "z")
_STEPS: Final = 500
_NODE: Final = "/crop"
_COLOR: Final = (80, 220, 120)
_PIXELS: Final = 2.0


class CropControls:
    """A part of a folder of a page's panel."""

    def __init__(self, page: OpenPage, scene: Gaussians, changed: Callable[[], None]) -> None:
        """`changed` is called when another box was chosen."""
        self._page, self._changed = page, changed
        gui = page.client.gui
        self._on = gui.add_checkbox("Crop", initial_value=False, hint="draw only what lies in the box")
        self._group = gui.add_folder(None)
        self._sliders: list[Any] = []
        self.show(scene)
        page.when(self._on.on_update, changed)

    def show(self, scene: Gaussians) -> None:
        """Offer boxes for another scene, and crop nothing of it until that is asked for."""
        set_value(self._on, False)
        self._lower, self._upper = slider_ends(scene)
        for slider in self._sliders:
            slider.remove()
        with self._group:
            self._sliders = [
                self._page.client.gui.add_multi_slider(axis, low, high, (high - low) / _STEPS, (low, high))
                for axis, low, high in zip(_AXES, self._lower, self._upper, strict=True)
            ]
        for slider in self._sliders:
            self._page.when(slider.on_update, self._changed)

    def box(self) -> tuple[Corner, Corner] | None:
        """The corners of the box that was chosen; None if nothing is cropped."""
        values = [slider.value for slider in self._sliders]
        if not self._on.value or any(len(value) != 2 for value in values):
            return None
        (x0, x1), (y0, y1), (z0, z1) = values
        return (x0, y0, z0), (x1, y1, z1)

    def limits(self, box: tuple[Corner, Corner]) -> tuple[Corner, Corner]:
        """What such a box leaves in the scene: see `unlimited`."""
        return unlimited(*box, self._lower, self._upper)

    def outline(self, box: tuple[Corner, Corner] | None, offset: Corner) -> None:
        """Draw the edges of a box, or none, in a scene with this offset."""
        scene = self._page.client.scene
        if box is None:
            scene.remove_by_name(_NODE)
        else:
            lines = (box_lines(*box) - offset).astype(np.float32)
            scene.add_line_segments(_NODE, lines, _COLOR, thickness=_PIXELS, thickness_units="screen")


def slider_ends(scene: Gaussians) -> tuple[Corner, Corner]:
    """The corners of the largest box that sliders give: half as much again, on each side, as `Gaussians.bounds`."""
    offset = torch.tensor(scene.offset, dtype=torch.float64)
    lower, upper = (corner.double().cpu() + offset for corner in scene.bounds())
    # At least what float64 tells apart there, and a little of what the scene extends elsewhere.
    least = 1e-9 * torch.maximum(lower.abs(), upper.abs())
    more = torch.maximum((upper - lower) / 2, least.clamp_min(1e-6 * float((upper - lower).max()) or 1e-6))
    (x0, x1), (y0, y1), (z0, z1) = map(_short, (lower - more).tolist(), (upper + more).tolist())
    return (x0, y0, z0), (x1, y1, z1)


def _short(low: float, high: float) -> tuple[float, float]:
    """Two numbers with no more digits than their distance needs: they are shown below a slider."""
    digits = math.ceil(2 - math.log10(high - low))
    return round(low, digits), round(high, digits)


def unlimited(lower: Corner, upper: Corner, least: Corner, most: Corner) -> tuple[Corner, Corner]:
    """A box without limits where its sides are at the sliders' ends: scenes have Gaussians far away."""
    x0, y0, z0 = (-np.inf if side <= end else side for side, end in zip(lower, least, strict=True))
    x1, y1, z1 = (np.inf if side >= end else side for side, end in zip(upper, most, strict=True))
    return (x0, y0, z0), (x1, y1, z1)


def box_lines(lower: Corner, upper: Corner) -> npt.NDArray[np.float64]:
    """[12, 2, 3]: the edges of a box."""
    corners = list(product(*zip(lower, upper, strict=True)))
    edges = [(one, other) for one in corners for other in corners if one < other and _differences(one, other) == 1]
    return np.array(edges, np.float64)


def _differences(one: Numbers, other: Numbers) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))
