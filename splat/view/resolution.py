"""How large a picture to draw: what can be drawn in time while the camera moves, and step by step all of it after.

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
"""If the Gaussians alone take too long, the pixels may take this share of their time: fewer would not help."""
LEAST: Final = 0.125
"""The smallest scale: below it, nothing can be recognised."""
IN_TIME: Final = 0.04
"""The seconds that are aimed at for a picture while the camera moves, which leaves some of 50 ms for the way."""
AT_ONCE: Final = 0.4
"""A picture at rest that takes no longer than this is drawn without steps in between: a new drag has to wait for it."""
REST: Final = 0.12
"""The seconds without news after which the camera is at rest."""


def moving_scale(scale: float, seconds: float, fixed: float = 0.0) -> float:
    """The scale of the next picture while the camera moves.

    Args:
        scale: of the last one.
        seconds: that it took.
        fixed: those of them that do not depend on the pixels.
    """
    aim = max(IN_TIME - fixed, OVERHEAD * fixed)
    factor = math.sqrt(aim / max(seconds - fixed, aim / 16))
    if 0.9 <= factor <= 1.1:  # a resolution that changes with every picture flickers
        return scale
    return min(1.0, max(LEAST, scale * factor))


def fixed_seconds(first: tuple[float, float], second: tuple[float, float]) -> float | None:
    """The time that does not depend on the pixels, by two scales and their seconds; None if they are too close."""
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
