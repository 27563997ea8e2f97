"""Lenses: a camera's intrinsics, and how it bends straight lines; COLMAP's and Nerfstudio's models by name.

OpenCV's documentation, "Camera Calibration and 3D Reconstruction" and its part "Fisheye camera model". COLMAP's models
are OpenCV's with some coefficients 0 ("Camera Models" in COLMAP's documentation); Nerfstudio's have COLMAP's names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..scene.gaussians import SceneError

LONGEST_SIDE: Final = 2**15
"""Of a picture, in pixels."""
LENS_MODELS: Final = {
    "SIMPLE_PINHOLE": ("f", "cx", "cy"),
    "PINHOLE": ("fx", "fy", "cx", "cy"),
    "SIMPLE_RADIAL": ("f", "cx", "cy", "k1"),
    "RADIAL": ("f", "cx", "cy", "k1", "k2"),
    "OPENCV": ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2"),
    "OPENCV_FISHEYE": ("fx", "fy", "cx", "cy", "k1", "k2", "k3", "k4"),
    "FULL_OPENCV": ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"),
    "SIMPLE_RADIAL_FISHEYE": ("f", "cx", "cy", "k1"),
    "RADIAL_FISHEYE": ("f", "cx", "cy", "k1", "k2"),
}
"""The parameters of each model that can be used, in COLMAP's order; f is both focal lengths."""
RADIAL_AND_TANGENTIAL: Final = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
"""Coefficients in OpenCV's order, and those of a fisheye lens."""
FISHEYE: Final = ("k1", "k2", "k3", "k4")
_LARGEST: Final = 1e3


@dataclass(frozen=True)
class Distortion:
    """How a lens bends straight lines."""

    coefficients: tuple[float, ...] = ()
    """RADIAL_AND_TANGENTIAL's or FISHEYE's, or none."""
    fisheye: bool = False

    def __bool__(self) -> bool:
        """Whether lines are bent. A fisheye lens's are if all of its coefficients are 0, too."""
        return self.fisheye or any(self.coefficients)


@dataclass(frozen=True)
class Lens:
    """A camera's intrinsics in pixels, for pictures of width x height; pixel centres lie at +0.5."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: Distortion = field(default=Distortion())

    def check(self, what: str) -> Lens:
        """Return self; SceneError if a value cannot be a camera's. `what` names it in the message."""
        if not (1 <= self.width <= LONGEST_SIDE and 1 <= self.height <= LONGEST_SIDE):
            raise SceneError(
                f"{what}: a size from 1 to {LONGEST_SIDE} pixels required, found {self.width}x{self.height}"
            )
        values = (self.fx, self.fy, self.cx, self.cy)
        if not all(map(math.isfinite, values)) or min(self.fx, self.fy) <= 0:
            raise SceneError(
                f"{what}: focal lengths above 0 and a principal point, all finite, required, found "
                f"fx {self.fx:g}, fy {self.fy:g}, cx {self.cx:g}, cy {self.cy:g}"
            )
        if not all(abs(value) <= _LARGEST for value in self.distortion.coefficients):  # a NaN, too
            raise SceneError(
                f"{what}: coefficients of distortion up to {_LARGEST:g} required, found "
                f"{', '.join(f'{value:g}' for value in self.distortion.coefficients)}"
            )
        return self

    def resized(self, width: int, height: int) -> Lens:
        """The same camera, for pictures of another size."""
        across, down = width / self.width, height / self.height
        return Lens(
            width, height, self.fx * across, self.fy * down, self.cx * across, self.cy * down, self.distortion
        )  # fmt: skip

    @property
    def field_of_view(self) -> tuple[float, float]:
        """Degrees across and down that a pinhole camera of these intrinsics shows."""
        sides = ((self.cx, self.width, self.fx), (self.cy, self.height, self.fy))
        across, down = (
            math.degrees(math.atan(place / focal) + math.atan((size - place) / focal)) for place, size, focal in sides
        )
        return across, down


def lens_of(model: str, size: tuple[int, int], values: Mapping[str, float], what: str) -> Lens:
    """The camera of one of LENS_MODELS from its parameters by name; coefficients that are missing are 0.

    Raises SceneError if a value cannot be a camera's; `what` names it in the message.
    """
    fisheye = model.endswith("FISHEYE")
    coefficients = tuple(values.get(name, 0.0) for name in (FISHEYE if fisheye else RADIAL_AND_TANGENTIAL))
    fx, fy = (values.get(name, values.get("f", math.nan)) for name in ("fx", "fy"))
    distortion = Distortion(coefficients, fisheye) if fisheye or any(coefficients) else Distortion()
    return Lens(*size, fx, fy, values["cx"], values["cy"], distortion).check(what)
