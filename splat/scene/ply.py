"""Reading PLY files of trained Gaussians, as the original 3D Gaussian Splatting code writes them."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Final

import numpy as np
import torch

from .colors import unit_colors
from .compressed_ply import is_compressed, read_compressed
from .file_input import scene_file, usable
from .gaussians import SH_C0, Gaussians, SceneError
from .names import listed
from .ply_comments import commented
from .ply_header import read_header
from .ply_rows import Array, Vertices, read_vertices
from .ply_warnings import warnings_of


def read_ply(path: str | Path, only_points: bool = False) -> Gaussians:
    """Read the Gaussians of a PLY file, activated, on the CPU.

    With `only_points`, their sizes do not matter: there is no warning if the file has none.

    The properties of the element `vertex` are found by name, in any order and of any scalar type; unknown ones and
    other elements are ignored. These are the properties, and what is used if they are missing:

    - `x`, `y`, `z`: the centres; required.
    - `scale_0..2`: logarithms. Without `scale_2` the Gaussians are flat (2D Gaussian splatting), with only `scale_0`
      they are spheres, and without any they are spheres whose size is chosen by the density of the points.
    - `rot_0..3`: quaternions w, x, y, z; otherwise no rotation.
    - `opacity`: logits, may be infinite; otherwise opaque.
    - `f_dc_0..2`: constant SH coefficients; otherwise `red`, `green`, `blue` (as `unit_colors` reads them), otherwise
      grey.
    - `f_rest_0..`: the higher SH coefficients, all of red, then green, then blue: 9, 24, 45 or 72; otherwise none.

    Compressed files of SuperSplat are read too; `compressed_ply.py` describes them, and `ply_comments.py` what comments
    say about the scene.

    Gaussians with a NaN, an infinity or a quaternion of length 0 are left out, with a warning that says how many; one
    also says what makes it doubtful that values were read as they were meant (`ply_warnings.py`).

    Raises:
        SceneError: if the file is empty, truncated, malformed, not PLY, or holds no centres.
        OSError: if it cannot be opened.
    """
    path = Path(path)
    with scene_file(path) as file:
        header = read_header(file)
        if is_compressed(header):
            gaussians = read_compressed(file, header)
        else:
            file.seek(0)
            vertices = read_vertices(file, _choose)
            phrases = [*warnings_of(header, vertices, only_points)]
            gaussians = _to_gaussians(vertices)  # in the place of what was read
            for phrase in phrases:
                warnings.warn(f"{path}: {phrase}", stacklevel=2)
    return usable(commented(gaussians, header.comments), path)


def ply_kind(path: Path) -> str:
    """What kind of PLY file it is, from its header."""
    with scene_file(path) as file:
        header = read_header(file)
    kind = "compressed PLY" if is_compressed(header) else "PLY"
    return f"{kind}, {BYTE_ORDERS[header.byte_order]}"


BYTE_ORDERS: Final = {"": "text", "<": "binary, little-endian", ">": "binary, big-endian"}

_SCALES: Final = ("scale_0", "scale_1", "scale_2")
_ROTATION: Final = ("rot_0", "rot_1", "rot_2", "rot_3")
_CONSTANT: Final = ("f_dc_0", "f_dc_1", "f_dc_2")
_COLOR: Final = ("red", "green", "blue")
_BANDS: Final = (0, 9, 24, 45, 72)
"""The number of coefficients besides the constant, by degree."""


def _choose(names: list[str]) -> list[list[str]]:
    """The properties to read, in groups; SceneError if some of those that belong together are missing.

    Colours are one group, all three of each coefficient side by side, the constant ones first.
    """
    found = set(names)
    scales: list[str] = [name for name in _SCALES if name in found]
    if scales != list(_SCALES[: len(scales)]):
        raise SceneError(f"scale_0, scale_1 and scale_2 belong together, found only {listed(scales)}")
    colors = _CONSTANT if found & set(_CONSTANT) else _COLOR
    for group in (_ROTATION, colors):
        some = [name for name in group if name in found]
        if some and some != list(group):
            raise SceneError(f"{listed(group)} belong together, found only {listed(some)}")
    rest = sum(name.startswith("f_rest_") for name in found)
    bands = [f"f_rest_{i}" for i in range(rest)] if rest in _BANDS else []
    if len(bands) != rest or not found >= set(bands):
        raise SceneError(f"f_rest_0 and so on must be 0, 9, 24, 45 or 72 properties in a row, found {rest}")
    constant = [name for name in colors if name in found]
    groups: list[list[str]] = [
        scales,
        [name for name in _ROTATION if name in found],
        ["opacity"] if "opacity" in found else [],
    ]
    # A file has all of red, then of green, then of blue.
    third = rest // 3
    return [
        *(group for group in groups if group),
        constant + [bands[i + part * third] for i in range(third) for part in range(3)],
    ]


def _to_gaussians(vertices: Vertices) -> Gaussians:
    columns = vertices.columns
    n = len(vertices.centres)
    # Gaussians that turn out not to be finite are left out and counted, so numpy need not warn; a logit of -inf is an
    # opacity of 0.
    with np.errstate(all="ignore"):
        logits = columns["opacity"].astype(np.float64) if "opacity" in columns else np.full(n, np.inf)
        opacities = 1 / (1 + np.exp(-logits))
        scales = _scales(vertices)
        sh = _coefficients(vertices)
    quats = vertices.tables.get(_ROTATION)
    if quats is None:
        quats = np.tile(np.array([1, 0, 0, 0], np.float32), (n, 1))
    coordinates = torch.from_numpy(vertices.centres)
    return Gaussians(
        means=coordinates.float(),
        quats=torch.from_numpy(quats),
        scales=torch.from_numpy(scales),
        opacities=torch.from_numpy(opacities.astype(np.float32)),
        sh=torch.from_numpy(sh),
    ).placed(coordinates)


def _scales(vertices: Vertices) -> Array:
    centres = vertices.centres
    names = tuple(name for name in _SCALES if name in vertices.columns)
    if not names:
        # As if the points lay on a surface of the scene's size: standard deviations are half the distance between them.
        points = centres[np.isfinite(centres).all(axis=1)]
        low, high = np.quantile(points, (0.02, 0.98), axis=0) if len(points) else np.zeros((2, 3))
        size = 0.5 * float(np.linalg.norm(high - low)) / math.sqrt(max(len(points), 1))
        return np.full_like(centres, size, np.float32)
    scales = vertices.tables[names]
    np.exp(scales, out=scales)
    if len(names) == 1:
        scales = np.repeat(scales, 3, axis=1)
    elif len(names) == 2:
        scales = np.concatenate([scales, np.zeros_like(scales[:, :1])], axis=1)
    return scales


def _coefficients(vertices: Vertices) -> Array:
    """SH coefficients [N, K, 3]."""
    names, table = list(vertices.tables.items())[-1]
    n = len(table)
    if names[:1] not in (_CONSTANT[:1], _COLOR[:1]):
        table = np.concatenate([np.zeros((n, 3), np.float32), table], axis=1)
    elif names[0] == "red":
        kinds = sorted({vertices.types[name] for name in _COLOR})
        if len(kinds) > 1:
            raise SceneError(f"red, green and blue must be of one type, found {listed(kinds)}")
        colors = unit_colors(table[:, :3], np.dtype(kinds[0]))
        table[:, :3] = (colors - np.float32(0.5)) / np.float32(SH_C0)
    return table.reshape(n, table.shape[1] // 3, 3)
