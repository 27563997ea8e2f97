"""Coordinates of a map: an offset is subtracted in float64 before they become float32.

float32 has 24 bits: at a northing of 4,600,000 m its steps are half a metre.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Offset = tuple[float, float, float]
"""x, y, z to add to what is in memory, for what stands in the file."""
NO_OFFSET: Final[Offset] = (0.0, 0.0, 0.0)

_FAR: Final = 128
"""So many times as far away as they extend, points get an offset: a step of float32 is then 1/65536 of their extent, a
16th of a pixel in a picture of 4096."""
_FARTHEST: Final = 2.0**52
"""Beyond, float64 has no halves either."""
_SAMPLE: Final = 2**16
"""Points that are looked at."""


def find_offset(points: npt.NDArray[np.float64]) -> Offset:
    """What to take off points [N, 3], in float64, before they become float32; `NO_OFFSET` for most scenes.

    Their middle, if they are much farther from the origin than they extend, by their median and the middle 96 %: a
    few far Gaussians decide nothing. It is a round number, and one that float64 takes off without an error.
    """
    some = points[:: len(points) // _SAMPLE + 1]
    some = some[np.isfinite(some).all(axis=1)]
    if not len(some):
        return NO_OFFSET
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite extent needs no offset
        low, middle, high = np.quantile(some, (0.02, 0.5, 0.98), axis=0)
        extent = float((high - low).max()) or 1.0
    if not _FAR * extent < np.abs(middle).max() < _FARTHEST:
        return NO_OFFSET
    unit = 10.0 ** np.floor(np.log10(extent)) if extent >= 1 else 2.0 ** max(np.floor(np.log2(extent)), -20)
    x, y, z = (np.rint(middle / unit) * unit).tolist()
    return x, y, z


def shown_offset(offset: Offset) -> str:
    """x, y and z with all their digits, as options take them."""
    return ",".join(f"{number:.15g}" for number in offset)


def rounded_centres(step: float, offset: Offset) -> str:
    """That a file holds the centres of a scene with an offset in such steps only, and what to do."""
    x, y, z = offset
    return (
        f"centres are rounded to steps of {step:.2g}, because they are near {shown_offset(offset)}; .ply and .sog hold "
        f"them there, and `splat convert --translate {shown_offset((-x, -y, -z))}` takes them to the origin first"
    )


def float32_losses(offset: Offset) -> list[str]:
    """What a file of coordinates as float32 cannot hold of a scene with this offset, a phrase each."""
    if offset == NO_OFFSET:
        return []
    return [rounded_centres(float(np.spacing(np.float32(max(map(abs, offset))))), offset)]
