"""The page's controls of a box that limits what is drawn, and saving what lies in it as a scene of its own."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from ..scene.edits import Corner, crop_scene
from ..scene.formats import WRITERS, losses_of, write_scene
from ..scene.gaussians import Gaussians, SceneError
from .camera_controls import set_value
from .drawing import Look
from .open_page import OpenPage
from .pose import Numbers, Pose
from .scene_choices import LoadedScene

MOST_BYTES: Final = 2**29
"""Of a scene that a page saves, as a PLY file."""
_FORMATS: Final = (".ply", *(ending for ending in WRITERS if ending != ".ply"))
_AXES: Final = ("x", "y", "z")
_STEPS: Final = 500
_NODE: Final = "/crop"
_COLOR: Final = (80, 220, 120)
_PIXELS: Final = 2.0


class CropControls:
    """A folder of a page's panel."""

    def __init__(self, page: OpenPage, loaded: LoadedScene) -> None:
        self._page = page
        self._cropping = threading.Lock()
        gui = page.client.gui
        with gui.add_folder("Crop", expand_by_default=False):
            self._on = gui.add_checkbox("Crop", initial_value=False, hint="draw only what lies in the box")
            self._group = gui.add_folder(None)
            self._format = gui.add_dropdown("Format", _FORMATS)
            page.when(gui.add_button("Save crop").on_click, lambda: page.send(self._save))
        self._sliders: list[Any] = []
        self._was: tuple[Corner, Corner] | None = None
        self.show(loaded)
        page.when(self._on.on_update, self._change)

    def show(self, loaded: LoadedScene) -> None:
        """Offer boxes for another scene, and crop nothing of it until that is asked for."""
        set_value(self._on, False)
        self._lower, self._upper = slider_ends(loaded.scene)
        for slider in self._sliders:
            slider.remove()
        with self._group:
            self._sliders = [
                self._page.client.gui.add_multi_slider(axis, low, high, (high - low) / _STEPS, (low, high))
                for axis, low, high in zip(_AXES, self._lower, self._upper, strict=True)
            ]
        for slider in self._sliders:
            self._page.when(slider.on_update, self._change)

    def follow(self) -> None:
        """Draw the same box of what became of the scene."""
        with self._cropping:
            self._draw(self._box())

    def _box(self) -> tuple[Corner, Corner] | None:
        """The corners of the box that was chosen; None if nothing is cropped."""
        values = [slider.value for slider in self._sliders]
        if not self._on.value or any(len(value) != 2 for value in values):
            return None
        (x0, x1), (y0, y1), (z0, z1) = values
        return (x0, y0, z0), (x1, y1, z1)

    def _change(self) -> None:
        with self._cropping:  # one at a time: each makes a copy of what is left
            box = self._box()
            if box != self._was:
                self._draw(box)

    def _draw(self, box: tuple[Corner, Corner] | None) -> None:
        """Draw what lies in a box, or all; whoever calls holds the lock."""
        loaded = self._page.loaded
        if loaded is None:
            return
        if box is None:
            scene = loaded.scene
            self._page.client.scene.remove_by_name(_NODE)
        else:
            scene = crop_scene(loaded.scene, *unlimited(*box, self._lower, self._upper))
            lines = (box_lines(*box) - loaded.scene.offset).astype(np.float32)
            self._page.client.scene.add_line_segments(_NODE, lines, _COLOR, thickness=_PIXELS, thickness_units="screen")
        if self._page.loaded is loaded:
            self._page.change(lambda look: replace(look, scene=scene))
        self._was = box

    def _save(self, look: Look, pose: Pose) -> None:
        """Called in the render thread."""
        ending = self._format.value
        if ending not in WRITERS:
            raise SceneError("one of the formats on offer is required, found another")
        scene = look.scene
        if not len(scene):
            raise SceneError("a box with Gaussians in it is required, found none in this one; move its sides")
        size = 4 * len(scene) * (14 + 3 * scene.sh.shape[1])
        if size > MOST_BYTES:
            raise SceneError(
                f"a crop of at most {MOST_BYTES >> 20} MB as .ply is required, found {size >> 20} MB; choose a smaller "
                "box, or use `splat convert --crop`"
            )
        for loss in losses_of(ending, scene):
            self._page.tell(f"crop{ending}: {loss}")
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"crop{ending}"
            write_scene(path, scene.to("cpu"))
            self._page.download(path.name, path.read_bytes())


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
