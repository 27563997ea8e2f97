"""Files of .sog, made by hand."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
from PIL import Image


def sog_meta(**changes: Any) -> dict[str, Any]:
    """What meta.json says of two Gaussians with spherical harmonics of degree 1."""
    return {
        "version": 2,
        "count": 2,
        "means": {"mins": [0, -1, 0], "maxs": [1, 1, 0.5], "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": [-2, -1, 0], "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": [-1, 0.5], "files": ["sh0.webp"]},
        "shN": {"count": 2, "bands": 1, "codebook": [0, 0.25, -0.25], "files": ["c.webp", "l.webp"]},
        **changes,
    }


def webp(pixels: list[list[int]], width: int = 4, **options: Any) -> bytes:
    """A lossless image, in whose first pixels these are."""
    height = -(-len(pixels) // width)
    image = np.zeros((width * height, len(pixels[0])), np.uint8)
    image[: len(pixels)] = pixels
    file = io.BytesIO()
    Image.fromarray(image.reshape(height, width, -1)).save(file, "WEBP", lossless=True, exact=True, **options)
    return file.getvalue()


def sog_parts(meta: dict[str, Any], **changes: bytes) -> dict[str, bytes]:
    """The members of an archive, by their names."""
    centroids = [[1, 0, 2], [0, 0, 0], [2, 2, 1], [2, 1, 0], [0, 1, 2], [1, 1, 1]]
    return {
        "means_l.webp": webp([[0, 255, 0], [255, 0, 255]]),
        "means_u.webp": webp([[0, 255, 0], [255, 128, 255]]),
        "scales.webp": webp([[0, 1, 2], [2, 2, 2]]),
        "quats.webp": webp([[255, 128, 128, 253], [218, 218, 218, 252]]),
        "sh0.webp": webp([[0, 1, 1, 102], [1, 0, 0, 0]]),
        "c.webp": webp(centroids, width=192),
        "l.webp": webp([[1, 0, 0], [0, 0, 0]]),
        "meta.json": json.dumps(meta).encode(),
        **{name.replace("_webp", ".webp"): data for name, data in changes.items()},
    }


def sog_archive(parts: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()
