"""Writing compressed PLY files, which SuperSplat and PlayCanvas read; compressed_ply.py says what is in them.

Each 256 Gaussians share their limits, so those that are near each other are put together: the order of a scene is not
kept. Source: github.com/playcanvas/splat-transform, write-compressed-ply.ts.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from .compressed_ply import PACKED, PER_CHUNK
from .coordinates import float32_losses
from .file_output import check_writable, replacing
from .gaussians import SH_C0, Gaussians
from .ply_comments import comments_of

LARGEST_LOGARITHM: Final = 20.0
"""Standard deviations are written as at most e^20, and at least e^-20."""
MAX_DEGREE: Final = 3

_LIMITS: Final = ("x", "y", "z", "scale_x", "scale_y", "scale_z", "r", "g", "b")

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]


def write_compressed(path: str | Path, scene: Gaussians) -> None:
    """Write a scene as a compressed PLY file, which `read_ply` reads; harmonics above degree 3 are dropped.

    The file appears complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not end in .compressed.ply, OSError if the file cannot be written.
    """
    path = check_writable(path, ".compressed.ply", "such scenes")
    means = scene.coordinates.detach().cpu().numpy()
    order = nearby(means)
    logarithms = scene.scales.detach().double().log().clamp(-LARGEST_LOGARITHM, LARGEST_LOGARITHM).cpu().numpy()
    sh = scene.sh.detach().double().cpu().numpy()[order]
    fractions, limits = _within_chunks(np.hstack([means[order], logarithms[order], sh[:, 0] * SH_C0 + 0.5]))
    opacities = scene.opacities.detach().double().cpu().numpy()[order, None]
    vertex = np.stack(
        [
            _packed(fractions[:, :3], (11, 10, 11)),
            _rotations(scene.quats.detach().double().cpu().numpy()[order]),
            _packed(fractions[:, 3:6], (11, 10, 11)),
            _packed(np.hstack([fractions[:, 6:], opacities]), (8, 8, 8, 8)),
        ],
        axis=1,
    )
    rest = sh[:, 1 : (MAX_DEGREE + 1) ** 2].swapaxes(1, 2)
    steps = np.clip(np.floor((rest / 8 + 0.5) * 256), 0, 255).astype(np.uint8)  # [N, 3, K]
    with replacing(path) as file:
        file.write(_header([*comments_of(scene)], len(limits), len(vertex), 3 * steps.shape[2]).encode("ascii"))
        for table in (limits.astype("<f4"), vertex.astype("<u4"), steps):
            file.write(table.tobytes())


def compressed_losses(scene: Gaussians) -> list[str]:
    """What a compressed PLY file cannot hold of a scene, a phrase each."""
    dropped = f"spherical harmonics of degree {MAX_DEGREE + 1} are dropped"
    return float32_losses(scene.offset) + [dropped] * (scene.degree > MAX_DEGREE)


def nearby(means: Floats) -> npt.NDArray[np.int64]:
    """An order [N] of positions [N, 3] in which neighbours are near each other: along a Morton curve.

    Morton, *A Computer Oriented Geodetic Data Base and a New Technique in File Sequencing*, 1966; with 10 bits an axis.
    """
    low = means.min(axis=0, initial=np.inf)
    extent = np.maximum(means.max(axis=0, initial=-np.inf) - low, 1e-30)
    cells = np.minimum((means - low) / extent * 1024, 1023).astype(np.int64)
    codes = sum(((cells >> bit & 1) << 3 * bit) @ np.array([4, 2, 1]) for bit in range(10))
    return np.argsort(codes, kind="stable")


def _within_chunks(values: Floats) -> tuple[Floats, Floats]:
    """Values [N, 9] as fractions between the limits of their chunks; the limits [chunks, 18], as they are stored."""
    starts = np.arange(0, len(values), PER_CHUNK)
    low, high = (
        ends.reduceat(values, starts, axis=0).astype(np.float32) if len(values) else np.empty((0, 9), np.float32)
        for ends in (np.minimum, np.maximum)
    )
    lower, upper = (np.repeat(each.astype(np.float64), PER_CHUNK, axis=0)[: len(values)] for each in (low, high))
    extent = upper - lower
    fractions = np.divide(values - lower, extent, out=np.zeros_like(values), where=extent > 0)
    parts = [each[:, start : start + 3] for start in (0, 3, 6) for each in (low, high)]
    return fractions, np.hstack(parts)


def _packed(fractions: Floats, bits: tuple[int, ...]) -> Words:
    """Words of fractions [N, fields], the first in the highest bits, each rounded to what its bits can hold."""
    words = np.zeros(len(fractions), np.uint32)
    for column, width in zip(fractions.T, bits, strict=True):
        most = (1 << width) - 1
        words = words << np.uint32(width) | np.clip(np.floor(column * most + 0.5), 0, most).astype(np.uint32)
    return words


def _rotations(quats: Floats) -> Words:
    """Quaternions w, x, y, z: which component is the largest, and the others, if that one is positive."""
    quats = quats / np.linalg.norm(quats, axis=1, keepdims=True)
    largest = np.abs(quats).argmax(axis=1)
    quats = quats * np.where(np.take_along_axis(quats, largest[:, None], axis=1) < 0, -1, 1)
    others = quats[np.arange(4) != largest[:, None]].reshape(-1, 3)
    words: Words = largest.astype(np.uint32) << np.uint32(30) | _packed(others / math.sqrt(2) + 0.5, (10, 10, 10))
    return words


def _header(comments: list[str], chunks: int, count: int, coefficients: int) -> str:
    ends = [f"{end}_{name}" for at in (0, 3, 6) for end in ("min", "max") for name in _LIMITS[at : at + 3]]
    lines = ["ply", "format binary_little_endian 1.0", *comments, f"element chunk {chunks}"]
    lines += [f"property float {name}" for name in ends]
    lines += [f"element vertex {count}", *(f"property uint {name}" for name in PACKED)]
    if coefficients:
        lines += [f"element sh {count}", *(f"property uchar f_rest_{i}" for i in range(coefficients))]
    return "\n".join([*lines, "end_header\n"])
