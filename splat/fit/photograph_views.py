"""Photographs with cameras as the views that a scene is fitted to, checked before the first picture is read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import torch

from ..photos.capture import Capture, Photograph, normal
from ..photos.lens_formulas import PANORAMA
from ..photos.lens_models import Lens
from ..photos.pictures import (
    BLACK,
    DamagedPictureError,
    check_unpacking,
    picture_header,
    read_mask,
    read_resized,
)
from ..photos.undistortion import size_before, undistorted_lens
from ..scene.gaussians import SceneError
from ..scene.names import listed, name_end
from .drawn_lenses import AS_TAKEN, LENSES, DrawnLens, drawn_lens, drawn_parts, intrinsics, lens_camera
from .fit_memory import PHOTOGRAPH, UNLIMITED, FitMemory, check_fitting
from .overlap import check_overlap, check_places, shared_points
from .views import Views, near_origin

_SMALLEST: Final = 8


@dataclass(frozen=True)
class Preparation:
    """What is done to photographs before they are used."""

    downscale: int = 1
    """The width and the height are divided by this."""
    max_size: int | None = None
    """The longer side becomes this many pixels, if it has more."""
    background: tuple[int, int, int] = BLACK
    """The colour that is put behind what is transparent, red, green and blue from 0 to 255."""
    lenses: str = LENSES[0]
    """One of `LENSES`."""

    def size(self, width: int, height: int) -> tuple[int, int]:
        """The size that a picture gets."""
        factor = 1 / self.downscale
        if self.max_size is not None:
            factor = min(factor, self.max_size / max(width, height))
        return max(round(width * factor), 1), max(round(height * factor), 1)


class _Camera(NamedTuple):
    """What a photograph becomes."""

    lens: Lens
    """That of the picture as it will be used."""
    lenses: tuple[Lens, Lens] | None
    """That which took it and the pinhole camera of the same size, if it is straightened."""
    turned: bool
    """Whether its EXIF turns it."""
    ambiguous: bool
    """Whether its EXIF would turn it, but its camera does not say which pixels it is of."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as it will be used."""
        return self.lens.width, self.lens.height

    @property
    def drawn(self) -> DrawnLens | None:
        """The lens that it is drawn through."""
        return drawn_lens(self.lens.distortion)


def photograph_views(
    capture: Capture, points: int, seed: int, preparation: Preparation | None = None, memory: FitMemory = UNLIMITED
) -> Views:
    """Read the photographs, as uint8; where there are no points, draw `points` random ones.

    Warnings say what was done to them that whoever took them might not expect.

    Raises:
        SceneError: if they are fewer than two, taken from one place, do not overlap or need more memory, or a file is
            damaged.
        OSError: if a file cannot be read.
    """
    what, preparation = str(capture.source), preparation or Preparation()
    capture, cameras = _cameras(capture, preparation)
    if len(capture.photographs) < 2:
        raise SceneError(
            f"{what}: at least 2 photographs are required, found {len(capture.photographs)}; a single picture is "
            "fitted by its own name, without cameras"
        )
    sizes = [camera.size for camera in cameras]
    masked = any(
        photograph.mask or camera.drawn for photograph, camera in zip(capture.photographs, cameras, strict=True)
    )
    kept = 3 + masked
    check_fitting(what, PHOTOGRAPH, sizes, kept, memory)
    for photograph, camera, size in zip(capture.photographs, cameras, sizes, strict=True):
        for path in filter(None, (photograph.path, photograph.mask)):
            check_unpacking(path, size, memory.reading, camera.lenses)
    viewmats = torch.stack([torch.from_numpy(photograph.viewmat) for photograph in capture.photographs])
    Ks = torch.stack([intrinsics(camera.lens) for camera in cameras])
    viewmats, positions, offset = near_origin(what, viewmats, torch.from_numpy(capture.points.copy()))
    check_places(what, viewmats)
    seers = list(map(lens_camera, viewmats, Ks, sizes, [camera.drawn for camera in cameras]))
    if len(positions):
        colors = torch.from_numpy(capture.colors.copy()).float() / 255
        check_overlap(what, positions, seers)
    else:
        generator = torch.Generator().manual_seed(seed)
        positions = shared_points(what, points, seers, generator)
        colors = torch.full((points, 3), 0.5)
    values = [positions.float(), viewmats.float(), Ks.float()]
    if not all(bool(value.isfinite().all()) for value in values):
        raise SceneError(f"{what}: points and cameras that float32 can hold are required, found larger ones")
    views = Views((), values[1], values[2], values[0], colors, len(capture.points) > 0, offset=offset)
    return _with_pictures(views, capture, cameras, preparation)


