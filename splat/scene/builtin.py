"""A built-in scene that can be rendered without a file: a glossy trefoil knot above a chequered floor.

Everything is computed from formulas, without random numbers. Y points up.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from .gaussians import SH_C0, Gaussians
from .rotations import quaternion

Array = npt.NDArray[np.float64]

_LIGHT: Final = np.array([0.35, 0.85, 0.4]) / np.linalg.norm([0.35, 0.85, 0.4])
_TUBE: Final = 0.28
_FLOOR: Final = -1.75
_GLOSS: Final = 7.0


def knot_scene() -> Gaussians:
    """The scene: about 14,000 Gaussians with SH of degree 3, on the CPU."""
    parts = [part.tensors for part in (_knot(), _floor())]
    return Gaussians(*(torch.cat(values) for values in zip(*parts, strict=True)), up="y")


def _curve(t: Array) -> Array:
    """The knot's centre line, [len(t), 3]: twice around the z axis and three times around its core."""
    radius = 1.0 + 0.5 * np.cos(3 * t)
    return np.stack([radius * np.cos(2 * t), radius * np.sin(2 * t), 0.5 * np.sin(3 * t)], axis=1)


def _knot(turns: int = 420, around: int = 22) -> Gaussians:
    t = np.linspace(0, 2 * np.pi, turns, endpoint=False)
    step = 1e-4
    tangent = _unit(_curve(t + step) - _curve(t - step))
    # Across the tube: outwards from the ring that the centre line winds around, made perpendicular to the tangent.
    ring = np.stack([np.cos(2 * t), np.sin(2 * t), np.zeros_like(t)], axis=1)
    across = _unit(ring - (ring * tangent).sum(axis=1, keepdims=True) * tangent)
    third = np.cross(tangent, across)

    # Every second ring is rotated by half a step, so that the discs fill the gaps of their neighbours.
    angle = 2 * np.pi * (np.arange(around) + 0.5 * (np.arange(turns) % 2)[:, None]) / around
    normal = np.cos(angle)[..., None] * across[:, None] + np.sin(angle)[..., None] * third[:, None]
    normal = normal.reshape(-1, 3)
    along = np.repeat(tangent, around, axis=0)
    means = np.repeat(_curve(t), around, axis=0) + _TUBE * normal

    spacing = np.linalg.norm(np.diff(_curve(t), axis=0, append=_curve(t[:1])), axis=1)
    scales = np.stack(
        [
            0.8 * np.repeat(spacing, around),
            np.full(len(means), 0.55 * 2 * np.pi * _TUBE / around),
            np.full(len(means), 0.004),
        ],
        axis=1,
    )
    phase = np.repeat(t, around)[:, None] * 2 + np.array([0.0, 2.1, 4.2])
    paint = 0.5 + 0.42 * np.cos(phase)
    lit = np.clip(normal @ _LIGHT, 0, None)[:, None]
    sky = 0.5 + 0.5 * normal[:, 1:2]
    return _surface(means, along, normal, scales, paint * (0.28 + 0.2 * sky + 0.6 * lit), np.where(lit > 0, 0.75, 0))


def _floor(radius: float = 2.7, square: float = 0.6, per_square: int = 9) -> Gaussians:
    spacing = square / per_square
    line = np.arange(-radius, radius, spacing) + spacing / 2
    x, z = (values.ravel() for values in np.meshgrid(line, line))
    distance = np.hypot(x, z)
    x, z, distance = (values[distance < radius] for values in (x, z, distance))
    means = np.stack([x, np.full_like(x, _FLOOR), z], axis=1)
    normal = np.tile([0.0, 1.0, 0.0], (len(means), 1))
    along = np.tile([1.0, 0.0, 0.0], (len(means), 1))
    scales = np.tile([0.6 * spacing, 0.6 * spacing, 0.004], (len(means), 1))

    squares = (np.floor(x / square) + np.floor(z / square)) % 2
    paint = np.where(squares[:, None] > 0, [0.86, 0.84, 0.80], [0.34, 0.40, 0.50])
    # Light reaches the floor unless its path passes close to the knot's centre line; near the edge it fades.
    to_knot = _curve(np.linspace(0, 2 * np.pi, 240))[None] - means[:, None]
    clearance = np.linalg.norm(np.cross(to_knot, _LIGHT), axis=2).min(axis=1)
    light = np.clip((clearance - 0.7 * _TUBE) / (0.8 * _TUBE), 0, 1)[:, None]
    edge = np.clip((radius - distance) / 0.5, 0, 1)
    return _surface(means, along, normal, scales, paint * (0.45 + 0.55 * light), 0.12 * light, opacities=0.98 * edge)


def _surface(
    means: Array,
    along: Array,
    normal: Array,
    scales: Array,
    color: Array,
    shine: Array,
    opacities: Array | None = None,
) -> Gaussians:
    """Discs on a surface. The scales are along `along`, across it within the surface, and along the normal."""
    axes = np.stack([along, np.cross(normal, along), normal], axis=2)
    sh = np.zeros((len(means), 16, 3))
    sh[:, 0] = (color - 0.5) / SH_C0
    # A highlight where the camera sees the mirrored light: exp(gloss (cos - 1)) around that axis, whose band l has a
    # weight of about 2 pi / gloss * exp(-l (l + 1) / (2 gloss)).
    mirrored = _LIGHT - 2 * (normal @ _LIGHT)[:, None] * normal
    band = np.floor(np.sqrt(np.arange(16)))
    weights = 2 * np.pi / _GLOSS * np.exp(-band * (band + 1) / (2 * _GLOSS))
    sh += shine[..., None] * (weights * _harmonics(mirrored))[..., None]
    return Gaussians(
        means=_tensor(means),
        quats=quaternion(torch.from_numpy(axes)).float(),
        scales=_tensor(scales),
        opacities=_tensor(np.full(len(means), 0.97) if opacities is None else opacities),
        sh=_tensor(sh),
    )


def _harmonics(directions: Array) -> Array:
    """Real spherical harmonics up to degree 3 at unit directions [N, 3]: [N, 16], in the order and signs of
    3DGS."""
    x, y, z = directions.T
    xx, yy, zz = x * x, y * y, z * z
    pi = np.pi
    return np.stack(
        [
            np.full_like(x, np.sqrt(1 / (4 * pi))),
            *(np.sqrt(3 / (4 * pi)) * np.stack([-y, z, -x])),
            *(np.sqrt(15 / (4 * pi)) * np.stack([x * y, -y * z])),
            np.sqrt(5 / (16 * pi)) * (3 * zz - 1),
            *(np.sqrt(15 / (4 * pi)) * np.stack([-x * z, (xx - yy) / 2])),
            -np.sqrt(35 / (32 * pi)) * y * (3 * xx - yy),
            np.sqrt(105 / (4 * pi)) * x * y * z,
            -np.sqrt(21 / (32 * pi)) * y * (5 * zz - 1),
            np.sqrt(7 / (16 * pi)) * z * (5 * zz - 3),
            -np.sqrt(21 / (32 * pi)) * x * (5 * zz - 1),
            np.sqrt(105 / (16 * pi)) * z * (xx - yy),
            -np.sqrt(35 / (32 * pi)) * x * (xx - 3 * yy),
        ],
        axis=1,
    )


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def _tensor(values: Array) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))
