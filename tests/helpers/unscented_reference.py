"""The unscented transform of Gaussians through lenses and shutters in float64 NumPy, one Gaussian at a time.

By its definition with all weights (Wan and van der Merwe 2000, equation 15), and poses between two by quaternions
(Shoemake 1985). What is seen is gsplat 1.5.3's. Arguments are those of `fully_fused_projection_with_ut`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

Lens = Callable[[np.ndarray], tuple[np.ndarray, bool]]


def pinhole_lens(K: np.ndarray, radial: np.ndarray, tangential: np.ndarray, prism: np.ndarray) -> Lens:
    """OpenCV's pinhole camera."""

    def project(point: np.ndarray) -> tuple[np.ndarray, bool]:
        if point[2] <= 0:
            return np.zeros(2), False
        x, y = point[:2] / point[2]
        r2 = x * x + y * y
        factor = (1 + radial[:3] @ [r2, r2**2, r2**3]) / (1 + radial[3:] @ [r2, r2**2, r2**3])
        p1, p2 = tangential
        u = x * factor + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + prism[0] * r2 + prism[1] * r2**2
        v = y * factor + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y + prism[2] * r2 + prism[3] * r2**2
        return K[[0, 1], [0, 1]] * (u, v) + K[:2, 2], bool(factor > 0.8)

    return project


def fisheye_lens(K: np.ndarray, radial: np.ndarray, width: int, height: int) -> Lens:
    """OpenCV's fisheye camera, up to the angle where its polynomial turns or the corners of the picture."""
    growth = Polynomial([0, 1, 0, radial[0], 0, radial[1], 0, radial[2], 0, radial[3]])
    turns = [root.real for root in growth.deriv().roots() if abs(root.imag) < 1e-9 and root.real > 0]
    corner = np.hypot(max(width - K[0, 2], K[0, 2]), max(height - K[1, 2], K[1, 2]))
    most = min([*turns, corner / min(K[0, 0], K[1, 1])])

    def project(point: np.ndarray) -> tuple[np.ndarray, bool]:
        if point[2] <= 0:
            return np.zeros(2), False
        beside = np.hypot(*point[:2])
        distance = growth(min(math.atan2(beside, point[2]), most))
        return K[[0, 1], [0, 1]] * point[:2] / beside * distance + K[:2, 2], bool(distance > 0)

    return project


def ftheta_lens(K: np.ndarray, parameters: Any) -> Lens:
    """An f-theta camera; an inverse by bisection."""

    def project(point: np.ndarray) -> tuple[np.ndarray, bool]:
        if point[2] <= 0:
            return np.zeros(2), False
        beside = np.hypot(*point[:2])
        theta = min(math.atan2(beside, point[2]), parameters.max_angle)
        distance = Polynomial(parameters.angle_to_pixeldist_poly)(theta)
        if parameters.reference_poly.name == "PIXELDIST_TO_ANGLE":
            low, high = 0.0, 2 * distance
            for _ in range(80):
                middle = (low + high) / 2
                below = Polynomial(parameters.pixeldist_to_angle_poly)(middle) < theta
                low, high = (middle, high) if below else (low, middle)
            distance = low
        c, d, e = parameters.linear_cde
        return np.array([[c, d], [e, 1]]) @ point[:2] / beside * distance + K[:2, 2] + 0.5, True

    return project


def _quaternion(rotation: np.ndarray) -> np.ndarray:
    """w, x, y, z, of a rotation of less than half a turn."""
    w = math.sqrt(1 + np.trace(rotation)) / 2
    skew = rotation - rotation.T
    return np.array([w, *(skew[[2, 0, 1], [1, 2, 0]] / (4 * w))])


def rotation_of(quaternion: np.ndarray) -> np.ndarray:
    """The matrix of a quaternion of any length."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def pose_at(first: np.ndarray, last: np.ndarray | None, time: float) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and translation at a time from 0 to 1."""
    if last is None:
        return first[:3, :3], first[:3, 3]
    turn = _quaternion(last[:3, :3] @ first[:3, :3].T)
    half = math.acos(min(1.0, turn[0]))
    axis = turn[1:] / max(np.linalg.norm(turn[1:]), 1e-30)
    between = np.array([math.cos(time * half), *(math.sin(time * half) * axis)])
    return rotation_of(between) @ first[:3, :3], (1 - time) * first[:3, 3] + time * last[:3, 3]


def time_of(shutter: str, pixel: np.ndarray, width: int, height: int) -> float:
    """When a pixel is read."""
    return {
        "ROLLING_TOP_TO_BOTTOM": np.floor(pixel[1]) / (height - 1),
        "ROLLING_LEFT_TO_RIGHT": np.floor(pixel[0]) / (width - 1),
        "ROLLING_BOTTOM_TO_TOP": (height - np.ceil(pixel[1])) / (height - 1),
        "ROLLING_RIGHT_TO_LEFT": (width - np.ceil(pixel[0])) / (width - 1),
    }[shutter]


def project(
    lens: Lens,
    mean: np.ndarray,
    quat: np.ndarray,
    scale: np.ndarray,
    opacity: float,
    first: np.ndarray,
    last: np.ndarray | None,
    shutter: str,
    width: int,
    height: int,
    parameters: Any,
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray, float] | None:
    """Radii, mean, depth, conic and compensation of one Gaussian in one image; None where it is not seen."""

    def seen_at(point: np.ndarray, time: float) -> tuple[np.ndarray, bool]:
        rotation, translation = pose_at(first, last, time)
        pixel, valid = lens(rotation @ point + translation)
        size = np.array([width, height])
        margin = parameters.in_image_margin_factor * size
        return pixel, valid and bool(((-margin <= pixel) & (pixel < size + margin)).all())

    def image_point(point: np.ndarray) -> tuple[np.ndarray, bool]:
        pixel, valid = seen_at(point, 0.0)
        if last is None:
            return pixel, valid
        if not valid:
            pixel, valid = seen_at(point, 1.0)
        for _ in range(10 if valid else 0):
            pixel, _ = seen_at(point, time_of(shutter, pixel, width, height))
        return pixel, valid

    rotation, translation = pose_at(first, last, 0.5)
    depth = (rotation @ mean + translation)[2]
    spread = parameters.alpha**2 * (3 + parameters.kappa)
    away = math.sqrt(spread) * rotation_of(quat) * scale
    points = [mean, *(mean + away[:, axis] for axis in range(3)), *(mean - away[:, axis] for axis in range(3))]
    pixels, valid = zip(*map(image_point, points), strict=True)
    enough = all(valid) if parameters.require_all_sigma_points_valid else any(valid)
    if not (depth >= 0.01 and enough):
        return None
    weights = np.array([1 - 3 / spread, *[0.5 / spread] * 6])
    mean2d = weights @ np.array(pixels)
    weights[0] += 1 - parameters.alpha**2 + parameters.beta
    differences = np.array(pixels) - mean2d
    covariance = (weights[:, None] * differences).T @ differences
    blurred = covariance + 0.3 * np.eye(2)
    compensation = math.sqrt(max(0.0, np.linalg.det(covariance) / np.linalg.det(blurred)))
    if opacity * compensation < 1 / 255:
        return None
    extent = min(3.33, math.sqrt(2 * math.log(255 * opacity * compensation)))
    radii = np.ceil(extent * np.sqrt(np.diag(blurred)))
    if not ((mean2d + radii > 0) & (mean2d - radii < [width, height])).all():
        return None
    return radii, mean2d, depth, np.linalg.inv(blurred)[[0, 0, 1], [0, 1, 1]], compensation