def _with_pictures(views: Views, capture: Capture, cameras: list[_Camera], preparation: Preparation) -> Views:
    """The views with the pixels of the photographs; those that are damaged are left out."""
    parts = drawn_parts(str(capture.source), [camera.lens for camera in cameras])
    images, masks, transparent = [], [], 0
    damaged: dict[int, str] = {}
    black: list[int] = []
    for index, (photograph, camera) in enumerate(zip(capture.photographs, cameras, strict=True)):
        mask = parts.get(camera.lens)
        try:
            pixels = read_resized(photograph.path, camera.size, preparation.background, camera.turned, camera.lenses)
            if photograph.mask:
                used = torch.from_numpy(read_mask(photograph.mask, camera.size, camera.lenses))
                mask = used if mask is None else used & mask
        except DamagedPictureError as error:
            damaged[index] = str(error)
            continue
        if mask is not None and not bool(mask.any()):
            if photograph.lens.distortion.family is not PANORAMA:
                raise SceneError(
                    f"{photograph.mask}: a mask that leaves some of its photograph is required, found black"
                )
            black.append(index)
            continue
        images.append(torch.from_numpy(pixels.colors))
        transparent += pixels.transparent
        masks.append(mask)
    if len(black) + len(damaged) == len(capture.photographs) > len(damaged):
        raise SceneError(f"{capture.source}: masks that leave some of the panoramas are required, found black ones")
    capture, kept = _without(capture, damaged, black)
    lenses = tuple(cameras[index].drawn for index in kept)
    views = replace(views, viewmats=views.viewmats[kept], Ks=views.Ks[kept], lenses=lenses if any(lenses) else ())
    count = len(images)
    if transparent:
        red, green, blue = preparation.background
        warnings.warn(
            f"{capture.source}: {transparent} of {count} photographs are transparent in places; the colour {red},"
            f"{green},{blue} is behind them and behind the scene, choose another one with --background",
            stacklevel=3,
        )
    return replace(
        views,
        images=tuple(images),
        masks=tuple(masks),
        names=_names(capture.photographs),
        held_out=tuple(photograph.held_out for photograph in capture.photographs),
        background=tuple(part / 255 for part in preparation.background),
    )


def _names(photographs: Sequence[Photograph]) -> tuple[str, ...]:
    """The names of the pictures' files in the folder that all are in, with those of folders in it."""
    paths = [normal(photograph.path) for photograph in photographs]
    folder = os.path.commonpath([path.parent for path in paths])
    return tuple(path.relative_to(folder).as_posix() for path in paths)


