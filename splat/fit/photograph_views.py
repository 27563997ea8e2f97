"""Photographs with cameras, as what a scene is fitted to; checked before the first picture is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ..photos.capture import Capture, Lens, Photograph
from ..photos.pictures import check_unpacking, picture_size, read_resized
from ..scene.gaussians import SceneError
from .fit_memory import PHOTOGRAPH, UNLIMITED, FitMemory, check_fitting
from .overlap import check_overlap, shared_points
from .views import Views

_SMALLEST: Final = 8


@dataclass(frozen=True)
class Reduction:
    """How photographs are made smaller before they are used."""

    downscale: int = 1
    """The width and the height are divided by this."""
    max_size: int | None = None
    """The longer side becomes this many pixels, if it has more."""

    def apply(self, width: int, height: int) -> tuple[int, int]:
        """The size that a picture gets."""
        factor = 1 / self.downscale
        if self.max_size is not None:
            factor = min(factor, self.max_size / max(width, height))
        return max(round(width * factor), 1), max(round(height * factor), 1)


def photograph_views(
    capture: Capture, points: int, seed: int, reduction: Reduction | None = None, memory: FitMemory = UNLIMITED
) -> Views:
    """Read the photographs, as uint8; where there are no points, draw `points` random ones.

    Raises:
        SceneError: if they are fewer than two, taken from one place, do not overlap or need more memory, or a file is
            damaged.
        OSError: if a file cannot be read.
    """
    what, reduction = str(capture.source), reduction or Reduction()
    if len(capture.photographs) < 2:
        raise SceneError(
            f"{what}: at least 2 photographs are required, found {len(capture.photographs)}; a single picture is "
            "fitted by its own name, without cameras"
        )
    lenses = [_reduced(photograph, reduction) for photograph in capture.photographs]
    sizes = [(lens.width, lens.height) for lens in lenses]
    check_fitting(what, PHOTOGRAPH, sizes, 3, memory)
    for photograph, size in zip(capture.photographs, sizes, strict=True):
        check_unpacking(photograph.path, size, memory.reading)
    viewmats = torch.stack([torch.from_numpy(photograph.viewmat) for photograph in capture.photographs])
    Ks = torch.stack([_intrinsics(lens) for lens in lenses])
    _check_places(what, viewmats)
    if len(capture.points):
        positions = torch.from_numpy(capture.points.copy())
        colors = torch.from_numpy(capture.colors.copy()).float() / 255
        check_overlap(what, positions, viewmats, Ks, sizes)
    else:
        generator = torch.Generator().manual_seed(seed)
        positions = shared_points(what, points, viewmats, Ks, sizes, generator)
        colors = torch.full((points, 3), 0.5)
    values = [positions.float(), viewmats.float(), Ks.float()]
    if not all(bool(value.isfinite().all()) for value in values):
        raise SceneError(f"{what}: points and cameras that float32 can hold are required, found larger ones")
    images = tuple(
        torch.from_numpy(read_resized(photograph.path, size))
        for photograph, size in zip(capture.photographs, sizes, strict=True)
    )
    names = tuple(photograph.path.name for photograph in capture.photographs)
    return Views(images, values[1], values[2], values[0], colors, len(capture.points) > 0, names)


def _reduced(photograph: Photograph, reduction: Reduction) -> Lens:
    """The camera for the picture as it will be used; SceneError if the file's proportions are not the camera's."""
    lens = photograph.lens
    width, height = picture_size(photograph.path)
    # Pictures that were made smaller beforehand have rounded sizes.
    if abs(width * lens.height - height * lens.width) > max(lens.width, lens.height, width, height):
        raise SceneError(
            f"{photograph.path}: a picture of its camera's proportions, {lens.width}x{lens.height}, is required, found "
            f"{width}x{height}"
        )
    size = reduction.apply(width, height)
    if min(size) < _SMALLEST:
        raise SceneError(
            f"{photograph.path}: at least {_SMALLEST}x{_SMALLEST} pixels are required, found {size[0]}x{size[1]}; "
            "choose a smaller --downscale or a larger --max-size"
        )
    return lens.resized(*size)


def _intrinsics(lens: Lens) -> Tensor:
    return torch.tensor([[lens.fx, 0, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]], dtype=torch.float64)


def _check_places(what: str, viewmats: Tensor) -> None:
    centers = -(viewmats[:, :3, :3].mT @ viewmats[:, :3, 3:])[..., 0]
    if not float((centers - centers[0]).abs().max()) > 1e-6 * max(float(centers.abs().max()), 1e-30):
        raise SceneError(
            f"{what}: photographs from several places are required, found {len(centers)} from a single one, which say "
            "nothing about distances"
        )
