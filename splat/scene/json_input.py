"""Reading JSON files that may be damaged or hostile: Python makes 2 GB of 64 MB of empty objects.

What a file can become is bounded before it is parsed: its characters, its objects and lists, and its values. Nesting is
bounded by Python's own parser, which gives up at some depth.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .file_input import bytes_left, scene_file
from .gaussians import SceneError
from .names import quoted

# UTF-8 of characters beyond U+FFFF and U+00FF, and what JSON writes for them.
_FOUR_BYTES: Final = re.compile(rb"[\xf0-\xff]|\\u[dD][89abAB]")
_TWO_BYTES: Final = re.compile(rb"[\xc4-\xff]|\\u")
_LARGEST: Final = float(np.finfo(np.float32).max)


class JsonLimits(NamedTuple):
    """What a file may have at most."""

    bytes: int
    """Of the text as Python holds it: a single wide character makes all of them take 2 or 4."""
    nests: int
    """Objects and lists, which take about 70 to 250 bytes of memory each."""
    values: int
    """Names, numbers and words, which take about 60 bytes each."""


def read_json(path: Path, what: str, limits: JsonLimits, **hooks: Any) -> Any:
    """What a file holds. `what` says in messages what is required; `hooks` are those of `json.loads`.

    Raises:
        SceneError: if it is no JSON, or exceeds a limit; the message names the file.
        OSError: if it cannot be opened.
    """
    with scene_file(path) as file:
        size = bytes_left(file)
        if size > limits.bytes:
            raise SceneError(f"{what} of at most {limits.bytes} bytes is required, found {size}")
        return parse_json(file.read(size), what, limits, **hooks)


def parse_json(content: bytes, what: str, limits: JsonLimits, **hooks: Any) -> Any:
    """The same, of bytes that were read."""
    width = _width(content)
    if width * len(content) > limits.bytes:
        raise SceneError(
            f"{what} of at most {limits.bytes} bytes is required, found {len(content)} with characters that take "
            f"{width} each"
        )
    # In words, too, these characters count: there can be no more nests and values than that.
    nests = content.count(b"{") + content.count(b"[")
    values = nests + content.count(b",") + content.count(b":") + 1
    for name, found, most in (("objects and lists", nests, limits.nests), ("values", values, limits.values)):
        if found > most:
            raise SceneError(f"{what} of at most {most} {name} is required, found up to {found}")
    try:
        return json.loads(content, **hooks)
    except SceneError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: not JSON, not UTF-8, or a number of too many digits
        raise SceneError(f"{what} is required, found something else: {str(error)[:120]}") from error


def whole_number(part: dict[str, Any], name: str, least: int, most: int, default: int | None = None) -> int:
    """A number of an object that was read; SceneError if it is missing or another value."""
    value = part.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SceneError(f"{name!r} must be a whole number from {least} to {most}, found {quoted(str(value)[:50])}")
    return value


def finite_numbers(
    part: dict[str, Any], name: str, least: int, most: int, default: list[float] | None = None
) -> npt.NDArray[np.float64]:
    """A list of `least` to `most` numbers within those of float32, of an object that was read; SceneError as above."""
    values = part.get(name, default)
    if not isinstance(values, list) or not least <= len(values) <= most:
        raise SceneError(f"{name!r} must be a list of {least} to {most} numbers, found something else")
    if not all(
        isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST for value in values
    ):
        raise SceneError(f"{name!r} must hold finite numbers alone, found something else")
    return np.array(values, np.float64)


def _width(content: bytes) -> int:
    """How many bytes Python takes at most for each character of a text that was read."""
    if json.detect_encoding(content) != "utf-8":
        return 4
    if content.isascii() and b"\\u" not in content:  # a hundred times faster, for files with data in them
        return 1
    return 4 if _FOUR_BYTES.search(content) else 2 if _TWO_BYTES.search(content) else 1
