"""The views that a scene is fitted to: pictures and the cameras that took them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from ..ops.lens_cameras import Camera as LensCamera
from ..ops.rendering import rasterization
from ..scene.camera import Camera
from ..scene.coordinates import NO_OFFSET, Offset, find_offset, shown_offset
from ..scene.gaussians import Gaussians, SceneError
from ..scene.near_plane import far_plane, near_plane_of
from .drawn_lenses import DrawnLens, draw_as_taken, lens_camera

_DARKEST: Final = 1 / 15
"""A little more than the share of 16 bits that 12 are."""


@dataclass(frozen=True)
class Views:
    """C pictures of one scene. Tensors are float32 unless it says otherwise."""

    images: tuple[Tensor, ...]
    """[H, W, 3] each, from 0 to 1, or uint8 from 0 to 255, which takes a fourth of the memory."""
    viewmats: Tensor
    """[C, 4, 4] world-to-camera."""
    Ks: Tensor
    """[C, 3, 3] intrinsics in pixels."""
    points: Tensor
    """[P, 3], where the first Gaussians are placed, and [P, 3], their colours, 0 to 1."""
    colors: Tensor
    measured: bool = False
    """Whether the points were measured in the pictures, and not guessed."""
    names: tuple[str, ...] = ()
    """Of the pictures, if they have names."""
    masks: tuple[Tensor | None, ...] = ()
    """[H, W] bool of each picture, false where it is not used, or None; empty if no picture has one."""
    held_out: tuple[bool | None, ...] = ()
    """Whether each picture is for measuring only; None or empty if whoever took them does not say."""
    background: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Red, green and blue from 0 to 1 of what is behind the scene."""
    offset: Offset = NO_OFFSET
    """What was taken off the coordinates of cameras and points: they were a map's."""
    lenses: tuple[DrawnLens | None, ...] = ()
    """Through which each picture is drawn; None: a pinhole camera; empty if all are."""
    near: float = 0.0
    """The near plane of all cameras; if 0, it is chosen for the distance of the points."""

    def __post_init__(self) -> None:
        """Choose the near plane, which pictures that are selected later keep."""
        if not self.near:
            object.__setattr__(self, "near", near_plane_of(self.viewmats, self.points))

    def __len__(self) -> int:
        """C."""
        return len(self.images)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Width and height of each picture."""
        return [(image.shape[1], image.shape[0]) for image in self.images]

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.viewmats.device

    def target(self, view: int) -> Tensor:
        """One of the pictures, [H, W, 3], from 0 to 1."""
        image = self.images[view]
        return image.float() / 255 if image.dtype == torch.uint8 else image

    def name(self, view: int) -> str:
        """Of one of the pictures, or its number if it has none."""
        return self.names[view] if self.names else f"picture {view + 1}"

    def mask(self, view: int) -> Tensor | None:
        """Where one of the pictures is used, [H, W] bool; None: everywhere."""
        return self.masks[view] if self.masks else None

    def cameras(self) -> tuple[list[Camera], list[str]]:
        """The cameras, and the names of their pictures."""
        viewmats, Ks = self.viewmats.cpu(), self.Ks.cpu()
        cameras = [Camera(viewmats[view], Ks[view], *size, self.near) for view, size in enumerate(self.sizes)]
        return cameras, [self.name(view) for view in range(len(self))]

    def lens_cameras(self) -> list[LensCamera]:
        """The cameras with what they are drawn through, on the CPU."""
        lenses = self.lenses or (None,) * len(self)
        return list(map(lens_camera, self.viewmats.cpu(), self.Ks.cpu(), self.sizes, lenses))

    def select(self, indices: Sequence[int]) -> Views:
        """The pictures with these numbers."""
        rows = list(indices)
        return replace(
            self,
            images=tuple(self.images[row] for row in rows),
            viewmats=self.viewmats[rows],
            Ks=self.Ks[rows],
            names=tuple(self.names[row] for row in rows) if self.names else (),
            masks=tuple(self.masks[row] for row in rows) if self.masks else (),
            held_out=tuple(self.held_out[row] for row in rows) if self.held_out else (),
            lenses=tuple(self.lenses[row] for row in rows) if self.lenses else (),
        )

    def to(self, device: torch.device) -> Views:
        """The same views on a device."""
        return replace(
            self,
            images=tuple(image.to(device) for image in self.images),
            masks=tuple(None if mask is None else mask.to(device) for mask in self.masks),
            viewmats=self.viewmats.to(device),
            Ks=self.Ks.to(device),
            points=self.points.to(device),
            colors=self.colors.to(device),
        )


def render(
    scene: Gaussians,
    views: Views,
    view: int | None,
    sh_degree: int,
    absgrad: bool = False,
    viewmats: Tensor | None = None,
    distributed: bool = False,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The image [H, W, 3] of one of the cameras, and `meta`.

    Args:
        scene: the Gaussians; of several processes, this one's.
        views: the cameras.
        view: the number of one; None for no image, [0, 1, 1, 3], in a process that only helps others.
        sh_degree: how many of the coefficients to use.
        absgrad: whether the backward pass finds absolute gradients.
        viewmats: another world-to-camera matrix for it, [1, 4, 4]; [0, 4, 4] for no image.
        distributed: whether all processes render together; not through lenses.
    """
    chosen = slice(0) if view is None else slice(view, view + 1)
    width, height = (1, 1) if view is None else views.sizes[view]
    poses = views.viewmats[chosen] if viewmats is None else viewmats
    background = None
    if any(views.background):
        background = torch.tensor(views.background, device=views.device).expand(len(poses), 3)
    if view is not None and views.lenses and (lens := views.lenses[view]):
        own = views.viewmats[view], views.Ks[view], (width, height)
        images, meta = draw_as_taken(scene, lens, *own, sh_degree, background, viewmats, views.near)
        return images[0], meta
    images, _, meta = rasterization(
        scene.means,
        scene.quats,
        scene.scales,
        scene.opacities,
        scene.sh,
        poses,
        views.Ks[chosen],
        width,
        height,
        near_plane=views.near,
        far_plane=far_plane(views.near),
        sh_degree=sh_degree,
        backgrounds=background,
        packed=False,
        absgrad=absgrad,
        distributed=distributed,
    )
    return images if view is None else images[0], meta


