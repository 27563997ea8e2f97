"""What the records of COLMAP's models hold, whichever kind of file they are read from."""

from __future__ import annotations

from array import array
from collections.abc import Sized
from typing import Final, NamedTuple

from ..scene.gaussians import SceneError

LONGEST_NAME: Final = 4096
MOST_RECORDS: Final = 100_000
"""Of cameras and of images, which take about 2 KB of memory each."""


class CameraRecord(NamedTuple):
    """A camera as it stands there; what its values mean is looked at when a picture needs it."""

    model: str
    width: int
    height: int
    values: tuple[float, ...]


class ImageRecord(NamedTuple):
    """A picture's name, camera and pose."""

    name: str
    """With lone surrogates where it is not UTF-8."""
    camera: int
    pose: tuple[float, ...]
    """A quaternion w, x, y, z and a shift, from the world to the camera."""


class PointRecords(NamedTuple):
    """The points, as far as they could be read."""

    values: array[float]
    """x, y, z, red, green and blue of one after the other; NaN for one that could not."""
    first_bad: str = ""
    """What was wrong with the first of these."""


def check_records(records: Sized, what: str) -> None:
    """SceneError if there are too many."""
    if len(records) > MOST_RECORDS:
        raise SceneError(f"at most {MOST_RECORDS} {what} are required, found more")
