"""How much to draw: what is fast enough while the camera moves, then step by step up to everything.

Drawing takes a time for the Gaussians and one for the pixels. How long the two take is learned from the last pictures,
in which their parts differ: see `updated_model`.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

OVERHEAD: Final = 0.25
"""If the Gaussians alone take too long, pixels may take this share of that time; drawing fewer would hardly help."""
LEAST: Final = 0.125
"""The smallest scale; below it, nothing is recognisable."""
FEWEST: Final = 0.02
"""The smallest share of the Gaussians."""
MOST: Final = 0.5
"""The largest share below 1. The Gaussians of a share are kept as a copy, and more would hardly be slower than all."""
IN_TIME: Final = 0.04
"""The target time in seconds for a picture while the camera moves; of 50 ms, the rest is for sending it."""
AT_ONCE: Final = 0.4
"""A whole picture expected within these seconds is drawn directly, without steps; a new drag waits for it."""
REST: Final = 0.12
"""After this many seconds without a request the camera counts as at rest."""
SURPRISE: Final = 4.0
"""A picture that takes so many times what was expected, or as little, is of another scene, or of another part."""
_STEADY: Final = {"scale": 1.15, "share": 1.6}
"""Changes by at most these factors are not made: a detail that changes with every picture flickers."""
_REMEMBERED: Final = 12
"""So many pictures are learned from."""
_TRUST: Final = 0.15
"""What was known before counts as much as this part of a picture."""


class Detail(NamedTuple):
    """How much of a picture is drawn."""

    scale: float
    """The share of the page's width and height, above 0 and at most 1."""
    share: float = 1.0
    """The share of the Gaussians, the most prominent ones (prominence.py), above 0 and at most 1."""


FULL: Final = Detail(1.0)
FIRST: Final = Detail(0.25)
"""Of the first picture, before anything was measured."""


class Cost(NamedTuple):
    """What pictures take, in seconds above 0."""

    gaussians: float
    """For all Gaussians, before any pixel is drawn."""
    pixels: float
    """For all pixels of the page."""

    def of(self, detail: Detail) -> float:
        """What a picture of this detail takes."""
        return self.gaussians * detail.share + self.pixels * detail.scale**2


class CostModel(NamedTuple):
    """What is known about the times of pictures."""

    cost: Cost
    drawn: tuple[tuple[Detail, float], ...]
    """The last pictures, and the seconds that they took."""


def updated_model(model: CostModel | None, detail: Detail, seconds: float) -> CostModel:
    """What is known after a picture of this detail took so many seconds.

    Two pictures whose shares of Gaussians and pixels differ tell the two times apart. While they do not differ, as in a
    long drag, what changes is shared out among the two.
    """
    seconds = max(seconds, 1e-5)
    if model is None or not 1 / SURPRISE < seconds / model.cost.of(detail) < SURPRISE:
        half = seconds / 2
        return CostModel(Cost(half / detail.share, half / detail.scale**2), ((detail, seconds),))
    drawn = (*model.drawn[1 - _REMEMBERED :], (detail, seconds))
    return CostModel(_fitted(model.cost, drawn), drawn)


def _fitted(cost: Cost, drawn: tuple[tuple[Detail, float], ...]) -> Cost:
    """The least squares of the errors, each as a part of what `cost` expects of the picture."""
    # In factors u and v of the times in `cost`; the normal equations begin with u = 1 and v = 1.
    uu = vv = u1 = v1 = _TRUST
    uv = 0.0
    for detail, seconds in drawn:
        expected = cost.of(detail)
        u, v = cost.gaussians * detail.share / expected, cost.pixels * detail.scale**2 / expected
        uu, uv, vv = uu + u * u, uv + u * v, vv + v * v
        u1, v1 = u1 + u * seconds / expected, v1 + v * seconds / expected
    determinant = uu * vv - uv * uv
    factors = (u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant
    gaussians, pixels = (min(SURPRISE, max(1 / SURPRISE, factor)) for factor in factors)
    return Cost(max(cost.gaussians * gaussians, 1e-5), max(cost.pixels * pixels, 1e-5))


def moving_detail(cost: Cost, last: Detail) -> Detail:
    """The detail of the next picture while the camera moves; `last` is that of the one before.

    Gaussians and pixels have half of the time each; what one does not need, the other gets.
    """
    share = max(IN_TIME / 2, IN_TIME - cost.pixels) / cost.gaussians
    if _is_near(share, last.share, _STEADY["share"]):
        share = last.share
    else:
        share = 1.0 if share >= 1 else min(MOST, max(FEWEST, share))
    fixed = cost.gaussians * share
    scale = math.sqrt(max(IN_TIME - fixed, OVERHEAD * fixed) / cost.pixels)
    scale = last.scale if _is_near(scale, last.scale, _STEADY["scale"]) else min(1.0, max(LEAST, scale))
    return Detail(scale, share)


def _is_near(value: float, other: float, factor: float) -> bool:
    return other / factor <= value <= other * factor


def resting_detail(last: Detail, cost: Cost) -> Detail:
    """The detail of the next picture of a camera at rest, after one of `last`: all Gaussians, in the end all pixels.

    Steps that take as long as all pixels would, because the Gaussians take most of the time, are left out.
    """
    step, whole = Detail(min(1.0, 2 * last.scale)), cost.of(FULL)
    return FULL if whole <= max(AT_ONCE, 2 * cost.of(step)) else step


def scaled_size(width: int, height: int, scale: float) -> tuple[int, int]:
    """Width and height of a picture of this scale, in whole pixels, at least 1."""
    return max(1, round(width * scale)), max(1, round(height * scale))