def check_bright(what: str, views: Views) -> None:
    """SceneError if all pictures are next to black, as those are whose numbers have fewer bits than their type."""
    brightest = max(float(image.max()) / (255 if image.dtype == torch.uint8 else 1) for image in views.images)
    if brightest < _DARKEST:
        raise SceneError(
            f"{what}: pictures with something to see are required, found nothing brighter than {brightest:.1%} of the "
            "largest number of their type; numbers of 8 or 12 bits in a wider type must be scaled to fill it"
        )


def near_origin(what: str, viewmats: Tensor, points: Tensor) -> tuple[Tensor, Tensor, Offset]:
    """Cameras [C, 4, 4] and points [P, 3], float64, less the offset that a map's coordinates need, and that offset.

    A warning says so. Without points, the cameras' places decide.
    """
    turns, shifts = viewmats[:, :3, :3], viewmats[:, :3, 3:]
    offset = find_offset((points if len(points) else -(turns.mT @ shifts)[..., 0]).numpy())
    if offset == NO_OFFSET:
        return viewmats, points, offset
    warnings.warn(
        f"{what}: coordinates of a map; the offset {shown_offset(offset)} is taken off them for the fit, and is in the "
        "files that are written",
        stacklevel=3,
    )
    origin = torch.tensor(offset, dtype=torch.float64)
    viewmats = viewmats.clone()
    viewmats[:, :3, 3:] = shifts + turns @ origin[:, None]
    return viewmats, points - origin, offset
