"""Writing compressed PLY files, which SuperSplat and PlayCanvas read; compressed_ply.py says what is in them.

Each 256 Gaussians share their limits, so those that are near each other are put together, and those that are far from
all others apart: the order of a scene is not kept. Source: github.com/playcanvas/splat-transform,
write-compressed-ply.ts.
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

_POSITION_BITS: Final = (11, 10, 11)
_FEW_STEPS: Final = 256
"""Fewer than these in the extent of 96 % of the centres are said,"""
_COARSE_COLOR: Final = 1 / 64
"""and larger ones of a colour."""
_FAR: Final = "lie far from them; `splat convert --crop` leaves those out"
_LARGEST_HARMONIC: Final = 4.0
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
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
    order = chunk_order(scene)
    logarithms = scene.scales.detach().double().log().clamp(-LARGEST_LOGARITHM, LARGEST_LOGARITHM).cpu().numpy()
    sh = scene.sh.detach().double().cpu().numpy()[order]
    fractions, limits = _within_chunks(np.hstack([means[order], logarithms[order], sh[:, 0] * SH_C0 + 0.5]))
    opacities = scene.opacities.detach().double().cpu().numpy()[order, None]
    vertex = np.stack(
        [
            _packed(fractions[:, :3], _POSITION_BITS),
            _rotations(scene.quats.detach().double().cpu().numpy()[order]),
            _packed(fractions[:, 3:6], (11, 10, 11)),
            _packed(np.hstack([fractions[:, 6:], opacities]), (8, 8, 8, 8)),
        ],
        axis=1,
    )
    steps = _harmonics(sh[:, 1 : (MAX_DEGREE + 1) ** 2].swapaxes(1, 2))
    with replacing(path) as file:
        file.write(_header([*comments_of(scene)], len(limits), len(vertex), 3 * steps.shape[2]).encode("ascii"))
        for table in (limits.astype("<f4"), vertex.astype("<u4"), steps):
            file.write(table.tobytes())


def compressed_losses(scene: Gaussians) -> list[str]:
    """What a compressed PLY file cannot hold of a scene, a phrase each."""
    losses = float32_losses(scene.offset)
    if scene.degree > MAX_DEGREE:
        losses.append(f"spherical harmonics of degree {MAX_DEGREE + 1} are dropped")
    if len(scene):
        losses += _coarse(scene)
    with np.errstate(divide="ignore"):  # 0 is clamped, too
        logarithms = np.log(scene.scales.detach().cpu().numpy())
    for outside, what in (
        (
            np.abs(logarithms) > LARGEST_LOGARITHM,
            f"standard deviations outside e^-{LARGEST_LOGARITHM:g} to e^{LARGEST_LOGARITHM:g}",
        ),
        (
            np.abs(scene.sh[:, 1 : (MAX_DEGREE + 1) ** 2].detach().cpu().flatten(1).numpy()) > _LARGEST_HARMONIC,
            f"higher SH coefficients outside -{_LARGEST_HARMONIC:g} to {_LARGEST_HARMONIC:g}",
        ),
    ):
        if number := int(outside.any(axis=1).sum()):
            losses.append(f"{what} are clamped (in {number} of {len(scene)} Gaussians)")
    return losses


def _coarse(scene: Gaussians) -> list[str]:
    """That centres and colours have few steps, because of others in their chunks that differ much more."""
    means = scene.coordinates.detach().cpu().numpy()
    order = chunk_order(scene)
    near, extent = _near(means)
    colors = scene.sh[:, 0].detach().double().cpu().numpy() * SH_C0 + 0.5
    moderate = np.asarray(((colors >= -1) & (colors <= 2)).all(axis=1))
    losses = []
    for values, usual, bits, tolerated, what, others in (
        (means, near[order], _POSITION_BITS, extent / _FEW_STEPS, "centres", _FAR),
        (colors, moderate[order], (8, 8, 8), _COARSE_COLOR, "colours", "are much brighter or darker"),
    ):
        lower, upper = (each.astype(np.float64) for each in _limits(values[order]))
        steps = ((upper - lower) / (2.0 ** np.array(bits) - 1)).max(axis=1).repeat(PER_CHUNK)[: len(values)]
        if number := int((usual & (steps > tolerated)).sum()):
            losses.append(
                f"{what} of {number} of {len(scene)} Gaussians are rounded to steps of up to {steps[usual].max():.2g}, "
                f"because some of the {PER_CHUNK} that share their limits {others}"
            )
    return losses


def _near(means: Floats) -> tuple[npt.NDArray[np.bool_], float]:
    """Which positions [N, 3] lie around 96 % of them, no farther away than these extend; and how far they extend."""
    low, high = np.quantile(means, (0.02, 0.98), axis=0)
    extent = float((high - low).max())
    return np.asarray(((means >= low - extent) & (means <= high + extent)).all(axis=1)), extent


def chunk_order(scene: Gaussians) -> npt.NDArray[np.int64]:
    """An order [N] of Gaussians in which chunks have neighbours.

    Those far from all others come first. What is seen least fills up their last chunk, which rounds it by much.
    """
    means = scene.coordinates.detach().cpu().numpy()
    order = nearby(means)
    far = ~_near(means)[0] if len(means) else np.zeros(0, np.bool_)
    if not far.any():
        return order
    areas = scene.scales.detach().double().cpu().amax(dim=1).square()
    seen = np.where(far, -1.0, (scene.opacities.detach().cpu() * areas).numpy())
    apart = np.zeros(len(means), np.bool_)
    apart[np.argsort(seen, kind="stable")[: -(-int(far.sum()) // PER_CHUNK) * PER_CHUNK]] = True
    return np.concatenate([order[apart[order]], order[~apart[order]]])


def nearby(means: Floats) -> npt.NDArray[np.int64]:
    """An order [N] of positions [N, 3] in which neighbours are near each other: along a Morton curve.

    Morton, *A Computer Oriented Geodetic Data Base and a New Technique in File Sequencing*, 1966; with 10 bits an axis,
    and within a cell that holds more than a chunk, which may be all but a few that are far away, with 10 more.
    """
    low = means.min(axis=0, initial=np.inf)
    extent = np.maximum(means.max(axis=0, initial=-np.inf) - low, 1e-30)
    places = np.minimum((means - low) / extent * 1024, 1023).astype(np.int64)
    codes = sum(((places >> bit & 1) << 3 * bit) @ np.array([4, 2, 1]) for bit in range(10))
    order = np.argsort(codes, kind="stable")
    cells = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
    full = np.flatnonzero(np.diff(cells) > PER_CHUNK)
    for start, end in zip(cells[full], cells[full + 1], strict=True):
        if end - start < len(means):
            order[start:end] = order[start:end][nearby(means[order[start:end]])]
    return order


def _limits(values: Floats) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The least and the greatest [chunks, fields] of values [N, fields] in each chunk, as they are stored."""
    starts = np.arange(0, len(values), PER_CHUNK)
    if not len(values):
        return (np.empty((0, values.shape[1]), np.float32),) * 2
    low, high = (ends.reduceat(values, starts, axis=0).astype(np.float32) for ends in (np.minimum, np.maximum))
    return low, high


