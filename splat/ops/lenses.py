"""Lenses: where points in front of a camera meet its picture, and which rays the pixels see.

OpenCV's documentation, "Camera Calibration and 3D Reconstruction" (pinhole cameras with radial, tangential and thin
prism distortion) and "Fisheye camera model"; f-theta lenses as NVIDIA's DriveWorks documents them. What counts as
visible is gsplat 1.5.3's. splat/photos/lens_formulas.py has more lenses, of NumPy, for pictures that are straightened.

A lens is one camera's. Its numbers are float64 tensors of no dimensions, so that nothing waits for a GPU; points and
pixels are float64 tensors of one shape, one for each coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import torch
from torch import Tensor

# A point that the radial polynomial draws further inwards is near to being flipped, which no real lens does.
_MIN_RADIAL: Final = 0.8
_NEWTON_STEPS: Final = 10
# Of the last step of Newton's method, relative to what is found, if that is above 1.
_CONVERGED: Final = 1e-9


class FThetaPolynomialType(Enum):
    """Which of the two polynomials of an f-theta lens defines it; the other is where its inverse is looked for."""

    PIXELDIST_TO_ANGLE = 0
    ANGLE_TO_PIXELDIST = 1


@dataclass(frozen=True)
class FThetaCameraDistortionParameters:
    """An f-theta lens: the angle to the axis and the distance from the principal point are polynomials of each other.

    gsplat's class of the same name does as well.
    """

    reference_poly: FThetaPolynomialType
    pixeldist_to_angle_poly: tuple[float, float, float, float, float, float]
    """Radians for pixels, from the constant upwards."""
    angle_to_pixeldist_poly: tuple[float, float, float, float, float, float]
    """Pixels for radians, from the constant upwards."""
    max_angle: float
    """Points further from the axis are taken to be at this angle, in radians."""
    linear_cde: tuple[float, float, float]
    """c, d, e: x of the picture is c x + d y, and y is e x + y."""


class Lens(Protocol):
    """What a camera does with light."""

    def project(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels u, v of points, and whether these can be trusted; 0, 0 for points behind the camera."""

    def unproject(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Directions x, y, z of pixels, of any length, and whether there are any."""


@dataclass(frozen=True)
class Intrinsics:
    """Focal lengths and principal point, in pixels."""

    fx: Tensor
    fy: Tensor
    cx: Tensor
    cy: Tensor

    def to_pixels(self, x: Tensor, y: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """0, 0 for what is not seen."""
        return torch.where(seen, x * self.fx + self.cx, 0.0), torch.where(seen, y * self.fy + self.cy, 0.0)

    def from_pixels(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """For focal lengths of 1."""
        return (u - self.cx) / self.fx, (v - self.cy) / self.fy


@dataclass(frozen=True)
class PinholeLens:
    """OpenCV's: k1 to k6 (radial), p1, p2 (tangential), s1 to s4 (thin prism); None for a lens without distortion."""

    intrinsics: Intrinsics
    coefficients: tuple[Tensor, ...] | None

    def project(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Lens.project`."""
        front = z > 0
        depths = torch.where(front, z, 1.0)
        x, y, valid = x / depths, y / depths, front
        if self.coefficients is not None:
            (x, y), radial = _bend(x, y, self.coefficients)
            valid = valid & (radial > _MIN_RADIAL)
        return *self.intrinsics.to_pixels(x, y, front), valid

    def unproject(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `Lens.unproject`."""
        bent_x, bent_y = self.intrinsics.from_pixels(u, v)
        x, y, valid = bent_x, bent_y, torch.ones_like(u, dtype=torch.bool)
        if self.coefficients is not None:
            for _ in range(_NEWTON_STEPS):
                found, radial = _bend(x, y, self.coefficients)
                xx, xy, yx, yy = _bend_slopes(x, y, self.coefficients, radial)
                off_x, off_y, area = found[0] - bent_x, found[1] - bent_y, xx * yy - xy * yx
                step_x, step_y = (off_x * yy - off_y * xy) / area, (off_y * xx - off_x * yx) / area
                x, y = x - step_x, y - step_y
            # Where the picture is not flipped: beyond that, a lens shows nothing.
            valid = (step_x.abs() + step_y.abs() < _CONVERGED) & (radial > 0)
        return x, y, torch.ones_like(x), valid


def _bend(x: Tensor, y: Tensor, coefficients: Sequence[Tensor]) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Where the lens shows the point x, y at a distance of 1, and its radial factor."""
    k1, k2, k3, k4, k5, k6, p1, p2, s1, s2, s3, s4 = coefficients
    r2 = x * x + y * y
    radial = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
    bent_x = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + r2 * (s1 + r2 * s2)
    bent_y = y * radial + 2 * p2 * x * y + p1 * (r2 + 2 * y * y) + r2 * (s3 + r2 * s4)
    return (bent_x, bent_y), radial


def _bend_slopes(
    x: Tensor, y: Tensor, coefficients: Sequence[Tensor], radial: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The derivatives of `_bend` by x, y, row by row."""
    k1, k2, k3, k4, k5, k6, p1, p2, s1, s2, s3, s4 = coefficients
    r2 = x * x + y * y
    below = 1 + r2 * (k4 + r2 * (k5 + r2 * k6))
    slope = ((k1 + r2 * (2 * k2 + r2 * 3 * k3)) - radial * (k4 + r2 * (2 * k5 + r2 * 3 * k6))) / below
    mixed, prism_x, prism_y = 2 * (x * y * slope + p1 * x + p2 * y), 2 * (s1 + 2 * s2 * r2), 2 * (s3 + 2 * s4 * r2)
    return (
        radial + 2 * x * x * slope + 2 * p1 * y + 6 * p2 * x + x * prism_x,
        mixed + y * prism_x,
        mixed + x * prism_y,
        radial + 2 * y * y * slope + 2 * p2 * x + 6 * p1 * y + y * prism_y,
    )


@dataclass(frozen=True)
class FisheyeLens:
    """OpenCV's: the distance from the middle is theta (1 + k1 theta^2 + k2 theta^4 + k3 theta^6 + k4 theta^8).

    Points further than `max_angle` from the axis are taken to be there, as in gsplat.
    """

    intrinsics: Intrinsics
    coefficients: tuple[Tensor, ...]
    max_angle: Tensor

    def project(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Lens.project`."""
        rho = torch.hypot(x, y).clamp_min(torch.finfo(x.dtype).tiny)
        theta = torch.atan2(rho, z).minimum(self.max_angle)
        distance = theta * _polynomial(theta * theta, (1.0, *self.coefficients))
        valid = (z > 0) & (distance > 0)
        return *self.intrinsics.to_pixels(x / rho * distance, y / rho * distance, valid), valid

    def unproject(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `Lens.unproject`."""
        x, y = self.intrinsics.from_pixels(u, v)
        distance = torch.hypot(x, y)
        zero = torch.zeros_like(self.max_angle)
        theta, valid = _inverse(self._distance, distance, distance.minimum(self.max_angle), zero, self.max_angle)
        return *_rays(x, y, distance, theta), valid  # beyond the largest angle, the last step is not small

    def _distance(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        factors = (1.0, *self.coefficients)
        theta2 = theta * theta
        return theta * _polynomial(theta2, factors), _polynomial(theta2, _slope_of_odd(factors))


def fisheye_lens(intrinsics: Intrinsics, coefficients: Sequence[Tensor], width: int, height: int) -> FisheyeLens:
    """The lens as far as its distances grow with the angle, and no further than the corners of the picture."""
    fx, fy, cx, cy = intrinsics.fx, intrinsics.fy, intrinsics.cx, intrinsics.cy
    corner = torch.hypot((width - cx).maximum(cx), (height - cy).maximum(cy))
    turn = _first_root(_slope_of_odd((1.0, *coefficients)), like=fx)
    return FisheyeLens(intrinsics, tuple(coefficients), turn.minimum(corner / fx.abs().minimum(fy.abs())))


def _first_root(slope: Sequence[Any], like: Tensor) -> Tensor:
    """The smallest angle up to half a turn where a polynomial of its square is no longer above 0, or infinity."""
    low, high = torch.zeros_like(like), torch.full_like(like, math.pi)
    grid = torch.linspace(0, 1, 2049, dtype=like.dtype, device=like.device)
    found = torch.ones_like(like, dtype=torch.bool)
    for _ in range(3):  # each finds eleven bits more
        angles = low + (high - low) * grid
        down = _polynomial(angles * angles, slope) <= 0
        found = found & down.any()
        first = down.int().argmax().clamp_min(1)
        low, high = angles.take(first - 1), angles.take(first)  # an index would wait for a GPU
    return torch.where(found, high, math.inf)


@dataclass(frozen=True)
class FThetaLens:
    """`FThetaCameraDistortionParameters` about a principal point; pixel centres of these parameters lie at integers."""

    cx: Tensor
    cy: Tensor
    parameters: FThetaCameraDistortionParameters

    def project(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Lens.project`."""
        own = self.parameters
        rho = torch.hypot(x, y).clamp_min(torch.finfo(x.dtype).tiny)
        theta = torch.atan2(rho, z).clamp_max(own.max_angle)
        distance, valid = self._converted(theta, own.angle_to_pixeldist_poly, FThetaPolynomialType.ANGLE_TO_PIXELDIST)
        c, d, e = own.linear_cde
        x, y, valid = x / rho * distance, y / rho * distance, valid & (z > 0)
        return (
            torch.where(valid, c * x + d * y + self.cx + 0.5, 0.0),
            torch.where(valid, e * x + y + self.cy + 0.5, 0.0),
            valid,
        )

    def unproject(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `Lens.unproject`."""
        own = self.parameters
        c, d, e = own.linear_cde
        bent_x, bent_y = u - self.cx - 0.5, v - self.cy - 0.5
        x, y = (bent_x - d * bent_y) / (c - e * d), (c * bent_y - e * bent_x) / (c - e * d)
        distance = torch.hypot(x, y)
        theta, valid = self._converted(distance, own.pixeldist_to_angle_poly, FThetaPolynomialType.PIXELDIST_TO_ANGLE)
        return *_rays(x, y, distance, theta), valid

    def _converted(
        self, values: Tensor, polynomial: Sequence[float], kind: FThetaPolynomialType
    ) -> tuple[Tensor, Tensor]:
        """Values of the polynomial if it is the reference, else of the inverse of the other, near it."""
        own, found = self.parameters, _polynomial(values, polynomial)
        if own.reference_poly.name == kind.name:
            return found, torch.ones_like(values, dtype=torch.bool)
        forward = kind is FThetaPolynomialType.ANGLE_TO_PIXELDIST
        reference = own.pixeldist_to_angle_poly if forward else own.angle_to_pixeldist_poly
        slope = [power * factor for power, factor in enumerate(reference)][1:]
        zero = values.new_zeros(())
        return _inverse(
            lambda at: (_polynomial(at, reference), _polynomial(at, slope)), values, found, zero, zero + math.inf
        )


def _polynomial(x: Tensor, factors: Sequence[Any]) -> Tensor:
    """From the constant upwards."""
    total = torch.zeros_like(x)
    for factor in reversed(factors):
        total = total * x + factor
    return total


def _slope_of_odd(factors: Sequence[Any]) -> list[Any]:
    """Of x (f0 + f1 x^2 + f2 x^4 ...), as a polynomial of x^2."""
    return [(2 * power + 1) * factor for power, factor in enumerate(factors)]


def _inverse(
    function: Callable[[Tensor], tuple[Tensor, Tensor]], values: Tensor, start: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    """Where a function, which comes with its slope, has these values, by Newton's method; and whether it was found."""
    found, step = start, torch.full_like(start, math.inf)
    for _ in range(_NEWTON_STEPS):
        value, slope = function(found)
        step = (value - values) / slope
        found = (found - step).maximum(low).minimum(high)
    return found, step.abs() <= _CONVERGED * found.abs().clamp_min(1.0)


def _rays(x: Tensor, y: Tensor, distance: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Directions at an angle to the axis, on the side of x, y at this distance from it."""
    # Where the distance is 0, so are x and y.
    scale = torch.sin(theta) / torch.where(distance > 0, distance, 1.0)
    return x * scale, y * scale, torch.cos(theta)
