"""The cameras of moving pictures: along a path, smoothly, or once around a point."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import torch
from torch import Tensor

from .camera import Camera, rotation_rows
from .camera_file import viewmat_of
from .camera_path import CameraPath
from .rotations import left_product, quaternion


def cameras_along(path: CameraPath, count: int) -> Iterator[Camera]:
    """The cameras of `count` pictures, with the same time between all neighbours of the path.

    The first and the last are keyframes. Those of a closed path end before the first would come again, so that the
    pictures can be shown over and over.
    """
    steps = len(path.keyframes) - (not path.closed)
    times = count if path.closed else max(count - 1, 1)
    for number in range(count):
        yield camera_at(path, number * steps / times)


def camera_at(path: CameraPath, place: float) -> Camera:
    """The camera at a place on the path, of the first keyframe's size; whole numbers are the keyframes.

    In between, positions and rotations are on cubic Bezier curves, those of rotations on their sphere (Shoemake,
    Animating Rotation with Quaternion Curves, 1985), the shortest way. Focal lengths and near planes are on curves by
    their logarithms. At a keyframe a camera's speed is the mean of those to its neighbours, and at most the slower one:
    so it does not swing far past a keyframe whose neighbour is near, and rests between equal ones.

    Args:
        path: the keyframes.
        place: from 0 to the number of keyframes, less one for an open path.
    """
    number, share = math.floor(place), place % 1
    keyframe = _keyframe(path, number)
    if share == 0 and keyframe is not None:
        return keyframe
    found = [_keyframe(path, number + step) for step in (-1, 0, 1, 2)]
    poses = [None if camera is None else _pose(camera) for camera in found]
    position, turn, lens = (
        _curve(space, [None if pose is None else pose[part] for pose in poses], share)
        for part, space in enumerate((_FLAT, _SPHERE, _FLAT))
    )
    fx, fy, near = lens[:3].exp().tolist()
    across, down = lens[3:].tolist()
    viewmat = viewmat_of(turn.tolist(), position)
    first = path.keyframes[0]
    K = torch.tensor([[fx, 0, across * first.width], [0, fy, down * first.height], [0, 0, 1]])
    return Camera(viewmat.float(), K, first.width, first.height, near)


def cameras_around(camera: Camera, point: Sequence[float], axis: Sequence[float], count: int) -> Iterator[Camera]:
    """The cameras of `count` pictures of one turn about an axis through a point, counter-clockwise from above.

    Args:
        camera: the first one.
        point: x, y, z in the world.
        axis: x, y, z of length 1, upwards.
        count: of pictures; the last one comes before the first again.
    """
    middle = torch.tensor(point, dtype=torch.float64)
    turn, shift = camera.viewmat[:3, :3].double(), camera.viewmat[:3, 3].double()
    yield camera
    for number in range(1, count):
        half = math.pi * number / count
        back = torch.tensor(rotation_rows([math.cos(half), *(-math.sin(half) * part for part in axis)])).double()
        viewmat = torch.eye(4, dtype=torch.float64)
        viewmat[:3, :3] = turn @ back
        viewmat[:3, 3] = shift + turn @ (middle - back @ middle)
        yield Camera(viewmat.float(), camera.K, camera.width, camera.height, camera.near)


def _keyframe(path: CameraPath, number: int) -> Camera | None:
    """A keyframe, of the first one's size; None beyond the ends of an open path."""
    count, first = len(path.keyframes), path.keyframes[0]
    if path.closed:
        number %= count
    return path.keyframes[number].of_size(first.width, first.height) if 0 <= number < count else None


class _Pose(NamedTuple):
    """What of a camera moves, in float64."""

    position: Tensor
    """[3] in the world."""
    turn: Tensor
    """[4], quaternion w, x, y, z from the camera's axes to the world's."""
    lens: Tensor
    """[5], the logarithms of both focal lengths and of the near plane, and the principal point by the sides."""


def _pose(camera: Camera) -> _Pose:
    turn, shift = camera.viewmat[:3, :3].double().T, camera.viewmat[:3, 3].double()
    (fx, _, cx), (_, fy, cy), _ = camera.K.tolist()
    lens = [math.log(fx), math.log(fy), math.log(camera.near), cx / camera.width, cy / camera.height]
    return _Pose(-turn @ shift, quaternion(turn), torch.tensor(lens, dtype=torch.float64))


class _Space(NamedTuple):
    """What curves need of the space that they are in."""

    step: Callable[[Tensor, Tensor], Tensor]
    """The vector that leads from a point to another, the shortest way."""
    moved: Callable[[Tensor, Tensor], Tensor]
    """Where a vector leads from a point."""
    between: Callable[[Tensor, Tensor, float], Tensor]
    """The point at a share of the way from one to another."""


def _rotation_step(start: Tensor, end: Tensor) -> Tensor:
    """[3], the axis times the angle, in the axes of `start`."""
    w, *xyz = (left_product(start * _CONJUGATE) @ end).tolist()
    axis = torch.tensor(xyz, dtype=torch.float64) * (1 if w >= 0 else -1)
    length = float(axis.norm())
    return axis * (2 * math.atan2(length, abs(w)) / length if length else 0.0)


def _rotation_moved(start: Tensor, step: Tensor) -> Tensor:
    half = float(step.norm()) / 2
    vector = step * (math.sin(half) / (2 * half) if half else 0.5)
    return left_product(start) @ torch.cat([torch.tensor([math.cos(half)], dtype=torch.float64), vector])


def _rotation_between(start: Tensor, end: Tensor, share: float) -> Tensor:
    angle = 2 * math.atan2(float((end - start).norm()), float((end + start).norm()))
    if math.sin(angle) < 1e-9:
        return torch.nn.functional.normalize(start.lerp(end, share), dim=0)
    return (math.sin((1 - share) * angle) * start + math.sin(share * angle) * end) / math.sin(angle)


_CONJUGATE: Final = torch.tensor([1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
_FLAT: Final = _Space(lambda start, end: end - start, torch.add, torch.lerp)
_SPHERE: Final = _Space(_rotation_step, _rotation_moved, _rotation_between)


def _curve(space: _Space, points: Sequence[Tensor | None], share: float) -> Tensor:
    """The point at a share of the way from the second of four points to the third; the outer ones may be missing."""
    before, start, end, after = points
    if start is None or end is None:
        raise ValueError("a place on the path is required, found one beyond its end")
    if space is _SPHERE and start @ end < 0:
        end = -end  # the same rotation, on the near side
    step = space.step(start, end)
    leaving = step if before is None else _speed(step, space.step(before, start))
    arriving = step if after is None else _speed(step, space.step(end, after))
    controls = [start, space.moved(start, leaving / 3), space.moved(end, -arriving / 3), end]
    while len(controls) > 1:  # de Casteljau
        controls = [space.between(one, other, share) for one, other in pairwise(controls)]
    return controls[0]


def _speed(one: Tensor, other: Tensor) -> Tensor:
    """The mean of two steps, no longer than the shorter."""
    mean = (one + other) / 2
    most, length = min(float(one.norm()), float(other.norm())), float(mean.norm())
    return mean * (most / length) if length > most else mean
