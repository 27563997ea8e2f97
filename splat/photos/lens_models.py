"""Lenses: a camera's intrinsics, and how it bends straight lines; COLMAP's and Nerfstudio's models by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ..scene.gaussians import SceneError
from ..scene.names import quoted
from .lens_formulas import (
    DIVISION,
    FIELD_OF_VIEW,
    FISHEYE,
    FISHEYE_16,
    PANORAMA,
    POLYNOMIAL,
    UNIFIED,
    Distortion,
    Family,
)

LONGEST_SIDE: Final = 2**15
"""Of a picture, in pixels."""
_LARGEST: Final = 1e3


class LensModel(NamedTuple):
    """A model of COLMAP's."""

    parameters: tuple[str, ...]
    """In COLMAP's order; f is both focal lengths."""
    family: Family


_F: Final = ("f", "cx", "cy")
_FXY: Final = ("fx", "fy", "cx", "cy")
LENS_MODELS: Final = {
    "SIMPLE_PINHOLE": LensModel(_F, POLYNOMIAL),
    "PINHOLE": LensModel(_FXY, POLYNOMIAL),
    "SIMPLE_RADIAL": LensModel((*_F, "k1"), POLYNOMIAL),
    "RADIAL": LensModel((*_F, "k1", "k2"), POLYNOMIAL),
    "OPENCV": LensModel((*_FXY, "k1", "k2", "p1", "p2"), POLYNOMIAL),
    "OPENCV_FISHEYE": LensModel((*_FXY, "k1", "k2", "k3", "k4"), FISHEYE),
    "FULL_OPENCV": LensModel((*_FXY, *POLYNOMIAL.coefficients), POLYNOMIAL),
    "FOV": LensModel((*_FXY, "omega"), FIELD_OF_VIEW),
    "SIMPLE_RADIAL_FISHEYE": LensModel((*_F, "k1"), FISHEYE),
    "RADIAL_FISHEYE": LensModel((*_F, "k1", "k2"), FISHEYE),
    "THIN_PRISM_FISHEYE": LensModel((*_FXY, *FISHEYE.coefficients), FISHEYE),
    "RAD_TAN_THIN_PRISM_FISHEYE": LensModel((*_FXY, *FISHEYE_16.coefficients), FISHEYE_16),
    "SIMPLE_DIVISION": LensModel((*_F, "k"), DIVISION),
    "DIVISION": LensModel((*_FXY, "k"), DIVISION),
    "SIMPLE_FISHEYE": LensModel(_F, FISHEYE),
    "FISHEYE": LensModel(_FXY, FISHEYE),
    "EUCM": LensModel((*_FXY, "alpha", "beta"), UNIFIED),
    "EQUIRECTANGULAR": LensModel(("w", "h"), PANORAMA),
}
"""COLMAP 4.2's, in the order of their numbers in .bin files."""


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

    A panorama's is that of a view straight ahead. Raises SceneError if a value cannot be a camera's; `what` names it in
    the message.
    """
    family = LENS_MODELS[model].family
    coefficients = tuple(values.get(name, 0.0) for name in family.coefficients)
    found = Distortion(family, coefficients)
    if family is PANORAMA:
        width, height = size
        return Lens(width, height, width / math.tau, height / math.pi, width / 2, height / 2, found).check(what)
    fx, fy = (values.get(name, values.get("f", math.nan)) for name in ("fx", "fy"))
    return Lens(*size, fx, fy, values["cx"], values["cy"], found if found else Distortion()).check(what)


def lens_of_values(model: str, size: Sequence[int], values: Sequence[float], what: str) -> Lens:
    """The camera of a model's name and parameters in COLMAP's order; raises as `lens_of`."""
    if model not in LENS_MODELS:
        raise SceneError(
            f"{what} has the lens model {quoted(model)}; required: one of COLMAP 4.2's, {', '.join(LENS_MODELS)}. If "
            "it is a later one, COLMAP makes its pictures into a pinhole camera's: colmap image_undistorter "
            "--image_path PICTURES --input_path MODEL --output_path FOLDER"
        )
    names = LENS_MODELS[model].parameters
    if len(values) != len(names):
        raise SceneError(f"{what}: {model} has {len(names)} parameters, found {len(values)}")
    width, height = size
    return lens_of(model, (width, height), dict(zip(names, values, strict=True)), what)
