"""Colours of any type of number as numbers from 0 to 1."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .gaussians import SH_C0

BYTE, WORD = 255, 65535
_OF_FLOATS: Final = (1, BYTE, WORD)
"""What may be the brightest value of floating-point colours."""


def unit_colors(values: npt.NDArray[Any], kind: np.dtype[Any]) -> npt.NDArray[np.float32]:
    """Colours of numbers that were of type `kind`, where 1 is the brightest; a few may exceed it.

    The largest number of an integer type is the brightest. Those of 16 bits and more, none of which exceeds a byte's
    (or of 32 bits, 16 bits'), are taken for such ones in a type that is too wide. Floating-point ones are from 0 to 1,
    unless most of those above 0 say otherwise.
    """
    if kind.kind == "f":
        above = np.asarray(values)[np.asarray(values) > 0]
        brightest = next((most for most in _OF_FLOATS if 2 * np.count_nonzero(above > most) <= len(above)), WORD)
    else:
        widest = int(np.iinfo(kind).max)
        largest = values.max(initial=0)
        brightest = next((most for most in (BYTE, WORD) if most < widest and largest <= most), widest)
    found: npt.NDArray[np.float32] = values.astype(np.float32) / np.float32(brightest)
    return found


def displayed_harmonics(sh: Tensor) -> Tensor:
    """Spherical harmonics [N, K, 3] of linear light as those of sRGB (IEC 61966-2-1).

    The constant colour is exact, and changes with the direction are multiplied by the slope there.
    """
    linear = 0.5 + SH_C0 * sh[:, :1]
    bright = linear > 0.0031308
    above = linear.clamp(min=0.0031308)
    color = torch.where(bright, 1.055 * above ** (1 / 2.4) - 0.055, 12.92 * linear)
    slope = torch.where(bright, 1.055 / 2.4 * above ** (1 / 2.4 - 1), 12.92)
    return torch.cat([(color - 0.5) / SH_C0, sh[:, 1:] * slope], dim=1)
