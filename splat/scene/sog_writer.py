"""Writing .sog files of version 2, which SuperSplat and PlayCanvas read; sog_file.py says what is in them.

Neighbours are put together, because their images are smaller then: the order of a scene is not kept. The same scene
gives the same bytes on each run: the archive has no times.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from .codebooks import codebook, palette
from .compressed_ply_writer import nearby
from .file_output import check_writable, replacing
from .gaussians import Gaussians
from .sog_file import FIRST_TAG, PALETTE_ROW
from .sog_meta import ANTIALIASED, MAX_DEGREE, META, MOST_PALETTE, SOG_VERSION

_STEPS: Final = 65535
_FEW_STEPS: Final = 4096
"""Fewer than these in the extent of 96 % of the centres are said."""
_DEVIATIONS: Final = (1e-38, 3.4e38)
"""Standard deviations are written as no less and no more, since float32 holds what their logarithms stand for."""
_GENERATOR: Final = "splat"

Bytes = npt.NDArray[np.uint8]


def write_sog(path: str | Path, scene: Gaussians) -> None:
    """Write a scene as a .sog file, which `read_sog` reads; harmonics above degree 3 are dropped.

    The file appears complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not end in .sog, OSError if the file cannot be written.
    """
    path = check_writable(path, ".sog", "such scenes")
    meta, images = encode_sog(scene)
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, pixels in images.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.webp"), _webp(pixels))
        archive.writestr(zipfile.ZipInfo(META), json.dumps(meta, separators=(",", ":")))


def sog_losses(scene: Gaussians) -> list[str]:
    """What a .sog file cannot hold of a scene, a phrase each."""
    losses = _coarse(scene.coordinates.detach().cpu().numpy())
    if scene.degree > MAX_DEGREE:
        losses.append(f"spherical harmonics of degree {MAX_DEGREE + 1} are dropped")
    if scene.degree and len(scene) > MOST_PALETTE:
        losses.append(
            f"{len(scene)} Gaussians share at most {MOST_PALETTE} sets of spherical harmonics of degree 1 and higher"
        )
    return losses


def encode_sog(scene: Gaussians) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """What meta.json says, and the images [H, W, 3 or 4] by their names without the ending."""
    coordinates = scene.coordinates.detach().cpu().numpy()
    order = nearby(coordinates)
    quats, scales, opacities, sh = (value.detach().cpu().double().numpy()[order] for value in scene.tensors[1:])
    low, high, limits = _positions(coordinates[order])
    deviations, scale_bytes = codebook(np.log(np.clip(scales, *_DEVIATIONS)).astype(np.float32))
    colors, color_bytes = codebook(sh[:, 0].astype(np.float32))
    alphas = np.clip(np.rint(opacities * 255), 0, 255).astype(np.uint8)
    images = {
        "means_l": _image(low),
        "means_u": _image(high),
        "quats": _image(_rotations(quats)),
        "scales": _image(scale_bytes),
        "sh0": _image(np.hstack([color_bytes, alphas[:, None]])),
    }
    meta = {
        "version": SOG_VERSION,
        "asset": {"generator": _GENERATOR},
        "count": len(scene),
        "means": {**limits, "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": deviations.tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": colors.tolist(), "files": ["sh0.webp"]},
    }
    if scene.antialiased:
        meta["model"] = ANTIALIASED
    if degree := min(scene.degree, MAX_DEGREE):
        number = (degree + 1) ** 2 - 1
        entries, labels = palette(sh[:, 1 : number + 1].reshape(len(sh), 3 * number).astype(np.float32), MOST_PALETTE)
        coefficients, entry_bytes = codebook(entries)
        images["shN_centroids"] = _palette_image(entry_bytes, number)
        images["shN_labels"] = _image(np.stack([labels & 255, labels >> 8, 0 * labels], axis=1).astype(np.uint8))
        meta["shN"] = {
            "count": max(len(entries), 1),
            "bands": degree,
            "codebook": coefficients.tolist(),
            "files": ["shN_centroids.webp", "shN_labels.webp"],
        }
    return meta, images


def _logarithms(coordinates: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """What is stored of coordinates, in equal steps between its ends."""
    logarithms: npt.NDArray[np.float64] = np.sign(coordinates) * np.log1p(np.abs(coordinates))
    return logarithms


def _coarse(coordinates: npt.NDArray[np.float64]) -> list[str]:
    """That there are few steps for most centres: far ones take them, or those next to 0 in a scene of a large scale."""
    if not len(coordinates):
        return []
    box = np.quantile(coordinates, (0.02, 0.98), axis=0)
    extent = float(np.ptp(box, axis=0).max())

    def step(of: npt.NDArray[np.float64]) -> float:
        """The largest in the box, if logarithms extend as those `of` these points."""
        return float((np.ptp(_logarithms(of), axis=0) / _STEPS * (1 + np.abs(box).max(axis=0))).max())

    found = step(coordinates)
    if found * _FEW_STEPS <= extent:
        return []
    if step(box) * _FEW_STEPS <= extent:
        why = "a few lie far from the others; `splat convert --crop` leaves them out"
    else:
        factor = 10 ** -np.floor(np.log10(extent))
        why = f"the scene's scale is large; `splat convert --scale {factor:.0g}` makes it small"
    return [f"centres are rounded to steps of {found:.2g}, because {why}"]


def _positions(coordinates: npt.NDArray[np.float64]) -> tuple[Bytes, Bytes, dict[str, list[float]]]:
    """The low and the high bytes [N, 3] of positions, and their limits."""
    logarithms = _logarithms(coordinates)
    ends = [logarithms.min(axis=0), logarithms.max(axis=0)] if len(logarithms) else [np.zeros(3), np.zeros(3)]
    extent = ends[1] - ends[0]
    fractions = np.divide(logarithms - ends[0], extent, out=np.zeros_like(logarithms), where=extent > 0)
    words = np.rint(fractions * _STEPS).astype(np.uint16)
    limits = {name: end.tolist() for name, end in zip(("mins", "maxs"), ends, strict=True)}
    return (words & 255).astype(np.uint8), (words >> 8).astype(np.uint8), limits


def _rotations(quats: npt.NDArray[np.float64]) -> Bytes:
    """Three components of quaternions [N, 4], and which was left out because it is the largest."""
    quats = quats / np.linalg.norm(quats, axis=1, keepdims=True)
    largest = np.abs(quats).argmax(axis=1)
    quats = quats * np.where(np.take_along_axis(quats, largest[:, None], axis=1) < 0, -1, 1)
    others = quats[np.arange(4) != largest[:, None]].reshape(-1, 3)
    steps = np.clip(np.rint((others * math.sqrt(2) + 1) * 127.5), 0, 255)
    return np.hstack([steps, FIRST_TAG + largest[:, None]]).astype(np.uint8)


def _image(rows: Bytes) -> Bytes:
    """Pixels [N, channels] as an image of about as many columns as rows, both multiples of 4."""
    width = max(4 * math.ceil(math.sqrt(len(rows)) / 4), 4)
    height = max(4 * math.ceil(len(rows) / width / 4), 4)
    image = np.zeros((height * width, rows.shape[1]), np.uint8)
    image[: len(rows)] = rows
    return image.reshape(height, width, -1)


def _palette_image(entries: Bytes, coefficients: int) -> Bytes:
    """Entries [number, K * 3] of the palette, 64 in a row of pixels."""
    rows = max(math.ceil(len(entries) / PALETTE_ROW), 1)
    image = np.zeros((rows * PALETTE_ROW, coefficients * 3), np.uint8)
    image[: len(entries)] = entries
    return image.reshape(rows, PALETTE_ROW * coefficients, 3)


def _webp(pixels: Bytes) -> bytes:
    file = io.BytesIO()
    # Exact: colours are kept where alpha is 0.
    Image.fromarray(pixels).save(file, "WEBP", lossless=True, exact=True, quality=80, method=4)
    return file.getvalue()
