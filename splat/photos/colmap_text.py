"""Reading the .txt files of COLMAP's models: a record is a line of words, an image two lines."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, NamedTuple

from ..scene.gaussians import SceneError
from ..scene.names import quoted
from .colmap_records import LONGEST_NAME, CameraRecord, ImageRecord, PointRecords, check_records

_LONGEST_LINE: Final = 2 * LONGEST_NAME
"""Bytes of a line that are looked at: a name and ten numbers."""
_BOM: Final = b"\xef\xbb\xbf"
"""What Windows' editors put in front of UTF-8."""


class _Line(NamedTuple):
    number: int
    text: str
    whole: bool
    """Whether this is all of the line, or its first _LONGEST_LINE bytes."""

    def words(self, least: int, most: int = -1) -> list[str]:
        """Its words; with `most`, the last one is the rest of the line."""
        words = self.text.split(maxsplit=most - 1 if most > 0 else -1)
        if len(words) < least:
            raise SceneError(f"at least {least} words are required, found {len(words)}: {quoted(self.text)}")
        return words

    def require_whole(self) -> _Line:
        """Itself; SceneError if it is longer than what is known of it."""
        if not self.whole:
            raise SceneError(f"at most {_LONGEST_LINE} bytes are required, found {quoted(self.text)} and more")
        return self

    def is_image(self) -> bool:
        """Whether it is an image, and not the places of points in one, which are numbers only."""
        return bool(re.match(r"\d+\s([^\s]+\s+){7}\d+\s+\S", self.text) and re.search("[^-+.0-9eE\\s]", self.text))


def _lines(file: BinaryIO) -> Iterator[_Line]:
    """The lines without comments; empty ones too, since an image without points has one."""
    number = 0
    while start := file.readline(_LONGEST_LINE):
        whole = len(start) < _LONGEST_LINE or start.endswith(b"\n")
        rest = start
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
        number += 1
        start = start.removeprefix(_BOM) if number == 1 else start
        if not start.startswith(b"#"):
            yield _Line(number, start.decode("utf-8", "surrogateescape").strip(), whole)


@contextmanager
def _named(line: _Line) -> Iterator[None]:
    """What is wrong with a line gets its number."""
    try:
        yield
    except ValueError as error:
        raise SceneError(f"line {line.number}: {error}") from error


def text_cameras(file: BinaryIO) -> dict[int, CameraRecord]:
    """The cameras by their numbers."""
    cameras: dict[int, CameraRecord] = {}
    for line in _lines(file):
        if line.text:
            with _named(line):
                number, model, width, height, *values = line.require_whole().words(4)
                cameras[int(number)] = CameraRecord(model, int(width), int(height), tuple(map(float, values)))
            check_records(cameras, "cameras")
    return cameras


def text_images(file: BinaryIO) -> list[ImageRecord]:
    """The images; the second line of each may be missing, as other programs than COLMAP leave it out."""
    images: list[ImageRecord] = []
    lines = _lines(file)
    line, single = next(lines, None), False
    while line is not None:
        follows = next(lines, None)
        if line.text:
            with _named(line):
                words = line.require_whole().words(10, most=10)  # a name may have spaces
                images.append(ImageRecord(words[9], int(words[8]), tuple(map(float, words[1:8]))))
            check_records(images, "images")
            if follows is None and not single:
                raise SceneError("the file ends in the middle: no line of points follows the last image")
            if follows is not None and follows.is_image():
                single = True
            else:
                follows = next(lines, None)
        line = follows
    return images


def text_points(file: BinaryIO) -> PointRecords:
    """The points; one bad line costs one point."""
    points, first_bad = array("d"), ""
    for line in _lines(file):
        if line.text:
            try:
                points.extend(_point(line))
            except ValueError as error:
                points.extend([math.nan] * 6)
                first_bad = first_bad or f"line {line.number}: {error}"
    return PointRecords(points, first_bad)


def _point(line: _Line) -> tuple[float, ...]:
    _, x, y, z, red, green, blue, *_ = line.words(8, most=9)
    color = tuple(map(int, (red, green, blue)))
    if not all(0 <= value <= 255 for value in color):
        raise SceneError(f"colours from 0 to 255 are required, found {color}")
    place = float(x), float(y), float(z)
    if not all(map(math.isfinite, place)):
        raise SceneError(f"a finite place is required, found {quoted(f'{x} {y} {z}')}")
    return (*place, *color)
