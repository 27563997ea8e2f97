"""Conversion between a page's cameras and the rasterizer's.

The page describes a camera by its position, a quaternion from the camera's axes (x right, y down, z forward) to the
world's, and its vertical field of view.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple

import torch

from ..scene.camera import Camera
from ..scene.camera_file import viewmat_of
from ..scene.gaussians import SceneError
from .resolution import scaled_size

MOST_PIXELS: Final = 3840 * 2160
"""The most pixels of a picture; larger pages get one of this many."""
_LARGEST: Final = 1e15

Numbers = tuple[float, ...]


class Pose(NamedTuple):
    """The camera of a page, as the page reports it; nothing is checked yet."""

    rotation: Numbers
    """Quaternion w, x, y, z from the camera's axes to the world's."""
    position: Numbers
    """x, y, z in the world."""
    fov: float
    """Radians that the height covers."""
    width: int
    """Pixels of the page."""
    height: int


class Aim(NamedTuple):
    """How a page's camera must be set to show what a given camera sees."""

    position: Numbers
    look_at: Numbers
    """The point in the middle, around which the page orbits."""
    up: Numbers
    fov: float
    """Radians that the height covers."""
    near: float
    """Where the page begins to draw what it draws by itself."""


def camera_of(pose: Pose, near: float) -> Camera:
    """The camera of a page; its size has the page's shape and at most `MOST_PIXELS`.

    Raises SceneError if a value is not finite or out of range.
    """
    numbers = [*pose.rotation, *pose.position, pose.fov, pose.width, pose.height]
    if not all(isinstance(number, (int, float)) and abs(number) <= _LARGEST for number in numbers):
        raise SceneError(
            f"the numbers of a camera must be finite and at most {_LARGEST:g}, found others; reset the view"
        )
    length = math.sqrt(sum(number * number for number in pose.rotation))
    if length < 1e-6 or len(pose.rotation) != 4 or len(pose.position) != 3:
        raise SceneError("a camera must have a rotation of length 1 and a position, found another; reset the view")
    if not (0.01 <= pose.fov <= math.pi - 0.01 and min(pose.width, pose.height) >= 1):
        raise SceneError(
            "a camera must see between 0 and 180 degrees and at least one pixel, found "
            f"{math.degrees(pose.fov):g} degrees, {pose.width}x{pose.height}; reset the view"
        )
    scale = min(1.0, math.sqrt(MOST_PIXELS / (pose.width * pose.height)))
    width, height = (min(side, MOST_PIXELS) for side in scaled_size(int(pose.width), int(pose.height), scale))
    focal = 0.5 * height / math.tan(pose.fov / 2)
    viewmat = viewmat_of(
        [number / length for number in pose.rotation], torch.tensor(pose.position, dtype=torch.float64)
    )
    K = torch.tensor([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    return Camera(viewmat=viewmat.float(), K=K.float(), width=width, height=height, near=near)


def resized(camera: Camera, scale: float) -> Camera:
    """The same view with fewer pixels."""
    width, height = scaled_size(camera.width, camera.height, scale)
    factors = torch.tensor([[width / camera.width], [height / camera.height], [1.0]])
    return Camera(viewmat=camera.viewmat, K=camera.K * factors, width=width, height=height, near=camera.near)


def part_of(camera: Camera, corner: Numbers, other: Numbers) -> Camera:
    """What a camera sees within a box of its picture, at least a pixel each way.

    Raises SceneError if the corners, as shares of the width and the height, are not two points.
    """
    if not all(math.isfinite(share) for share in (*corner, *other)):
        raise SceneError("two corners of a box in the picture are required, found others; drag it again")
    sides = []
    for one, another, most in zip(corner, other, (camera.width, camera.height), strict=True):
        low, high = (min(max(share, 0.0), 1.0) * most for share in sorted((one, another)))
        start = min(math.floor(low), most - 1)
        sides.append((start, max(math.ceil(high) - start, 1)))
    (left, width), (top, height) = sides
    K = camera.K - torch.tensor([[0.0, 0, left], [0, 0, top], [0, 0, 0]])
    return replace(camera, K=K, width=width, height=height)


def aim_of(camera: Camera, up: Numbers | None, around: Numbers, page: Pose | None = None) -> Aim:
    """How to set a page's camera so that it shows all that `camera` does.

    Args:
        camera: where to look from.
        up: x, y, z of the direction that stays upright while the page orbits; None: the camera's own, so that a camera
            that is rolled stays so.
        around: x, y, z of the scene's middle; the page orbits around the point in the picture's middle at its depth.
        page: a page, whose shape is considered; None: one of the camera's.
    """
    turn, shift = camera.viewmat[:3, :3].double(), camera.viewmat[:3, 3].double()
    position, forward = -turn.T @ shift, turn[2]
    depth = float(forward @ (torch.tensor(around, dtype=torch.float64) - position))
    look_at = position + max(depth, camera.near) * forward
    if page is not None and 1 <= min(page.width, page.height) <= max(page.width, page.height) <= _LARGEST:
        camera = camera.of_size(page.width, page.height)
    fov = 2 * math.atan(camera.height / (2 * float(camera.K[1, 1])))
    upright = tuple((-turn[1]).tolist()) if up is None else up
    return Aim(tuple(position.tolist()), tuple(look_at.tolist()), upright, fov, camera.near)
