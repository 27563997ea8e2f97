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
from array import array
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..scene.camera import rotation_rows
from ..scene.file_input import bytes_left, scene_file
from ..scene.gaussians import SceneError
from ..scene.names import quoted
from .capture import Capture, Floats, Photograph, PictureFolder, require_files, rigid
from .lens import LENS_MODELS, Lens, lens_of

_UNDISTORT: Final = "colmap image_undistorter --image_path PICTURES --input_path MODEL --output_path FOLDER"
"""The command that turns pictures taken with any lens into those of pinhole cameras."""
_MODELS: Final = (
    ("SIMPLE_PINHOLE", 3), ("PINHOLE", 4), ("SIMPLE_RADIAL", 4), ("RADIAL", 5), ("OPENCV", 8), ("OPENCV_FISHEYE", 8),
    ("FULL_OPENCV", 12), ("FOV", 5), ("SIMPLE_RADIAL_FISHEYE", 4), ("RADIAL_FISHEYE", 5), ("THIN_PRISM_FISHEYE", 12),
)  # fmt: skip
"""Names and numbers of parameters, in the order of their numbers in .bin files."""
_PARTS: Final = ("cameras", "images", "points3D")
_LONGEST_NAME: Final = 4096
_LONGEST_LINE: Final = 2 * _LONGEST_NAME
"""Bytes of a line that are looked at: a name and ten numbers."""
_MOST_RECORDS: Final = 100_000
"""Of cameras and of images, which take about 2 KB of memory each."""


class _Image(NamedTuple):
    name: str
    camera: int
    pose: tuple[float, ...]
    """A quaternion w, x, y, z and a shift, from the world to the camera."""


_Cameras = dict[int, Lens]
_Points: TypeAlias = "array[float]"
"""x, y, z, red, green and blue of one after the other."""
_Result = TypeVar("_Result")


def find_model(folder: Path) -> Path | None:
    """The folder of the model: `folder` itself, or `sparse/0`, `sparse/1` and so on, or `sparse`; None if it has none.

    A warning says so if there are several in `sparse`, of which the largest is taken: COLMAP writes one for each group
    of pictures that it could not put together, in no order of size.
    """
    if _is_model(folder):
        return folder
    sparse = folder / "sparse"
    numbers = sorted(int(name) for name in _names(sparse) if name.isdecimal() and str(int(name)) == name)
    models = [sparse / str(number) for number in numbers if _is_model(sparse / str(number))]
    if not models:
        return sparse if _is_model(sparse) else None
    largest = max(models, key=_size)
    if len(models) > 1:
        warnings.warn(
            f"{sparse}: {len(models)} models, for pictures that COLMAP could not put together; {largest} is used, the "
            "largest",
            stacklevel=4,
        )
    return largest


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []


def _is_model(folder: Path) -> bool:
    return any((folder / f"{part}{ending}").exists() for part in _PARTS for ending in (".bin", ".txt"))


def _size(model: Path) -> int:
    """Bytes of its images, which are mostly what was seen in them; of two that are alike, `max` takes the first."""
    found = (model / f"images{ending}" for ending in (".bin", ".txt"))
    return max((path.stat().st_size for path in found if path.exists()), default=0)


def read_model(model: Path, pictures: PictureFolder) -> Capture:
    """Read a model, whose pictures lie in the folder `pictures`.

    Raises:
        SceneError: if a file is missing or damaged, a camera is not finite or its lens not a known one, or pictures
            are missing.
        OSError: if a file cannot be opened.
    """
    binary = all((model / f"{part}.bin").exists() for part in _PARTS)
    ending = ".bin" if binary or not (model / "cameras.txt").exists() else ".txt"
    missing = [part + ending for part in _PARTS if not (model / (part + ending)).exists()]
    if missing:
        raise SceneError(
            f"{model}: a COLMAP model is cameras, images and points3D, all .bin or all .txt; found no "
            f"{' and no '.join(missing)}; was it written to the end?"
        )
    cameras, images, points = (model / (part + ending) for part in _PARTS)
    if ending == ".bin":
        lenses = _opened(cameras, _binary_cameras)
        taken = _opened(images, _binary_images)
        found = _opened(points, _binary_points)
    else:
        lenses, taken, found = (
            _opened(cameras, _text_cameras), _opened(images, _text_images), _opened(points, _text_points),
        )  # fmt: skip
    photographs = tuple(_photograph(images, pictures, lenses, image) for image in sorted(taken))
    require_files(images, [photograph.path for photograph in photographs])
    values = np.frombuffer(found, np.float64).reshape(-1, 6) if found else np.zeros((0, 6))
    if not np.isfinite(values).all():
        raise SceneError(f"{points}: finite points are required, found a NaN or an infinity")
    return Capture(model, photographs, values[:, :3], values[:, 3:].astype(np.uint8))


def _photograph(images: Path, pictures: PictureFolder, lenses: _Cameras, image: _Image) -> Photograph:
    what = f"{images}: {quoted(image.name)}"
    if image.camera not in lenses:
        raise SceneError(f"{what}: its camera {image.camera} is required in the model's cameras, found none")
    return Photograph(
        pictures.file(image.name, what),
        lenses[image.camera],
        rigid(_rotation(image.pose[:4], what), np.array(image.pose[4:]), what),
    )


def _rotation(quaternion: tuple[float, ...], what: str) -> Floats:
    length = math.hypot(*quaternion)
    if not 1e-6 < length < 1e6:  # a NaN, too
        raise SceneError(f"{what}: a finite pose with a rotation is required, found the quaternion {quaternion}")
    return np.array(rotation_rows([part / length for part in quaternion]))


