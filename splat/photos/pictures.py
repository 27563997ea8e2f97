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

from ..scene.gaussians import SceneError

# Not all that Pillow reads: for some formats it starts other programs.
PICTURES: Final = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM")


@contextmanager
def opened_picture(
    path: Path, required: str = "a picture (PNG, JPEG, ...)", none: str = "none"
) -> Iterator[Image.Image]:
    """An open picture. What is wrong with the file is a SceneError: `required`, found `none` or a damaged one.

    OSError if it cannot be opened.
    """
    with path.open("rb") as file, warnings.catch_warnings():
        # About large and unusual pictures; those that are too large are an error.
        warnings.simplefilter("ignore")
        try:
            with Image.open(file, formats=PICTURES) as picture:
                yield picture
        except UnidentifiedImageError as error:
            raise SceneError(f"{path}: {required} is required, found {none}") from error
        except (MemoryError, SceneError):
            raise
        except Exception as error:  # Pillow's decoders have no common error class for damaged files
            raise SceneError(
                f"{path}: {required} is required, found a damaged picture, or one that is too large: {error}"
            ) from error


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height of a picture, from its header."""
    with opened_picture(path) as picture:
        return picture.size


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
