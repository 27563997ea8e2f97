"""Writing rendered images as PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

from .file_output import check_writable, replacing


def to_8_bit(image: Tensor) -> npt.NDArray[np.uint8]:
    """An image [H, W, 3] of values from 0 to 1 as 8-bit sRGB.

    Scenes are trained on photographs as they are stored, so their colours are already sRGB-encoded: values are clamped
    and rounded, without a transfer curve. NaN becomes 0.
    """
    if image.ndim != 3 or image.shape[-1] != 3:
        raise ValueError(f"an image must have shape [H, W, 3], found {list(image.shape)}")
    values: npt.NDArray[np.uint8] = image.detach().nan_to_num(0.0).clamp(0, 1).mul(255).round().byte().cpu().numpy()
    return values


def check_picture(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_png` would, before any work is done for the picture."""
    return check_writable(path, ".png", "pictures")


def write_png(path: str | Path, image: Tensor) -> None:
    """Write `image`, [H, W, 3] of values from 0 to 1, as a PNG file; see `to_8_bit`.

    The file appears complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not end in .png, OSError if the file cannot be written.
    """
    path = check_picture(path)
    picture = Image.fromarray(to_8_bit(image))
    with replacing(path) as file:
        picture.save(file, format="PNG")