def _cameras(capture: Capture, preparation: Preparation) -> tuple[Capture, list[_Camera]]:
    """The photographs that are no damaged ones, and what becomes of each; warnings say what was lost, or guessed."""
    pinholes: dict[Lens, Lens] = {}
    for photograph in capture.photographs:
        lens = photograph.lens
        if lens not in pinholes:
            as_taken = preparation.lenses == AS_TAKEN and drawn_lens(lens.distortion)
            pinholes[lens] = lens if as_taken else undistorted_lens(lens, str(photograph.path))
    cameras: list[_Camera] = []
    damaged: dict[int, str] = {}
    for index, photograph in enumerate(capture.photographs):
        try:
            cameras.append(_camera(photograph, pinholes[photograph.lens], preparation))
        except DamagedPictureError as error:
            damaged[index] = str(error)
    capture, _ = _without(capture, damaged)
    bent = {
        lens: pinhole
        for lens, pinhole in pinholes.items()
        if lens != pinhole and lens.distortion.family is not PANORAMA
    }
    if bent:
        seen = [pinhole.field_of_view for pinhole in bent.values()]
        words = [
            f"{min(angles):.0f}" + (f" to {max(angles):.0f}" if max(angles) >= min(angles) + 1 else "")
            for angles in zip(*seen, strict=True)
        ]
        why = ", since only OPENCV's and OPENCV_FISHEYE's can be drawn" if preparation.lenses == AS_TAKEN else ""
        warnings.warn(
            f"{capture.source}: lenses that bend straight lines: the pictures of {len(bent)} of {len(pinholes)} are "
            f"straightened{why}, and show {words[0]} degrees across and {words[1]} down; what lies beyond is not used",
            stacklevel=3,
        )
    unknown = sum(camera.ambiguous for camera in cameras)
    if unknown:
        warnings.warn(
            f"{capture.source}: {unknown} of {len(cameras)} photographs would be turned, says their EXIF; their "
            "cameras are taken for those of the pixels as stored, which COLMAP and Nerfstudio use",
            stacklevel=3,
        )
    return capture, cameras


def _without(capture: Capture, damaged: dict[int, str], unused: Sequence[int] = ()) -> tuple[Capture, list[int]]:
    """The capture without the photographs of these numbers, and the numbers of the others.

    A warning says what is wrong with those that are damaged; SceneError if these are more than half.
    """
    count = len(capture.photographs)
    if damaged:
        first = next(iter(damaged.values()))
        if 2 * len(damaged) > count or count - len(damaged) < 2:
            raise SceneError(f"{capture.source}: {len(damaged)} of {count} pictures cannot be read: {first}")
        names = listed([name_end(str(capture.photographs[index].path)) for index in damaged])
        warnings.warn(
            f"{capture.source}: {len(damaged)} of {count} pictures cannot be read and are left out: {names} ({first})",
            stacklevel=4,
        )
    kept = [index for index in range(count) if index not in damaged and index not in unused]
    return replace(capture, photographs=tuple(capture.photographs[index] for index in kept)), kept


def _camera(photograph: Photograph, pinhole: Lens, preparation: Preparation) -> _Camera:
    """What becomes of a photograph; SceneError if the file's proportions are not the camera's."""
    lens, header = photograph.lens, picture_header(photograph.path)
    fits, fits_turned = (_has_proportions(size, lens) for size in (header.size, header.shown_size))
    if not fits and not fits_turned:
        width, height = header.size
        raise SceneError(
            f"{photograph.path}: a picture of its camera's proportions, {lens.width}x{lens.height}, is required, found "
            f"{width}x{height}"
        )
    turned = not fits
    across, down = header.shown_size if turned else header.size
    size = preparation.size(*size_before((across, down), pinhole, lens))
    if min(size) < _SMALLEST:
        raise SceneError(
            f"{photograph.path}: at least {_SMALLEST}x{_SMALLEST} pixels are required, found {size[0]}x{size[1]}; "
            "choose a smaller --downscale or a larger --max-size"
        )
    if photograph.mask and not _has_proportions(found := picture_header(photograph.mask).size, lens):
        raise SceneError(
            f"{photograph.mask}: a mask of its photograph's proportions, {lens.width}x{lens.height}, is required, "
            f"found {found[0]}x{found[1]}"
        )
    lenses = (lens, pinhole) if lens != pinhole else None
    return _Camera(pinhole.resized(*size), lenses, turned, header.orientation != 1 and fits and fits_turned)


def _has_proportions(size: tuple[int, int], lens: Lens) -> bool:
    # Pictures that were made smaller beforehand have rounded sizes.
    width, height = size
    return abs(width * lens.height - height * lens.width) <= max(lens.width, lens.height, width, height)
