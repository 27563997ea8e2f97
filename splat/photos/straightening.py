"""Pictures of a lens that bends straight lines, made into those of a pinhole camera, by OpenCV."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..scene.gaussians import SceneError
from .lens import Distortion, Lens

Floats = npt.NDArray[np.float64]

_REQUIRED: Final = "opencv-python-headless>=4.8"
_LARGEST_ZOOM: Final = 16.0
_WIDEST: Final = 3.0
"""The largest distance from the axis at a distance of 1, the tangent of 72 degrees: beyond, a pinhole camera's
pictures are mostly stretched rims."""
_STEPS: Final = 40
_SAMPLES: Final = 33


def straight(lens: Lens, what: str) -> Lens:
    """The pinhole camera of the same size and principal point that shows as much as it can of the lens's picture.

    It shows nothing that lies outside of it, so the corners or the rims of the lens's picture are lost.

    Raises SceneError if there is no OpenCV, or no such camera; `what` names the lens.
    """
    if not lens.distortion:
        return lens
    cv = _opencv(what)
    rays = _border(lens)
    # A smaller picture of the same shape lies inside, so what holds of a zoom holds of every larger one.
    if not _is_shown(cv, lens, rays / _LARGEST_ZOOM):
        found = ", ".join(f"{value:g}" for value in lens.distortion.coefficients)
        raise SceneError(f"{what}: a distortion that can be taken out is required, found the coefficients {found}")
    low, high = 1 / _LARGEST_ZOOM, _LARGEST_ZOOM
    for _ in range(_STEPS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _is_shown(cv, lens, rays / middle) else (middle, high)
    return replace(lens, fx=lens.fx * high, fy=lens.fy * high, distortion=Distortion())


def straightened(picture: npt.NDArray[np.uint8], lens: Lens, pinhole: Lens) -> npt.NDArray[np.uint8]:
    """A picture [H, W] or [H, W, D] of a lens, of any size, as the pinhole camera shows it, of the same size."""
    if not lens.distortion:
        return picture
    cv = _opencv("a picture")
    height, width = picture.shape[:2]
    lens, pinhole = lens.resized(width, height), pinhole.resized(width, height)
    module = cv.fisheye if lens.distortion.fisheye else cv
    maps = module.initUndistortRectifyMap(
        _matrix(lens), np.array(lens.distortion.coefficients), np.eye(3), _matrix(pinhole), (width, height), cv.CV_16SC2
    )
    made: npt.NDArray[np.uint8] = cv.remap(picture, *maps, cv.INTER_LINEAR, borderMode=cv.BORDER_REPLICATE)
    return made


def _matrix(lens: Lens) -> Floats:
    # OpenCV's pixels have their centres at whole numbers.
    return np.array([[lens.fx, 0, lens.cx - 0.5], [0, lens.fy, lens.cy - 0.5], [0, 0, 1]])


def _border(lens: Lens) -> Floats:
    """Points of the border of a pinhole camera's picture with the lens's intrinsics, at a distance of 1: [N, 2]."""
    share = np.linspace(0, 1, _SAMPLES)
    zeros, ones = np.zeros(_SAMPLES), np.ones(_SAMPLES)
    across, down = np.concatenate([share, share, zeros, ones]), np.concatenate([zeros, ones, share, share])
    places = [(across * lens.width - lens.cx) / lens.fx, (down * lens.height - lens.cy) / lens.fy]
    return np.stack(places, axis=1)


def _is_shown(cv: Any, lens: Lens, rays: Floats) -> bool:
    """Whether the lens shows all between its axis and these rays, each point once."""
    if not np.hypot(*rays.T).max() <= _WIDEST:
        return False
    lengths = np.linspace(0, 1, _SAMPLES)[1:, None, None]
    points = np.concatenate([lengths * rays, np.ones((_SAMPLES - 1, len(rays), 1))], axis=2).reshape(-1, 1, 3)
    project = cv.fisheye.projectPoints if lens.distortion.fisheye else cv.projectPoints
    nothing, coefficients = np.zeros((3, 1)), np.array(lens.distortion.coefficients)
    found, _ = project(points, nothing, nothing, _matrix(lens), coefficients)
    places: Floats = found.reshape(_SAMPLES - 1, -1, 2) + 0.5
    # The lens's own scale, so that a long picture's axes count alike.
    distances = np.hypot(*((places - (lens.cx, lens.cy)) / (lens.fx, lens.fy)).transpose(2, 0, 1))
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
