"""Reading photographs: sizes first, then pixels, made smaller on request; files may be damaged or hostile."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from ..scene.file_input import opened_file
from ..scene.gaussians import SceneError

# Not all that Pillow reads: for some formats it starts other programs.
PICTURES: Final = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM")
MOST_PIXELS: Final = 160_000_000
"""Of a picture: a few more than the 151 million of the largest cameras. A file of 20 KB can have as many."""
_UNPACKING_BYTES: Final = 32
"""Of memory that a pixel takes while a picture is unpacked: 6 to 30, measured for each format."""


@contextmanager
def opened_picture(
    path: Path, required: str = "a picture (PNG, JPEG, ...)", none: str = "none"
) -> Iterator[Image.Image]:
    """An open picture. What is wrong with the file is a SceneError: `required`, found `none` or a damaged one.

    OSError if it cannot be opened.
    """
    large = f"{path}: a picture of at most {MOST_PIXELS} pixels is required, found {{}}; make it smaller first"
    with opened_file(path) as file, warnings.catch_warnings():
        # About large and unusual pictures; those that are too large are an error.
        warnings.simplefilter("ignore")
        try:
            with Image.open(file, formats=PICTURES) as picture:
                width, height = picture.size
                if width * height > MOST_PIXELS:
                    raise SceneError(large.format(f"{width}x{height}"))
                yield picture
        except Image.DecompressionBombError as error:  # far more, which Pillow notices by itself
            raise SceneError(large.format("more")) from error
        except UnidentifiedImageError as error:
            raise SceneError(f"{path}: {required} is required, found {none}") from error
        except (MemoryError, SceneError):
            raise
        except Exception as error:  # Pillow's decoders have no common error class for damaged files
            raise SceneError(f"{path}: {required} is required, found a damaged picture: {error}") from error


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height of a picture, from its header."""
    with opened_picture(path) as picture:
        return picture.size


def check_unpacking(path: Path, size: tuple[int, int], memory: int | None) -> None:
    """Raise SceneError if `read_resized` takes more than `memory`, in bytes, if known. No pixel is read."""
    with opened_picture(path) as picture:
        picture.draft("RGB", size)
        width, height = picture.size
    needed = _UNPACKING_BYTES * width * height
    if memory is not None and needed > memory:
        raise SceneError(
            f"{path}: unpacking a picture of {width}x{height} pixels needs about {needed / 2**30:.1f} GiB, found "
            f"{memory / 2**30:.1f} GiB of memory; make it smaller first"
        )


def read_resized(path: Path, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """A picture as [H, W, 3], of `size`, width and height, each pixel the mean of those that it covers.

    What is transparent becomes black, which is what a renderer sees behind a scene.
    """
    with opened_picture(path) as picture:
        picture.draft("RGB", size)  # a JPEG can be unpacked at a half, a fourth or an eighth of its size
        if "A" in picture.getbands() or "transparency" in picture.info:
            shown = picture.convert("RGBA")
            solid = Image.new("RGBA", shown.size, (0, 0, 0, 255))
            solid.alpha_composite(shown)
            picture = solid
        whole = picture.convert("RGB")
        return np.array(whole if whole.size == size else whole.resize(size, Image.Resampling.BOX))
