"""The check that pictures fit into memory, before they are read: a small file can hold a large picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..scene.gaussians import SceneError

STEP_BYTES: Final = 300
"""Of memory that a step takes for each pixel of a picture, measured: SSIM, the blending and their gradients."""
PHOTOGRAPH: Final = "photograph"
"""The noun of pictures that options make smaller."""


@dataclass(frozen=True)
class FitMemory:
    """What may be used, in bytes; None if it is not known, or does not matter."""

    reading: int | None = None
    """Where pictures are read."""
    fitting: int | None = None
    """Where the scene is fitted."""


UNLIMITED: Final = FitMemory()


def check_fitting(source: str, noun: str, sizes: Sequence[tuple[int, int]], kept: int, memory: FitMemory) -> None:
    """Raise SceneError if a fit to pictures of these sizes needs more memory than there is.

    `source` and `noun` name them in the message; `kept` is the number of bytes in which a pixel is kept.
    """
    pixels = [width * height for width, height in sizes]
    needed, found = kept * sum(pixels) + STEP_BYTES * max(pixels), memory.fitting
    if found is None or needed <= found:
        return
    largest = f"{max(pixels) / 1e6:.1f} megapixels"
    what = f"a {noun} of {largest} needs" if len(sizes) == 1 else f"{len(sizes)} {noun}s of up to {largest} need"
    remedy = f"make {'it' if len(sizes) == 1 else 'them'} smaller"
    remedy += ": --downscale 2, or --max-size 1600" if noun == PHOTOGRAPH else " first"
    raise SceneError(
        f"{source}: {what} about {needed / 2**30:.1f} GiB, found {found / 2**30:.1f} GiB of memory; {remedy}"
    )
