"""How large a picture to draw: what can be drawn in time while the camera moves, and step by step all of it after.

A scale is the share of the page's width and height, above 0 and at most 1. Drawing takes a fixed time for the Gaussians
and one that grows with the pixels. So pixels times k take at most k times as long, which makes growing by the ratio of
the times safe; shrinking may have to be repeated.
"""

from __future__ import annotations

import math
from typing import Final

FIRST: Final = 0.25
"""The scale of the first picture, before anything was measured."""
LEAST: Final = 0.125
"""The smallest scale: below it, nothing can be recognised."""
IN_TIME: Final = 0.04
"""The seconds that are aimed at for a picture while the camera moves, which leaves some of 50 ms for the way."""
AT_ONCE: Final = 0.4
"""A picture at rest that takes no longer than this is drawn without steps in between: a new drag has to wait for it."""
REST: Final = 0.12
"""The seconds without news after which the camera is at rest."""


def moving_scale(scale: float, seconds: float) -> float:
    """The scale of the next picture while the camera moves, after one of `scale` took `seconds`."""
    factor = math.sqrt(IN_TIME / max(seconds, 1e-6))
    if 0.9 <= factor <= 1.1:  # a resolution that changes with every picture flickers
        return scale
    return min(1.0, max(LEAST, scale * factor))


def resting_scale(scale: float, seconds: float) -> float:
    """The scale of the next picture of a camera at rest, after one of `scale` took `seconds`; 1 in the end."""
    return 1.0 if seconds / scale**2 <= AT_ONCE else min(1.0, 2 * scale)


def scaled_size(width: int, height: int, scale: float) -> tuple[int, int]:
    """Width and height of a picture of this scale, in whole pixels, at least 1."""
    return max(1, round(width * scale)), max(1, round(height * scale))
