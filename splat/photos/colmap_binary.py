"""Reading the .bin files of COLMAP's models: little-endian, a count and then that many records."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import BinaryIO

from ..scene.file_input import bytes_left
from ..scene.gaussians import SceneError
from .colmap_records import LONGEST_NAME, CameraRecord, ImageRecord, PointRecords, check_records
from .lens_models import LENS_MODELS


def binary_cameras(file: BinaryIO) -> dict[int, CameraRecord]:
    """The cameras by their numbers."""
    cameras: dict[int, CameraRecord] = {}
    for _ in _records(file):
        number, kind, width, height = map(int, _take(file, "<IiQQ"))
        if not 0 <= kind < len(LENS_MODELS):
            # How many parameters it has is not written, so what follows cannot be read.
            raise SceneError(
                f"camera {number} has the lens model number {kind}; required: 0 to {len(LENS_MODELS) - 1}, COLMAP "
                "4.2's. Its text says more: colmap model_converter --output_type TXT --input_path MODEL --output_path "
                "FOLDER"
            )
        name = [*LENS_MODELS][kind]
        cameras[number] = CameraRecord(name, width, height, _take(file, f"<{len(LENS_MODELS[name].parameters)}d"))
        check_records(cameras, "cameras")
    return cameras


def binary_images(file: BinaryIO) -> list[ImageRecord]:
    """The images."""
    images: list[ImageRecord] = []
    for _ in _records(file):
        _, *pose, camera = _take(file, "<I7dI")
        name = bytearray()
        while (byte := file.read(1)) != b"\0":
            if not byte or len(name) == LONGEST_NAME:
                raise SceneError(f"a name of at most {LONGEST_NAME} bytes and a zero is required, found none")
            name += byte
        (count,) = _take(file, "<Q")
        _skip(file, int(count), 24)
        images.append(ImageRecord(name.decode("utf-8", "surrogateescape"), int(camera), tuple(pose)))
        check_records(images, "images")
    return images


def binary_points(file: BinaryIO) -> PointRecords:
    """The points."""
    points = array("d")
    for _ in _records(file):
        _, *point, _, length = _take(file, "<Q3d3BdQ")
        _skip(file, int(length), 8)
        points.extend(point)
    return PointRecords(points)


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
