"""Pictures of a lens that bends straight lines, made into those of a pinhole camera, by OpenCV."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..scene.gaussians import SceneError
from .lens_formulas import PANORAMA, Distortion
from .lens_models import Lens

Floats = npt.NDArray[np.float64]

_REQUIRED: Final = "opencv-python-headless>=4.8"
_LARGEST_ZOOM: Final = 16.0
_WIDEST: Final = 3.0
"""The largest distance from the axis at a distance of 1, the tangent of 72 degrees: beyond, a pinhole camera's
pictures are mostly stretched rims."""
_STEPS: Final = 40
_SAMPLES: Final = 33
_STRIP: Final = 2**18
"""Pixels whose places in the lens's picture are computed at once."""


def undistorted_lens(lens: Lens, what: str) -> Lens:
    """The pinhole camera of the same size and principal point that shows as much as it can of the lens's picture.

    It shows nothing that lies outside of it, so the corners or the rims of the lens's picture are lost. Of a
    panorama, it shows 90 degrees across and down.

    Raises SceneError if there is no OpenCV, or no such camera; `what` names the lens.
    """
    if not lens.distortion:
        return lens
    _opencv(what)
    if lens.distortion.family is PANORAMA:
        side = max(round(lens.width / 4), 1)
        return Lens(side, side, side / 2, side / 2, side / 2, side / 2)
    rays = _border(lens)
    # A smaller picture of the same shape lies inside, so what holds of a zoom holds of every larger one.
    if not _is_shown(lens, rays / _LARGEST_ZOOM):
        found = ", ".join(f"{value:g}" for value in lens.distortion.coefficients)
        raise SceneError(f"{what}: a distortion that can be taken out is required, found the coefficients {found}")
    low, high = 1 / _LARGEST_ZOOM, _LARGEST_ZOOM
    for _ in range(_STEPS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _is_shown(lens, rays / middle) else (middle, high)
    return replace(lens, fx=lens.fx * high, fy=lens.fy * high, distortion=Distortion())


def size_before(size: tuple[int, int], lens: Lens, pinhole: Lens) -> tuple[int, int]:
    """The size of the lens's picture whose part is of `size` in the pinhole camera's."""
    return round(size[0] * lens.width / pinhole.width), round(size[1] * lens.height / pinhole.height)


def undistort(picture: npt.NDArray[np.uint8], lens: Lens, pinhole: Lens) -> npt.NDArray[np.uint8]:
    """A picture [H, W] or [H, W, D] of a lens, of any size, as the pinhole camera shows it, as fine as before."""
    if not lens.distortion:
        return picture
    cv = _opencv("a picture")
    height, width = picture.shape[:2]
    pinhole = pinhole.resized(*size_before((width, height), pinhole, lens))
    lens = lens.resized(width, height)
    made = np.empty((pinhole.height, pinhole.width, *picture.shape[2:]), np.uint8)
    rows = max(_STRIP // pinhole.width, 1)
    for top in range(0, pinhole.height, rows):
        down, across = np.mgrid[top : min(top + rows, pinhole.height), : pinhole.width].astype(np.float32) + 0.5
        x, y = lens.distortion.bend((across - pinhole.cx) / pinhole.fx, (down - pinhole.cy) / pinhole.fy)
        # OpenCV's pixels have their centres at whole numbers.
        places = (
            (x * lens.fx + (lens.cx - 0.5)).astype(np.float32),
            (y * lens.fy + (lens.cy - 0.5)).astype(np.float32),
        )
        made[top : top + rows] = cv.remap(picture, *places, cv.INTER_LINEAR, borderMode=cv.BORDER_REPLICATE)
    return made


def _border(lens: Lens) -> Floats:
    """Points of the border of a pinhole camera's picture with the lens's intrinsics, at a distance of 1: [N, 2]."""
    share = np.linspace(0, 1, _SAMPLES)
    zeros, ones = np.zeros(_SAMPLES), np.ones(_SAMPLES)
    across, down = np.concatenate([share, share, zeros, ones]), np.concatenate([zeros, ones, share, share])
    places = [(across * lens.width - lens.cx) / lens.fx, (down * lens.height - lens.cy) / lens.fy]
    return np.stack(places, axis=1)


def _is_shown(lens: Lens, rays: Floats) -> bool:
    """Whether the lens shows all between its axis and these rays, each point once."""
    if not np.hypot(*rays.T).max() <= _WIDEST:
        return False
    lengths = np.linspace(0, 1, _SAMPLES)[1:, None, None]
    x, y = lens.distortion.bend(lengths * rays[:, :1], lengths * rays[:, 1:])
    bent: Floats = np.concatenate([x, y], axis=2)
    places = bent * (lens.fx, lens.fy) + (lens.cx, lens.cy)
    # The lens's own scale, so that a long picture's axes count alike.
    distances = np.hypot(*bent.transpose(2, 0, 1))
    outermost = places[-1]
    return bool(
        np.isfinite(places).all()
        and (np.diff(distances, axis=0) >= 0).all()
        and (outermost >= -1e-6).all()
        and (outermost <= np.array([lens.width, lens.height]) + 1e-6).all()
    )


def _opencv(what: str) -> Any:
    try:
        return import_module("cv2")
    except ImportError as error:
        raise SceneError(
            f"{what}: its lens bends straight lines; OpenCV is required to straighten its pictures, found none "
            f"({error}); to fix: pip install '{_REQUIRED}'"
        ) from None
