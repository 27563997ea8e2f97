"""What comments in the header of a PLY file say about its scene: that it is to be drawn antialiased, and what is up.

Sources: gsplat pull request 1036 and Brush's exporter (`SplatRenderMode: mip`), splat-transform's reader, which knows
Postshot's `antialiased 1` too (2026); Polycam's files ("... with Y-axis up"). Brush's "Vertical axis: y" is not used:
it does not say which end of the axis is up, and is there whatever the scene's axes are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from .gaussians import Gaussians

_MODE: Final = re.compile(r"SplatRenderMode: *(mip|default)|antialiased ([01])", re.IGNORECASE)
_UP: Final = re.compile(r"(?<![\w-])([+-]?)([XYZ])[- ]axis up\b", re.IGNORECASE)
_ANTIALIASED: Final = ("mip", "1")


def commented(scene: Gaussians, comments: Iterable[str]) -> Gaussians:
    """The scene with what comments say about it; of two that contradict each other, the last one counts."""
    for comment in comments:
        if mode := _MODE.fullmatch(comment.strip()):
            scene = replace(scene, antialiased=(mode[1] or mode[2]).lower() in _ANTIALIASED)
        elif up := _UP.search(comment):
            scene = replace(scene, up=up[1].strip("+") + up[2].lower())
    return scene


def comments_of(scene: Gaussians) -> Iterator[str]:
    """The lines of a header that say it."""
    if scene.antialiased:
        yield "comment SplatRenderMode: mip"
    if scene.up is not None:
        yield f"comment {scene.up.upper()}-axis up"
