"""The check that a fit has enough memory, before its pictures are read: a small file can hold a large picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..scene.gaussians import SceneError

_PIXEL_BYTES: Final = 200
"""What a step takes at most for each pixel of its picture, measured: the blending, the loss and their gradients."""
_GAUSSIAN_BYTES: Final = 120
"""What it takes for each Gaussian besides its parameters, measured."""
_COPIES: Final = 8
"""Of each parameter, where Gaussians are added: its gradient, Adam's moments, and the new ones beside the old."""
PHOTOGRAPH: Final = "photograph"
"""The noun of pictures that options make smaller."""


@dataclass(frozen=True)
class FitMemory:
    """What may be used, in bytes; None if it is not known, or does not matter."""

    reading: int | None = None
    """Where pictures are read."""
    fitting: int | None = None
    """Where the scene is fitted."""
    scene: int = 0
    """What the Gaussians will take there."""


UNLIMITED: Final = FitMemory()


def scene_bytes(gaussians: int, sh_degree: int) -> int:
    """What a step takes for the Gaussians."""
    numbers = 3 + 4 + 3 + 1 + 3 * (sh_degree + 1) ** 2
    return gaussians * (_GAUSSIAN_BYTES + 4 * _COPIES * numbers)


def fit_bytes(sizes: Sequence[tuple[int, int]], kept: int, scene: int) -> int:
    """What a fit to pictures of these sizes takes; a pixel of theirs is kept in `kept` bytes."""
    pixels = [width * height for width, height in sizes]
    return kept * sum(pixels) + _PIXEL_BYTES * max(pixels) + scene


def check_fitting(source: str, noun: str, sizes: Sequence[tuple[int, int]], kept: int, memory: FitMemory) -> None:
    """Raise SceneError if a fit to pictures of these sizes needs more memory than there is.

    `source` and `noun` name them in the message; `kept` is the number of bytes in which a pixel is kept.
    """
    needed, found = fit_bytes(sizes, kept, memory.scene), memory.fitting
    if found is None or needed <= found:
        return
    largest = f"{max(width * height for width, height in sizes) / 1e6:.1f} megapixels"
    what = f"a {noun} of {largest} needs" if len(sizes) == 1 else f"{len(sizes)} {noun}s of up to {largest} need"
    remedy = f"make {'it' if len(sizes) == 1 else 'them'} smaller"
    remedy += ": --downscale 2, or --max-size 1600" if noun == PHOTOGRAPH else " first"
    gaussians = ""
    if 2 * memory.scene > needed:
        gaussians, remedy = f", of which the Gaussians {memory.scene / 2**30:.1f}", "fit fewer with --gaussians"
    raise SceneError(
        f"{source}: {what} about {needed / 2**30:.1f} GiB{gaussians}, found {found / 2**30:.1f} GiB of memory; {remedy}"
    )
