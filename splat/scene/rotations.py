"""Rotations of scenes: of centres, of Gaussians, and of the spherical harmonics that are their colours.

The harmonics of a degree turn among themselves. Their matrices follow from that of the degree below, by the recursion
of Ivanic and Ruedenberg, *Rotation Matrices for Real Spherical Harmonics*, J. Phys. Chem. 1996, with the corrections of
1998.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .camera import UP
from .gaussians import Gaussians


def rotate_scene(scene: Gaussians, rotation: Tensor) -> Gaussians:
    """The scene turned around the origin by a rotation matrix [3, 3]; its colours turn along.

    A warning says if none of the axes is up any more.
    """
    rotation = rotation.double().cpu()
    device, kind = scene.means.device, scene.means.dtype
    sh = scene.sh.clone()
    for degree, matrix in enumerate(harmonic_rotations(rotation, scene.degree)):
        own = slice(degree**2, (degree + 1) ** 2)
        sh[:, own] = torch.einsum("ij,njc->nic", matrix.to(device, kind), scene.sh[:, own])
    turn = left_product(quaternion(rotation)).to(device, kind)
    up = _turned_axis(scene.up, rotation) if scene.up else None
    return replace(scene, quats=scene.quats @ turn.T, sh=sh, up=up).placed(scene.coordinates @ rotation.T.to(device))


def _turned_axis(up: str, rotation: Tensor) -> str | None:
    """What becomes of the axis that is up."""
    turned = rotation @ torch.tensor(UP[up], dtype=torch.float64)
    for axis, direction in UP.items():
        if torch.allclose(turned, torch.tensor(direction, dtype=torch.float64), rtol=0, atol=1e-6):
            return axis
    warnings.warn(f"that {up} is up is dropped: turned, it is none of the axes", stacklevel=3)
    return None


def rotation_about_axes(degrees: Sequence[float]) -> Tensor:
    """The rotation matrix [3, 3] of angles about the x axis, then the y axis, then the z axis, which stay in place."""
    rotation = torch.eye(3, dtype=torch.float64)
    for axis, angle in enumerate(degrees):
        first, second = (axis + 1) % 3, (axis + 2) % 3
        step = torch.eye(3, dtype=torch.float64)
        step[first, first] = step[second, second] = math.cos(math.radians(angle))
        step[second, first] = math.sin(math.radians(angle))
        step[first, second] = -step[second, first]
        rotation = step @ rotation
    return rotation


def quaternion(rotation: Tensor) -> Tensor:
    """The quaternions w, x, y, z [..., 4] of rotation matrices [..., 3, 3]."""
    # Each row is the quaternion times four times one of its components (Shepperd 1978); the longest is the most exact.
    r = rotation
    xx, yy, zz = (r[..., axis, axis] for axis in range(3))
    xy, xz, yz = r[..., 0, 1] + r[..., 1, 0], r[..., 0, 2] + r[..., 2, 0], r[..., 1, 2] + r[..., 2, 1]
    wx, wy, wz = r[..., 2, 1] - r[..., 1, 2], r[..., 0, 2] - r[..., 2, 0], r[..., 1, 0] - r[..., 0, 1]
    rows = torch.stack(
        [
            torch.stack([1 + xx + yy + zz, wx, wy, wz], dim=-1),
            torch.stack([wx, 1 + xx - yy - zz, xy, xz], dim=-1),
            torch.stack([wy, xy, 1 - xx + yy - zz, yz], dim=-1),
            torch.stack([wz, xz, yz, 1 - xx - yy + zz], dim=-1),
        ],
        dim=-2,
    )
    longest = rows.norm(dim=-1).argmax(dim=-1)[..., None, None].expand(*rows.shape[:-2], 1, 4)
    return torch.nn.functional.normalize(rows.gather(-2, longest).squeeze(-2), dim=-1)


def harmonic_rotations(rotation: Tensor, degree: int) -> list[Tensor]:
    """For the degrees 0 to `degree`, the matrices by which coefficients change when what they colour is turned."""
    # The harmonics of degree 1 are -y, z and -x in 3DGS; the recursion is for y, z and x.
    own = torch.tensor([1, 2, 0])
    matrices = [torch.ones(1, 1, dtype=torch.float64), rotation[own][:, own]]
    for level in range(2, degree + 1):
        matrices.append(_next_level(matrices[1], matrices[-1], level))
    return [_signed(matrix) for matrix in matrices[: degree + 1]]


def _signed(matrix: Tensor) -> Tensor:
    """The same matrix for harmonics of which those of odd order have the opposite sign."""
    level = len(matrix) // 2
    signs = torch.tensor([(-1.0) ** order for order in range(-level, level + 1)], dtype=matrix.dtype)
    return signs[:, None] * matrix * signs


def _next_level(first: Tensor, below: Tensor, level: int) -> Tensor:
    """The matrix of a degree, of that of degree 1 and that of the degree below; rows and columns are orders."""

    def product(i: int, a: int, n: int) -> Tensor:
        """P of the paper."""
        x, y, z = first[i + 1, 2], first[i + 1, 0], first[i + 1, 1]
        row = below[a + level - 1]
        if n == level:
            return x * row[-1] - y * row[0]
        if n == -level:
            return x * row[0] + y * row[-1]
        return z * row[n + level - 1]

    def entry(m: int, n: int) -> Tensor:
        scale = 1 / math.sqrt((level + n) * (level - n) if abs(n) < level else 2 * level * (2 * level - 1))
        size = abs(m)
        total = torch.zeros((), dtype=first.dtype)
        if size < level:
            total = total + math.sqrt((level + m) * (level - m)) * product(0, m, n)
        if m == 0:
            total = total - math.sqrt(level * (level - 1) / 2) * (product(1, 1, n) + product(-1, -1, n))
            return total * scale
        sign = 1 if m > 0 else -1
        v = math.sqrt((level + size - 1) * (level + size)) / 2
        if size == 1:
            total = total + v * math.sqrt(2) * product(sign, 0, n)
        else:
            total = total + v * (product(1, sign * (size - 1), n) - sign * product(-1, -sign * (size - 1), n))
        if size < level - 1:
            w = math.sqrt((level - size - 1) * (level - size)) / 2
            total = total - w * (product(1, sign * (size + 1), n) + sign * product(-1, -sign * (size + 1), n))
        return total * scale

    orders = range(-level, level + 1)
    return torch.stack([torch.stack([entry(m, n) for n in orders]) for m in orders])


def left_product(quat: Tensor) -> Tensor:
    """The matrix [4, 4] that multiplies a quaternion w, x, y, z by `quat` from the left."""
    w, x, y, z = quat.unbind()
    return torch.stack(
        [
            torch.stack([w, -x, -y, -z]),
            torch.stack([x, w, -z, y]),
            torch.stack([y, z, w, -x]),
            torch.stack([z, -y, x, w]),
        ]
    )
