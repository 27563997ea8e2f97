"""Reading JSON files that may be damaged or hostile: Python makes 2 GB of 64 MB of empty objects.

What a file can become is bounded before it is parsed: its characters, its objects and lists, and its values. Nesting is
bounded by Python's own parser, which gives up at some depth.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from .file_input import bytes_left, scene_file
from .gaussians import SceneError

# UTF-8 of characters beyond U+FFFF and U+00FF, and what JSON writes for them.
_FOUR_BYTES: Final = re.compile(rb"[\xf0-\xff]|\\u[dD][89abAB]")
_TWO_BYTES: Final = re.compile(rb"[\xc4-\xff]|\\u")


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


def _width(content: bytes) -> int:
    """How many bytes Python takes at most for each character of a text that was read."""
    if json.detect_encoding(content) != "utf-8":
        return 4
    return 4 if _FOUR_BYTES.search(content) else 2 if _TWO_BYTES.search(content) else 1
