"""Scenes moved by matrices that turn, enlarge and move, as the nodes of glTF have them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from .camera import rotation_rows
from .edits import scale_scene
from .gaussians import Gaussians, SceneError
from .rotations import quaternion, rotate_scene

_TOLERANCE = 1e-3
"""How far from a rotation a matrix may be: files are written with few digits."""
_SAME = 1e-6
"""How much the lengths of axes that are enlarged alike may differ."""


def transform_scene(scene: Gaussians, matrix: Tensor) -> Gaussians:
    """The scene moved by a matrix [4, 4] of float64; its colours turn along.

    Raises SceneError if the matrix does not turn, after it enlarged along the axes, and move.
    """
    linear, shift = matrix[:3, :3], matrix[:3, 3]
    lengths = linear.norm(dim=0)
    rotation = linear / lengths
    one = torch.eye(3, dtype=torch.float64)
    if not (
        matrix.isfinite().all()
        and lengths.min() > 0
        and matrix[3].tolist() == [0, 0, 0, 1]
        and torch.allclose(rotation.T @ rotation, one, rtol=0, atol=_TOLERANCE)
        and torch.linalg.det(rotation) > 0
    ):
        raise SceneError("a matrix that turns, enlarges and moves is required, found one that mirrors, shears or worse")
    if not torch.allclose(lengths, lengths[0], rtol=_SAME, atol=0):
        scene = _stretched(scene, lengths)
    elif not torch.allclose(lengths, one[0, 0], rtol=_SAME, atol=0):
        scene = scale_scene(scene, float(lengths[0]))
    if not torch.equal(rotation, one):
        scene = rotate_scene(scene, rotation)
    return scene if not shift.any() else scene.placed(scene.coordinates + shift)


def _stretched(scene: Gaussians, lengths: Tensor) -> Gaussians:
    """The scene enlarged by a factor for each axis [3]; what is not finite stays so."""
    unit = torch.nn.functional.normalize(scene.quats.double(), dim=1)
    turn = torch.stack([torch.stack(row, dim=-1) for row in rotation_rows(unit.unbind(1))], dim=-2)
    axes = lengths[:, None] * turn * scene.scales.double()[:, None]
    finite = axes.isfinite().all(dim=2).all(dim=1)
    own, scales, _ = torch.linalg.svd(torch.where(finite[:, None, None], axes, 0.0))
    own = own * torch.linalg.det(own)[:, None, None]
    scales = torch.where(finite[:, None], scales, torch.nan)
    return replace(scene, quats=quaternion(own).float(), scales=scales.float()).placed(scene.coordinates * lengths)
