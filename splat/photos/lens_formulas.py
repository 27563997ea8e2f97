"""How lenses bend straight lines: where the ray through a point at a distance of 1 meets the picture, in focal lengths.

OpenCV's documentation, "Camera Calibration and 3D Reconstruction" and its part "Fisheye camera model"; COLMAP's "Camera
Models". Devernay and Faugeras 2001 (FOV), Fitzgibbon 2001 (division), Khomutenko et al. 2016 (EUCM), and Project Aria's
"Camera Intrinsic Models" (fisheye of 16 parameters). Arrays of x, y are of any shape and of float32 or float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
_Bent = tuple[Values, Values]


def _polynomial(x: Values, y: Values, *k: float) -> _Bent:
    k1, k2, p1, p2, k3, k4, k5, k6 = k
    r2 = x * x + y * y
    radial = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
    return (
        x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
        y * radial + 2 * p2 * x * y + p1 * (r2 + 2 * y * y),
    )  # fmt: skip


def _equidistant(x: Values, y: Values) -> _Bent:
    """The angle to the axis as the distance from the middle: what all fisheye lenses begin with."""
    r = np.maximum(np.hypot(x, y), 1e-9)
    scale = np.arctan(r) / r
    return x * scale, y * scale


def _fisheye(x: Values, y: Values, *k: float) -> _Bent:
    k1, k2, p1, p2, k3, k4, sx1, sy1 = k
    x, y = _equidistant(x, y)
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * (k3 + r2 * k4)))
    return (
        x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + sx1 * r2,
        y * radial + 2 * p2 * x * y + p1 * (r2 + 2 * y * y) + sy1 * r2,
    )  # fmt: skip


def _fisheye_16(x: Values, y: Values, *k: float) -> _Bent:
    k0, k1, k2, k3, k4, k5, p0, p1, s0, s1, s2, s3 = k
    x, y = _equidistant(x, y)
    t2 = x * x + y * y
    radial = 1 + t2 * (k0 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * (k4 + t2 * k5)))))
    x, y = x * radial, y * radial
    r2 = x * x + y * y
    return (
        x + 2 * p1 * x * y + p0 * (r2 + 2 * x * x) + r2 * (s0 + r2 * s1),
        y + 2 * p0 * x * y + p1 * (r2 + 2 * y * y) + r2 * (s2 + r2 * s3),
    )  # fmt: skip


def _field_of_view(x: Values, y: Values, omega: float) -> _Bent:
    r = np.maximum(np.hypot(x, y), 1e-9)
    scale = np.arctan(r * (2 * np.tan(omega / 2))) / (r * omega)
    return x * scale, y * scale


def _division(x: Values, y: Values, k: float) -> _Bent:
    scale = 2 / (1 + np.sqrt(1 - 4 * k * (x * x + y * y)))  # NaN where no point of the picture shows this ray
    return x * scale, y * scale


def _unified(x: Values, y: Values, alpha: float, beta: float) -> _Bent:
    depth = alpha * np.sqrt(1 + beta * (x * x + y * y)) + (1 - alpha)
    depth = np.where(depth > 0, depth, np.nan)
    return x / depth, y / depth


def _panorama(x: Values, y: Values, yaw: float, pitch: float) -> _Bent:
    (across, down, ahead) = view_rotation(yaw, pitch) @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    angles = np.arctan2(across, ahead), np.arctan2(down, np.hypot(across, ahead))
    return angles[0].reshape(x.shape), angles[1].reshape(x.shape)


def view_rotation(yaw: float, pitch: float) -> npt.NDArray[np.float64]:
    """The rotation [3, 3] from the axes of a view in a panorama to the panorama's: radians to the right, and up."""
    a, b = (np.cos(yaw), np.sin(yaw)), (np.cos(pitch), np.sin(pitch))
    turned = np.array([[a[0], 0, a[1]], [0, 1, 0], [-a[1], 0, a[0]]])
    raised = np.array([[1, 0, 0], [0, b[0], -b[1]], [0, b[1], b[0]]])
    rotation: npt.NDArray[np.float64] = turned @ raised
    return rotation


class Family(NamedTuple):
    """Lenses of one formula."""

    coefficients: tuple[str, ...]
    bend: Callable[..., _Bent]
    always: bool = False
    """Whether lines are bent if all coefficients are 0, too."""


POLYNOMIAL: Final = Family(("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6"), _polynomial)
FISHEYE: Final = Family(("k1", "k2", "p1", "p2", "k3", "k4", "sx1", "sy1"), _fisheye, always=True)
FISHEYE_16: Final = Family(
    ("k0", "k1", "k2", "k3", "k4", "k5", "p0", "p1", "s0", "s1", "s2", "s3"), _fisheye_16, always=True
)
FIELD_OF_VIEW: Final = Family(("omega",), _field_of_view)
DIVISION: Final = Family(("k",), _division)
UNIFIED: Final = Family(("alpha", "beta"), _unified)
PANORAMA: Final = Family(("yaw", "pitch"), _panorama, always=True)


@dataclass(frozen=True)
class Distortion:
    """How a lens bends straight lines."""

    family: Family = POLYNOMIAL
    coefficients: tuple[float, ...] = ()
    """Of the family's names, or none."""

    def __bool__(self) -> bool:
        """Whether lines are bent."""
        return self.family.always or any(self.coefficients)

    def bend(self, x: Values, y: Values) -> _Bent:
        """Where the rays through x, y at a distance of 1 meet the picture; NaN or infinite where they do not."""
        with np.errstate(all="ignore"):
            return self.family.bend(x, y, *self.coefficients) if self else (x, y)
