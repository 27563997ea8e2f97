"""Cameras with a lens and a shutter: the pixels of points of the world, and the rays of pixels.

Shapes: `...` leading batch dimensions, C cameras of each batch, I images of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from .arguments import Sizes
from .lens_directions import lens_directions
from .lenses import (
    FisheyeLens,
    FThetaCameraDistortionParameters,
    FThetaLens,
    Intrinsics,
    Lens,
    PinholeLens,
    fisheye_lens,
)

LENS_COEFFICIENTS: Final = {"pinhole": (6, 2, 4), "fisheye": (4, 0, 0), "ftheta": (0, 0, 0)}
"""The camera models of the unscented transform and of rays: how many coefficients they have that are radial, tangential
and of a thin prism.
"""
_SHUTTER_STEPS: Final = 10  # gsplat's


@dataclass(frozen=True)
class Camera:
    """One camera, in float64. `turn` and `shift` are None where all pixels are taken at once."""

    lens: Lens
    width: int
    height: int
    shutter: str
    rotation: Tensor  # [3, 3], from the world to the camera, when the first row or column is taken
    translation: Tensor  # [3]
    turn: tuple[Tensor, Tensor] | None  # the axis [3] and the angle by which the camera turns until the last
    shift: Tensor | None  # [3]

    def to_camera(self, points: Tensor, time: float) -> Tensor:
        """Points [3, n] of the world in the camera's coordinates, at a time from 0 to 1."""
        return self._moved(self._parts(self.rotation @ points), time)

    def image_points(self, points: Tensor, margin: float) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels u, v of points [3, n] of the world, and whether they are in the picture or in a margin around it.

        With a rolling shutter, a point is seen when the row or column is taken that shows it: found as gsplat does, in
        a fixed number of steps, beginning where it is at the start, or else at the end.
        """
        parts = self._parts(self.rotation @ points)
        u, v, valid = self._image_points_at(parts, 0.0, margin)
        if self.turn is None:
            return u, v, valid
        last_u, last_v, last_valid = self._image_points_at(parts, 1.0, margin)
        u, v, valid = torch.where(valid, u, last_u), torch.where(valid, v, last_v), valid | last_valid
        # Once its time stays the same, so does the point: on the CPU, only others go on. A GPU would be waited for.
        counted = u.device.type == "cpu" and not torch.compiler.is_compiling()
        which: Any = valid.nonzero()[:, 0] if counted else slice(None)
        found, times = torch.stack([u, v]), self.times(u, v)[which]
        for _ in range(_SHUTTER_STEPS):
            *at, _ = self._image_points_at(tuple(part[:, which] for part in parts), times, margin)
            found[:, which] = torch.stack(at)
            before, times = times, self.times(*at)
            if counted:
                moves = times != before
                which, times = which[moves], times[moves]
        return torch.where(valid, found[0], u), torch.where(valid, found[1], v), valid

    def _image_points_at(
        self, parts: tuple[Tensor, ...], times: Tensor | float, margin: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        u, v, valid = self.lens.project(*self._moved(parts, times).unbind())
        beside_x, beside_y = self.width * margin, self.height * margin
        inside = (u >= -beside_x) & (u < self.width + beside_x) & (v >= -beside_y) & (v < self.height + beside_y)
        return u, v, valid & inside

    def times(self, u: Tensor, v: Tensor) -> Tensor:
        """When a pixel is taken, from 0 to 1 in the picture."""
        if "LEFT" in self.shutter:
            place, size = u, self.width
        else:
            place, size = v, self.height
        forwards = self.shutter in ("ROLLING_TOP_TO_BOTTOM", "ROLLING_LEFT_TO_RIGHT")
        return (place.floor() if forwards else size - place.ceil()) / max(size - 1, 1)

    def rays(self, directions: Tensor) -> Tensor:
        """float32 [height, width, 6]: in the world, the origin and the direction, of length 1, of each pixel's centre.

        From directions [height, width, 3] in the camera, zeros where the lens sees nothing, as they are then here.
        """
        across, time = "LEFT" in self.shutter, self.translation.new_zeros(1)
        if self.turn is not None:
            centres = torch.arange(self.width if across else self.height, device=time.device).to(time) + 0.5
            time = self.times(centres, centres)
        # One pose of the camera for each line of pixels, or for all. The inverse of a rotation is its transpose.
        rotations = self._turned(self._parts(self.rotation), 1, time[:, None, None])
        origins = -(self._translations(time).mT[:, None] @ rotations).float()
        lines = directions.transpose(0, 1) if across else directions
        turned = (lines @ rotations).float()
        rays = torch.cat([origins.expand_as(turned), turned], dim=-1)
        return rays.transpose(0, 1) if across else rays

    def _moved(self, parts: tuple[Tensor, ...], times: Tensor | float) -> Tensor:
        return self._turned(parts, 1, times) + self._translations(times)

    def _translations(self, times: Tensor | float) -> Tensor:
        """[3, 1] or [3, n]"""
        translation = self.translation[:, None]
        return translation if self.shift is None else translation + self.shift[:, None] * times

    def _parts(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """Vectors [3, n] along the axis about which the camera turns, away from it, and across both; or as they are."""
        if self.turn is None:
            return (vectors,)
        axis, _ = self.turn
        along = axis[:, None] * (axis @ vectors)
        unit = torch.eye(3, dtype=axis.dtype, device=axis.device)
        return along, vectors - along, torch.linalg.cross(axis.expand(3, 3), unit).mT @ vectors

    def _turned(self, parts: tuple[Tensor, ...], sign: int, times: Tensor | float) -> Tensor:
        """Vectors as the camera turns them until these times, or back (Rodrigues' formula)."""
        if self.turn is None:
            return parts[0]
        along, away, across = parts
        angles = sign * times * self.turn[1]
        return along + torch.cos(angles) * away + torch.sin(angles) * across


@dataclass(frozen=True)
class LensCameras:
    """The cameras of all images, checked: float32 tensors [I, *]."""

    model: str
    width: int
    height: int
    viewmats: Tensor
    Ks: Tensor
    coefficients: tuple[Tensor | None, ...]
    """Radial, tangential and of the thin prism."""
    ftheta: FThetaCameraDistortionParameters | None
    shutter: str
    viewmats_rs: Tensor | None

    def part(self, images: slice, viewmats: Tensor, Ks: Tensor, width: int, height: int) -> LensCameras:
        """Some of the cameras, for images of a size."""
        return self.with_tensors(lambda every: every[images], viewmats=viewmats, Ks=Ks, width=width, height=height)

    def with_tensors(self, change: Callable[[Tensor], Tensor], **others: Any) -> LensCameras:
        """The same kind of cameras, with each coefficient and last pose changed, and others of its values."""
        coefficients = tuple(None if each is None else change(each) for each in self.coefficients)
        last = None if self.viewmats_rs is None else change(self.viewmats_rs)
        return replace(self, coefficients=coefficients, viewmats_rs=last, **others)

    def values(self, image: int) -> tuple[Any, ...] | None:
        """The numbers that make a camera's lens; None if they are on a GPU, which would have to be waited for."""
        if self.Ks.is_cuda or torch.compiler.is_compiling():
            return None
        tensors = (None if each is None else each[image] for each in (self.Ks, *self.coefficients))
        return self.model, self.ftheta, *(None if each is None else tuple(each.flatten().tolist()) for each in tensors)

    def __iter__(self) -> Iterator[Camera]:
        return map(self._camera, range(len(self.viewmats)))

    def _camera(self, image: int) -> Camera:
        pose, turn, shift = self.viewmats[image].detach().double(), None, None
        rotation, translation = pose[:3, :3], pose[:3, 3]
        if self.viewmats_rs is not None:
            last = self.viewmats_rs[image].detach().double()
            turn, shift = _axis_and_angle(last[:3, :3] @ rotation.mT), last[:3, 3] - translation
        return Camera(self._lens(image), self.width, self.height, self.shutter, rotation, translation, turn, shift)

    def _lens(self, image: int) -> PinholeLens | FisheyeLens | FThetaLens:
        K = self.Ks[image].detach().double()
        intrinsics = Intrinsics(K[0, 0], K[1, 1], K[0, 2], K[1, 2])
        if self.ftheta is not None:
            return FThetaLens(intrinsics.cx, intrinsics.cy, self.ftheta)
        sizes = LENS_COEFFICIENTS[self.model]
        coefficients = tuple(
            factor
            for values, size in zip(self.coefficients, sizes, strict=True)
            for factor in (K.new_zeros(size) if values is None else values[image].detach().double()).unbind()
        )
        if 2 not in sizes:  # without tangential ones
            return fisheye_lens(intrinsics, coefficients, self.width, self.height)
        return PinholeLens(intrinsics, coefficients if any(each is not None for each in self.coefficients) else None)


def camera_rays(cameras: LensCameras, sizes: Sizes) -> Tensor:
    """float32 [..., C, height, width, 6]: in the world, the origin and direction of what each pixel's centre sees.

    A direction of zeros where the lens sees nothing.
    """
    shape = (*sizes.batch, sizes.cameras, cameras.height, cameras.width, 6)
    every = [
        camera.rays(lens_directions(camera.lens, camera.width, camera.height, cameras.values(image), camera.rotation))
        for image, camera in enumerate(cameras)
    ]
    return torch.stack(every).reshape(shape) if every else cameras.Ks.new_zeros(shape)


def _axis_and_angle(rotation: Tensor) -> tuple[Tensor, Tensor]:
    """The axis [3], of length 1, or zeros, and the angle of a rotation matrix, up to half a turn."""
    double = rotation - rotation.mT
    sines = torch.stack([double[2, 1], double[0, 2], double[1, 0]]) / 2
    length = torch.linalg.vector_norm(sines)
    angle = torch.atan2(length, (rotation.diagonal().sum() - 1) / 2)
    return sines / length.clamp_min(torch.finfo(length.dtype).tiny), angle
