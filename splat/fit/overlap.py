"""What several cameras see together: whether photographs overlap, and random points where they do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from ..ops.lens_cameras import Camera
from ..scene.gaussians import SceneError

_SAMPLE: Final = 4000
_DRAWS: Final = 20


def seen_by(points: Tensor, cameras: Sequence[Camera]) -> Tensor:
    """[C, P] of bool: whether a camera has a point [P, 3] in its picture, if nothing is in the way."""
    return torch.stack([camera.image_points(points.T, 0.0)[2] for camera in cameras])


def some_of(points: Tensor) -> Tensor:
    """Points of [P, 3], a few thousand, that stand for all."""
    return points[:: max(len(points) // _SAMPLE, 1)]


def check_places(what: str, viewmats: Tensor) -> None:
    """SceneError if several cameras [C, 4, 4] all stand in one place."""
    centers = -(viewmats[:, :3, :3].mT @ viewmats[:, :3, 3:])[..., 0]
    if not float((centers - centers[0]).abs().max()) > 1e-6 * max(float(centers.abs().max()), 1e-30):
        raise SceneError(
            f"{what}: photographs from several places are required, found {len(centers)} from a single one, which say "
            "nothing about distances"
        )


def check_overlap(what: str, points: Tensor, cameras: Sequence[Camera]) -> None:
    """SceneError unless some of the points are in two pictures; a warning counts the pictures that share none.

    A single picture must show some.
    """
    seen = seen_by(some_of(points), cameras)
    shared = seen[:, seen.sum(dim=0) >= min(2, len(cameras))].any(dim=1)
    if not shared.any():
        raise _no_overlap(what)
    if not shared.all():
        warnings.warn(
            f"{what}: {int((~shared).sum())} of {len(shared)} pictures show nothing that any other picture shows",
            stacklevel=2,
        )


def shared_points(what: str, count: int, cameras: Sequence[Camera], generator: torch.Generator) -> Tensor:
    """`count` random points [count, 3] that two cameras see at least, or the only one; SceneError if there hardly are
    any.

    They are drawn along the cameras' rays, at a fifth of the distance to what the cameras look at to 2.5 times as much.
    """
    turns, shifts = (torch.stack([getattr(each, part) for each in cameras]) for part in ("rotation", "translation"))
    centers, axes = -(turns.mT @ shifts[..., None])[..., 0], turns[:, 2]
    middle = looked_at(centers, axes)
    spread = torch.linalg.vector_norm(centers - centers.mean(0), dim=1).max()
    distance = torch.maximum(torch.linalg.vector_norm(centers - middle, dim=1).mean(), spread)
    extent = torch.tensor([(each.width, each.height) for each in cameras], dtype=turns.dtype)
    found: list[Tensor] = []
    for _ in range(_DRAWS):
        batch = max(2 * count, 1000)
        views = torch.randint(len(cameras), (batch,), generator=generator)
        pixels = torch.rand(batch, 2, generator=generator, dtype=turns.dtype) * extent[views]
        depths = distance * 0.2 * 12.5 ** torch.rand(batch, 1, generator=generator, dtype=turns.dtype)
        rays = torch.empty(batch, 3, dtype=turns.dtype)
        rows = torch.split(views.argsort(), torch.bincount(views, minlength=len(cameras)).tolist())
        for own, camera in zip(rows, cameras, strict=True):
            rays[own] = torch.stack(camera.lens.unproject(*pixels[own].unbind(1))[:3], dim=1)
        points = (turns[views].mT @ (rays * depths - shifts[views])[..., None])[..., 0]
        # One camera at a time: a file may name 40,000.
        counts = torch.zeros(batch, dtype=torch.int32)
        for camera in cameras:
            counts += seen_by(points, [camera])[0]
        found.append(points[counts >= min(2, len(cameras))])
        if sum(map(len, found)) >= count:
            return torch.cat(found)[:count]
    raise _no_overlap(what)


def looked_at(centers: Tensor, axes: Tensor) -> Tensor:
    """The point [3] nearest to the axes [C, 3] of all cameras, which stand at `centers` [C, 3]."""
    across = torch.eye(3, dtype=centers.dtype) - axes[:, :, None] * axes[:, None]
    # The small terms decide if the axes cannot, for one camera or parallel ones: the point is as far ahead as they are
    # apart, or one unit.
    apart = float(torch.linalg.vector_norm(centers - centers.mean(0), dim=1).max()) or 1.0
    ahead = (centers + apart * axes).mean(0)
    system = across.sum(0) + 1e-6 * torch.eye(3)
    middle: Tensor = torch.linalg.solve(system, (across @ centers[..., None]).sum(0)[:, 0] + 1e-6 * ahead)
    return middle


def _no_overlap(what: str) -> SceneError:
    return SceneError(
        f"{what}: pictures of one scene from several places are required, found none that show the same part of it; "
        "check the cameras' poses"
    )
