"""How large a picture to draw: what is fast enough while the camera moves, then step by step up to full size.

A scale is the share of the page's width and height, above 0 and at most 1. Drawing takes a fixed time for the Gaussians
and one that grows with the pixels. Two pictures of one camera at different scales tell the two apart; before that, the
fixed one is taken to be 0, which is safe: pixels times k take at most k times as long.
"""

from __future__ import annotations

import math
from typing import Final

FIRST: Final = 0.25
"""The scale of the first picture, before anything was measured."""
OVERHEAD: Final = 0.25
"""If the Gaussians alone take too long, pixels may take this share of that time; drawing fewer would hardly help."""
LEAST: Final = 0.125
"""The smallest scale; below it, nothing is recognisable."""
IN_TIME: Final = 0.04
"""The target time in seconds for a picture while the camera moves; of 50 ms, the rest is for sending it."""
AT_ONCE: Final = 0.4
"""A full-size picture expected within these seconds is drawn directly, without steps; a new drag waits for it."""
REST: Final = 0.12
"""After this many seconds without a request the camera counts as at rest."""


def moving_scale(scale: float, seconds: float, fixed: float = 0.0) -> float:
    """The scale of the next picture while the camera moves.

    Args:
        scale: the last picture's scale.
        seconds: how long it took to draw.
        fixed: the part of that time that does not depend on the number of pixels.
    """
    aim = max(IN_TIME - fixed, OVERHEAD * fixed)
    factor = math.sqrt(aim / max(seconds - fixed, aim / 16))
    if 0.9 <= factor <= 1.1:  # a resolution that changes with every picture flickers
        return scale
    return min(1.0, max(LEAST, scale * factor))


def fixed_seconds(first: tuple[float, float], second: tuple[float, float]) -> float | None:
    """The pixel-independent time, from two (scale, seconds) measurements; None if their scales are too close."""
    (scale, seconds), (other_scale, other_seconds) = first, second
    area, other_area = scale**2, other_scale**2
    if max(area, other_area) < 2 * min(area, other_area):
        return None
    fixed = (seconds * other_area - other_seconds * area) / (other_area - area)
    return min(max(0.0, fixed), seconds, other_seconds)


def resting_scale(scale: float, seconds: float) -> float:
    """The scale of the next picture of a camera at rest, after one of `scale` took `seconds`; 1 in the end."""
    return 1.0 if seconds / scale**2 <= AT_ONCE else min(1.0, 2 * scale)


def scaled_size(width: int, height: int, scale: float) -> tuple[int, int]:
    """Width and height of a picture of this scale, in whole pixels, at least 1."""
    return max(1, round(width * scale)), max(1, round(height * scale))