def _lens(number: int, model: str, width: int, height: int, values: tuple[float, ...]) -> Lens:
    what = f"camera {number}"
    if model not in LENS_MODELS:
        raise SceneError(
            f"{what} has the lens model {quoted(model)}; required: one of {', '.join(LENS_MODELS)}. COLMAP makes its "
            f"pictures into a pinhole camera's: {_UNDISTORT}"
        )
    names = LENS_MODELS[model]
    if len(values) != len(names):
        raise SceneError(f"{what}: {model} has {len(names)} parameters, found {len(values)}")
    return lens_of(model, (width, height), dict(zip(names, values, strict=True)), what)


def _opened(path: Path, read: Callable[[BinaryIO], _Result]) -> _Result:
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


def _check_records(records: Sized, what: str) -> None:
    if len(records) > _MOST_RECORDS:
        raise SceneError(f"at most {_MOST_RECORDS} {what} are required, found more")


# Binary: little-endian, a count and then that many records.


def _take(file: BinaryIO, layout: str) -> tuple[float, ...]:
    size = struct.calcsize(layout)
    data = file.read(size)
    if len(data) < size:
        raise SceneError("the file ends in the middle; was it written to the end?")
    return struct.unpack(layout, data)


def _records(file: BinaryIO) -> Iterator[int]:
    (count,) = _take(file, "<Q")
    yield from range(int(count))
    if file.read(1):
        raise SceneError(f"{int(count)} records are required to fill the file, found more behind them")


def _skip(file: BinaryIO, count: int, size: int) -> None:
    if count * size > bytes_left(file):
        raise SceneError("the file ends in the middle; was it written to the end?")
    file.seek(count * size, 1)


def _binary_cameras(file: BinaryIO) -> _Cameras:
    lenses: _Cameras = {}
    for _ in _records(file):
        number, kind, width, height = map(int, _take(file, "<IiQQ"))
        name, count = _MODELS[kind] if 0 <= kind < len(_MODELS) else (f"number {kind}", 0)
        lenses[number] = _lens(number, name, width, height, _take(file, f"<{count}d"))
        _check_records(lenses, "cameras")
    return lenses


def _binary_images(file: BinaryIO) -> list[_Image]:
    images: list[_Image] = []
    for _ in _records(file):
        _, *pose, camera = _take(file, "<I7dI")
        name = bytearray()
        while (byte := file.read(1)) != b"\0":
            if not byte or len(name) == _LONGEST_NAME:
                raise SceneError(f"a name of at most {_LONGEST_NAME} bytes and a zero is required, found none")
            name += byte
        (count,) = _take(file, "<Q")
        _skip(file, int(count), 24)
        images.append(_Image(name.decode("utf-8"), int(camera), tuple(pose)))
        _check_records(images, "images")
    return images


def _binary_points(file: BinaryIO) -> _Points:
    points = array("d")
    for _ in _records(file):
        _, *point, _, length = _take(file, "<Q3d3BdQ")
        _skip(file, int(length), 8)
        points.extend(point)
    return points


# Text: a record is a line of words, an image two lines.


class _Line(NamedTuple):
    text: str
    whole: bool
    """Whether this is all of the line, or its first _LONGEST_LINE bytes."""

    def words(self, least: int, most: int = -1) -> list[str]:
        """Its words; with `most`, the last one is the rest of the line."""
        words = self.text.split(maxsplit=most - 1 if most > 0 else -1)
        if len(words) < least:
            raise SceneError(f"at least {least} words are required in a line, found {len(words)}: {quoted(self.text)}")
        return words

    def require_whole(self) -> _Line:
        """Itself; SceneError if it is longer than what is known of it."""
        if not self.whole:
            raise SceneError(f"a line of at most {_LONGEST_LINE} bytes is required, found {quoted(self.text)} and more")
        return self


def _lines(file: BinaryIO) -> Iterator[_Line]:
    """The lines without comments; empty ones too, since an image without points has one."""
    while start := file.readline(_LONGEST_LINE):
        whole = len(start) < _LONGEST_LINE or start.endswith(b"\n")
        rest = start
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
        if not start.startswith(b"#"):
            yield _Line(start.decode("utf-8", "strict" if whole else "replace").strip(), whole)


def _text_cameras(file: BinaryIO) -> _Cameras:
    lenses: _Cameras = {}
    for line in _lines(file):
        if not line.text:
            continue
        number, model, width, height, *values = line.require_whole().words(4)
        lenses[int(number)] = _lens(int(number), model, int(width), int(height), tuple(map(float, values)))
        _check_records(lenses, "cameras")
    return lenses


def _text_images(file: BinaryIO) -> list[_Image]:
    images: list[_Image] = []
    lines = _lines(file)
    for line in lines:
        if not line.text:
            continue
        words = line.require_whole().words(10, most=10)  # a name may have spaces
        images.append(_Image(words[9], int(words[8]), tuple(map(float, words[1:8]))))
        _check_records(images, "images")
        if next(lines, None) is None:
            raise SceneError("the file ends in the middle: no line of points follows the last image")
    return images


def _text_points(file: BinaryIO) -> _Points:
    points = array("d")
    for line in _lines(file):
        if not line.text:
            continue
        _, x, y, z, red, green, blue, *_ = line.words(8, most=9)
        color = tuple(map(int, (red, green, blue)))
        if not all(0 <= value <= 255 for value in color):
            raise SceneError(f"colours from 0 to 255 are required, found {color}")
        points.extend((float(x), float(y), float(z), *color))
    return points
