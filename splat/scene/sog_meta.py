"""What the meta.json of a .sog file says, checked: the file may be damaged or hostile."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .gaussians import SceneError
from .json_input import JsonLimits, finite_numbers, parse_json, whole_number
from .names import quoted

SOG_VERSION: Final = 2
META: Final = "meta.json"
MAX_META: Final = 2**20
"""Its maximum size in bytes; those of 256 entries in three codebooks have 16 KB."""
MAX_DEGREE: Final = 3
ANTIALIASED: Final = "antialiased"
"""The model of scenes that are to be drawn so."""
MOST_PALETTE: Final = 2**16
"""The most entries of the palette: labels have 16 bits."""

_LIMITS: Final = JsonLimits(bytes=MAX_META, nests=100, values=10_000)
_IMAGES: Final = {"means": ("means_l", "means_u"), "scales": ("scales",), "quats": ("quats",), "sh0": ("sh0",)}
_HARMONICS: Final = ("shN_centroids", "shN_labels")

Floats = npt.NDArray[np.float32]


class SogMeta(NamedTuple):
    """What meta.json says."""

    gaussians: int
    mins: npt.NDArray[np.float64]
    """Of coordinates of a map, logarithms need more digits than float32 has."""
    maxs: npt.NDArray[np.float64]
    scales: Floats
    """The codebook of logarithms of standard deviations."""
    colors: Floats
    """That of constant coefficients."""
    degree: int
    palette: int
    """The number of entries."""
    coefficients: Floats
    """The codebook of the palette."""
    files: dict[str, str]
    """For each image, its name in the archive."""
    antialiased: bool
    """Whether its model is "antialiased"; the others are "default" and "2dgs"."""


def parse_meta(content: bytes) -> SogMeta:
    """What the bytes of a meta.json say; SceneError if they cannot be those of this version."""
    meta = parse_json(content, f"{META} with one JSON object", _LIMITS)
    if not isinstance(meta, dict):
        raise SceneError(f"{META} must hold one JSON object, found another value")
    if meta.get("version") != SOG_VERSION:
        raise SceneError(
            f"version {SOG_VERSION} of .sog is required, found {quoted(str(meta.get('version', 1)))}; "
            "splat-transform converts it"
        )
    files = {
        name: file
        for part, names in _IMAGES.items()
        for name, file in zip(names, _files(meta, part, len(names)), strict=True)
    }
    degree, palette, coefficients = 0, 0, np.zeros(0, np.float32)
    if meta.get("shN") is not None:
        harmonics = _part(meta, "shN")
        degree = whole_number(harmonics, "bands", 1, MAX_DEGREE)
        palette = whole_number(harmonics, "count", 1, MOST_PALETTE)
        coefficients = finite_numbers(harmonics, "codebook", 1, 256).astype(np.float32)
        files.update(zip(_HARMONICS, _files(meta, "shN", 2), strict=True))
    return SogMeta(
        whole_number(meta, "count", 0, 2**32),
        finite_numbers(_part(meta, "means"), "mins", 3, 3),
        finite_numbers(_part(meta, "means"), "maxs", 3, 3),
        finite_numbers(_part(meta, "scales"), "codebook", 1, 256).astype(np.float32),
        finite_numbers(_part(meta, "sh0"), "codebook", 1, 256).astype(np.float32),
        degree,
        palette,
        coefficients,
        files,
        meta.get("model") == ANTIALIASED,
    )


def _part(meta: dict[str, Any], name: str) -> dict[str, Any]:
    part = meta.get(name)
    if not isinstance(part, dict):
        raise SceneError(f"{META} must have an object {name!r}, found none")
    return part


def _files(meta: dict[str, Any], name: str, number: int) -> list[str]:
    files = _part(meta, name).get("files")
    if not isinstance(files, list) or len(files) != number or not all(isinstance(file, str) for file in files):
        raise SceneError(f"'files' of {name!r} must be a list of {number} names, found something else")
    return files
