"""Reading COLMAP's models: cameras, images and points3D, as .bin or .txt, that may be damaged or hostile.

The layout is that of COLMAP's documentation, "Output Format". Records are read one at a time and nothing is allocated
because of a number in the file, so memory is bounded by what the file really holds. A point takes 48 bytes; the rest of
its line, and the line of an image's observations, is not kept, whatever its length. COLMAP's own reader is not used:
given an images.bin of 71 bytes that ends within a name, that of pycolmap 4.2.1 takes all the memory there is.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..scene.camera import rotation_rows
from ..scene.file_input import scene_file
from ..scene.gaussians import SceneError
from ..scene.names import name_end
from .capture import NO_POINTS, Capture, CaptureFolder, Floats, Photograph, pictures_exist, read_cloud, rigid_transform
from .colmap_binary import binary_cameras, binary_images, binary_points
from .colmap_records import CameraRecord, ImageRecord, PointRecords
from .colmap_text import text_cameras, text_images, text_points
from .lens_models import Lens, lens_of_values
from .name_matching import find_files

_PARTS: Final = ("cameras", "images", "points3D")
_Result = TypeVar("_Result")


class _Readers(NamedTuple):
    """What reads the parts of a model."""

    cameras: Callable[[BinaryIO], dict[int, CameraRecord]]
    images: Callable[[BinaryIO], list[ImageRecord]]
    points: Callable[[BinaryIO], PointRecords]


_READERS: Final = {
    ".bin": _Readers(binary_cameras, binary_images, binary_points),
    ".txt": _Readers(text_cameras, text_images, text_points),
}


def find_model(folder: Path) -> Path | None:
    """The folder of the model: `folder` itself, or `sparse/0`, `sparse/1` and so on, or `sparse`; None if it has none.

    A warning says so if there are several in `sparse`, of which the largest is taken: COLMAP writes one for each group
    of pictures that it could not put together, in no order of size.
    """
    models = _models(folder)
    if not models:
        return None
    largest = max(models, key=_size)
    if len(models) > 1:
        warnings.warn(
            f"{folder / 'sparse'}: {len(models)} models, for pictures that COLMAP could not put together; {largest} is "
            "used, the largest",
            stacklevel=4,
        )
    return largest


def has_model(folder: Path) -> bool:
    """Whether `find_model` finds one."""
    return bool(_models(folder))


def _models(folder: Path) -> list[Path]:
    if _is_model(folder):
        return [folder]
    sparse = folder / "sparse"
    numbers = sorted(int(name) for name in _names(sparse) if name.isdecimal() and str(int(name)) == name)
    return [place for number in numbers if _is_model(place := sparse / str(number))] or [sparse] * _is_model(sparse)


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []


def _is_model(folder: Path) -> bool:
    return any((folder / f"{part}{ending}").exists() for part in _PARTS for ending in (".bin", ".txt"))


def _size(model: Path) -> int:
    """Bytes of its images, which are mostly what was seen in them; of two that are alike, `max` takes the first."""
    found = (model / f"images{ending}" for ending in (".bin", ".txt"))
    return max((path.stat().st_size for path in found if path.exists()), default=0)


def read_model(folder: CaptureFolder, pictures: CaptureFolder) -> Capture:
    """Read the model in a folder, whose pictures lie in `pictures`.

    Warnings count the pictures and points that are left out: up to a half of them may be missing, or damaged.

    Raises:
        SceneError: if cameras or images are missing or damaged, a camera is not finite or its lens not a known one, or
            more pictures or points are missing.
        OSError: if a file cannot be opened.
    """
    model = folder.path
    endings = sorted(_READERS, key=lambda ending: -sum((model / f"{part}{ending}").exists() for part in _PARTS))
    cameras, images = (model / f"{part}{endings[0]}" for part in _PARTS[:2])
    if missing := [path.name for path in (cameras, images) if not path.exists()]:
        raise SceneError(
            f"{model}: a COLMAP model is cameras and images, both .bin or both .txt, and points3D; found no "
            f"{' and no '.join(missing)}; was it written to the end?"
        )
    readers = _READERS[endings[0]]
    known = _opened(folder, cameras.name, readers.cameras)
    taken = sorted(_opened(folder, images.name, readers.images))
    paths = find_files(images, pictures, {image.name: f"{images}: {name_end(image.name)}" for image in taken})
    lenses: dict[int, Lens] = {}
    photographs = []
    for image in compress(taken, pictures_exist(images, [paths[image.name] for image in taken])):
        what = f"{images}: {name_end(image.name)}"
        if image.camera not in known:
            raise SceneError(f"{what}: its camera {image.camera} is required in the model's cameras, found none")
        if image.camera not in lenses:
            model_name, *size, values = known[image.camera]
            lenses[image.camera] = lens_of_values(model_name, size, values, f"{cameras}: camera {image.camera}")
        viewmat = rigid_transform(_rotation(image.pose[:4], what), np.array(image.pose[4:]), what)
        photographs.append(Photograph(paths[image.name], lenses[image.camera], viewmat))
    return Capture(model, tuple(photographs), *_points(folder, endings))


def _points(folder: CaptureFolder, endings: list[str]) -> tuple[Floats, npt.NDArray[np.uint8]]:
    """The model's points and their colours; of one without, a warning says so."""
    for ending in endings:
        if (path := folder.path / f"points3D{ending}").exists():
            found = _opened(folder, path.name, _READERS[ending].points)
            values = np.array(found.values, np.float64).reshape(-1, 6)
            usable = np.isfinite(values).all(axis=1)
            if left_out := int((~usable).sum()):
                first = f", the first in {found.first_bad}" if found.first_bad else ""
                words = f"{left_out} of {len(values)} that are not{first}"
                if 2 * left_out > len(values):
                    raise SceneError(f"{path}: finite points are required, found {words}")
                warnings.warn(f"{path}: finite points are required; left out: {words}", stacklevel=4)
                values = values[usable]
            return values[:, :3], values[:, 3:].astype(np.uint8)
    if (path := folder.path / "points3D.ply").exists():
        return read_cloud(folder.file(path.name, f"{folder.path}"))
    warnings.warn(f"{folder.path}: no points3D; Gaussians start at random places that two cameras see", stacklevel=4)
    return NO_POINTS


def _rotation(quaternion: tuple[float, ...], what: str) -> Floats:
    length = math.hypot(*quaternion)
    if not 1e-6 < length < 1e6:  # a NaN, too
        raise SceneError(f"{what}: a finite pose with a rotation is required, found the quaternion {quaternion}")
    return np.array(rotation_rows([part / length for part in quaternion]))


def _opened(folder: CaptureFolder, name: str, read: Callable[[BinaryIO], _Result]) -> _Result:
    path = folder.file(name, f"{folder.path}")
    with scene_file(path) as file, _damage(path):
        return read(file)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """What goes wrong with the values of a damaged file, as a SceneError."""
    try:
        yield
    except SceneError:
        raise
    except (ValueError, struct.error) as error:
        brief = " ".join(str(error).split())[:150]
        raise SceneError(f"a COLMAP model's {path.name} is required, found a damaged one: {brief}") from error
