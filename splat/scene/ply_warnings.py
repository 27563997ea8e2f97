"""Warnings about PLY files that may mean something else than what is read of them; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .names import listed
from .ply_header import Element, Header
from .ply_rows import Vertices

_NEAR_NAMES: Final = (
    ("scale_0", "the sizes", re.compile("scal|sigma", re.IGNORECASE)),
    ("rot_0", "the rotations", re.compile("rot|quat", re.IGNORECASE)),
    ("opacity", "the opacities", re.compile("opac", re.IGNORECASE)),
    ("f_dc_0", "the colours", re.compile(r"dc|colou?r|albedo|diffuse|^sh_?0|^[rgb]$|(red|green|blue)$", re.IGNORECASE)),
    ("f_rest_0", "the harmonics", re.compile(r"rest|harmonic|^shn|^sh_?\d", re.IGNORECASE)),
)
"""What is missing, what it would say, and what others call it."""
_FEW: Final = 10
"""So many Gaussians may have any values."""


def warnings_of(header: Header, vertices: Vertices, only_points: bool) -> Iterator[str]:
    """A phrase for each; with `only_points`, none about what other values than these are not there."""
    (vertex,) = (element for element in header.elements if element.name == "vertex")
    names = [prop.name for prop in vertex.properties]
    read = {*vertices.columns, *(("f_dc_0",) if "red" in vertices.columns else ())}
    for name, what, near in _NEAR_NAMES:
        others = [other for other in names if near.search(other)]
        if others and name not in read:
            yield f"{what} are not read: {name} and its like are required, found {listed(others)}; rename these"
        elif name == "scale_0" and name not in vertices.columns and vertex.rows and not only_points:
            yield _without_sizes(vertices)
        elif name == "f_dc_0" and name not in read and "scale_0" in read and vertex.rows and not only_points:
            yield "the Gaussians have no colours: f_dc_0 to f_dc_2 are required, found none; they are drawn grey"
        elif name == "opacity" and name not in read and "scale_0" in read and vertex.rows and not only_points:
            yield "the Gaussians have no opacities: opacity is required, found none; they are drawn opaque"
    if vertices.left >= max(vertex.rows, 1):
        yield _longer(vertex, vertices.left)
    opacities, scales = (
        [values for name, values in vertices.columns.items() if name.startswith(start)] for start in ("opac", "scale_")
    )
    if len(vertices.centres) > _FEW and opacities and scales:
        fractions = all(((values >= 0) & (values <= 1)).all() for values in opacities)
        if fractions and all((values > 0).all() for values in scales):
            yield (
                "opacity and scale_0 to scale_2 are read as logits and logarithms, found values from 0 to 1 and values "
                "above 0 alone: they may have been written after activation, and everything looks alike then"
            )


def _without_sizes(vertices: Vertices) -> str:
    bare = not {"rot_0", "opacity", "f_dc_0"} & {*vertices.columns}
    return (
        f"{'a point cloud, whose points have' if bare else 'the Gaussians have'} no sizes: scale_0 to scale_2 are "
        "required, found none; balls of a guessed size are drawn, half as large as the points are apart"
        f"{'; `splat fit` makes a scene of photographs and such points' if bare else ''}"
    )


def _longer(vertex: Element, left: int) -> str:
    each, rest = divmod(left, vertex.rows or 1)
    rows = f", {each} for each of {vertex.rows} rows" if vertex.rows and not rest else ""
    return (
        f"the file has {left} bytes more than its header declares{rows}: if rows are longer than the header says, what "
        "was read of them is wrong"
    )
