"""Panoramas of all directions (equirectangular), cut into views of pinhole cameras."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from .capture import Capture, Photograph
from .lens_formulas import PANORAMA, Distortion, view_rotation

_VIEWS: Final = ((0, 0), (90, 0), (180, 0), (270, 0), (0, 90), (0, -90))
"""Degrees to the right and up: the sides of a cube, each 90 degrees across and down."""


def without_panoramas(capture: Capture) -> Capture:
    """The capture with six views in the place of each panorama; a warning says so."""
    panoramas = sum(_is_panorama(photograph) for photograph in capture.photographs)
    if not panoramas:
        return capture
    warnings.warn(
        f"{capture.source}: {panoramas} panoramas are cut into {len(_VIEWS)} views of 90 degrees each; what should not "
        "be used, such as a tripod, can be left out by masks",
        stacklevel=3,
    )
    return replace(capture, photographs=tuple(view for taken in capture.photographs for view in _views(taken)))


def _is_panorama(photograph: Photograph) -> bool:
    return photograph.lens.distortion.family is PANORAMA


def _views(photograph: Photograph) -> Iterator[Photograph]:
    if not _is_panorama(photograph):
        yield photograph
        return
    for degrees in _VIEWS:
        yaw, pitch = map(math.radians, degrees)
        turn = np.eye(4)
        turn[:3, :3] = view_rotation(yaw, pitch).T
        lens = replace(photograph.lens, distortion=Distortion(PANORAMA, (yaw, pitch)))
        yield replace(photograph, lens=lens, viewmat=turn @ photograph.viewmat)