def _within_chunks(values: Floats) -> tuple[Floats, Floats]:
    """Values [N, 9] as fractions between the limits of their chunks; the limits [chunks, 18], as they are stored."""
    low, high = _limits(values)
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


def _harmonics(rest: Floats) -> npt.NDArray[np.uint8]:
    """The bytes of coefficients [N, 3, K].

    A byte stands for the middle of its interval, so two are equally near to 0, as many coefficients are. They take
    turns, in a sequence without a pattern: the same byte each time would add up to another colour.
    """
    steps = (rest / 8 + 0.5) * 256
    whole = np.floor(steps)
    ties = np.flatnonzero(steps == whole)
    whole.flat[ties] -= ties * _GOLDEN % 1 < 0.5
    return np.clip(whole, 0, 255).astype(np.uint8)


def _header(comments: list[str], chunks: int, count: int, coefficients: int) -> str:
    ends = [f"{end}_{name}" for at in (0, 3, 6) for end in ("min", "max") for name in _LIMITS[at : at + 3]]
    lines = ["ply", "format binary_little_endian 1.0", *comments, f"element chunk {chunks}"]
    lines += [f"property float {name}" for name in ends]
    lines += [f"element vertex {count}", *(f"property uint {name}" for name in PACKED)]
    if coefficients:
        lines += [f"element sh {count}", *(f"property uchar f_rest_{i}" for i in range(coefficients))]
    return "\n".join([*lines, "end_header\n"])
