"""The .sog format, version 2: a meta.json and lossless WebP images, as PlayCanvas writes them, packed or in a folder.

A pixel of each image belongs to a Gaussian. Positions have 16 bits between limits, of their logarithm; standard
deviations, colours and the coefficients of a palette of spherical harmonics are numbers of an entry in a list of up to
256 values, a codebook, that meta.json has. Sources: developer.playcanvas.com, *The SOG Format*, and
github.com/playcanvas/splat-transform, read-sog.ts (2026).

A file may be damaged or hostile: the sizes of the parts and in the images' headers are checked before anything is
unpacked.
"""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from .file_input import check_unpacked_size, usable
from .gaussians import Gaussians, SceneError
from .names import quoted
from .sog_meta import MAX_META, META, MOST_PALETTE, SOG_VERSION, SogMeta, parse_meta
from .sog_parts import SogParts, sog_parts

PALETTE_ROW: Final = 64
"""Entries of the palette in a row of its image."""
FIRST_TAG: Final = 252
"""The alpha of a rotation whose w is the largest; those of x, y and z follow."""

_SPARE: Final = 2**16
"""So many more pixels than twice the Gaussians an image may have."""

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def read_sog(path: str | Path) -> Gaussians:
    """Read the Gaussians of a .sog file of version 2, on the CPU.

    Raises SceneError if it is damaged, malformed or of another version, OSError if it cannot be opened.
    """
    path = Path(path)
    return usable(sog_gaussians(path), path)


def sog_gaussians(path: Path) -> Gaussians:
    """All Gaussians of a file, which may have NaN, in its order. Raises as `read_sog`."""
    with sog_parts(path) as parts:
        meta = _read_meta(parts)
        needed, stored = _sizes(meta, parts)
        check_unpacked_size(needed, stored)
        check_unpacked_size(sum(parts.size(name) or 0 for name in meta.files.values()), stored)
        packed = {image: parts.read(name) for image, name in meta.files.items()}
        return decode_sog(meta, {name: _pixels(name, data, meta) for name, data in packed.items()})


def sog_sizes(path: Path) -> tuple[int, int]:
    """How many bytes the Gaussians of a file take in memory, and the file itself. Raises as `read_sog`."""
    with sog_parts(path) as parts:
        return _sizes(_read_meta(parts), parts)


def _sizes(meta: SogMeta, parts: SogParts) -> tuple[int, int]:
    needed = 4 * meta.gaussians * (11 + 3 * (meta.degree + 1) ** 2)
    return needed, parts.stored((META, *meta.files.values()))


def sog_version(path: Path) -> int:
    """The version of a file, which is 2; SceneError if it is not one."""
    with sog_parts(path) as parts:
        _read_meta(parts)
    return SOG_VERSION


def _read_meta(parts: SogParts) -> SogMeta:
    size = parts.size(META)
    if size is None:
        raise SceneError(f"{META} is required in the {parts.place}, found none")
    if size > MAX_META:
        raise SceneError(f"{META} must have at most {MAX_META} bytes, found {size}")
    meta = parse_meta(parts.read(META))
    for image, name in meta.files.items():
        if parts.size(name) is None:
            raise SceneError(f"the image {image} is required in the {parts.place}, found none called {quoted(name)!r}")
    return meta


def decode_sog(meta: SogMeta, pixels: dict[str, Bytes]) -> Gaussians:
    """The Gaussians of images [pixels, 4]; of the palette's image, rows of the palette's entries [entries, K, 4]."""
    n = meta.gaussians
    low, high, quats, scales, color = (pixels[name][:n] for name in ("means_l", "means_u", "quats", "scales", "sh0"))
    fractions = (low[:, :3] + high[:, :3].astype(np.float64) * 256) / 65535
    extent = meta.maxs - meta.mins
    logarithms = meta.mins + np.where(extent == 0, 1, extent) * fractions
    sh = np.zeros((n, (meta.degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = _looked_up(meta.colors, color[:, :3], "sh0")
    if meta.degree:
        labels = pixels["shN_labels"][:n, :2].astype(np.int64) @ np.array([1, 256])
        if n and (most := int(labels.max())) >= meta.palette:
            raise SceneError(f"labels of a palette of {meta.palette} entries are required, found {most}")
        sh[:, 1:] = _looked_up(meta.coefficients, pixels["shN_centroids"][: meta.palette, :, :3], "shN")[labels]
    with np.errstate(all="ignore"):  # what is not finite is left out and counted later
        coordinates = torch.from_numpy(np.sign(logarithms) * np.expm1(np.abs(logarithms)))
        deviations = np.exp(_looked_up(meta.scales, scales[:, :3], "scales"))
    opacities = color[:, 3] / np.float32(255)
    others = (torch.from_numpy(array) for array in (_rotations(quats), deviations, opacities, sh))
    return Gaussians(coordinates.float(), *others, antialiased=meta.antialiased).placed(coordinates)


def _rotations(pixels: Bytes) -> Floats:
    """Quaternions w, x, y, z; 0 where no component is said to be the largest."""
    three = (pixels[:, :3] / np.float32(255) * 2 - 1) * np.float32(math.sqrt(0.5))
    largest = np.sqrt(np.clip(1 - (three * three).sum(axis=1), 0, None))
    quats = np.zeros((len(pixels), 4), np.float32)
    for index in range(4):
        rows = pixels[:, 3] == FIRST_TAG + index
        quats[rows] = np.insert(three[rows], index, largest[rows], axis=1)
    return quats


def _looked_up(codebook: Floats, indices: Bytes, name: str) -> Floats:
    most = int(indices.max(initial=0))
    if most >= len(codebook):
        raise SceneError(f"the codebook of {name} must have an entry {most}, found {len(codebook)} entries")
    values: Floats = codebook[indices]
    return values


# The images


def _pixels(name: str, data: bytes, meta: SogMeta) -> Bytes:
    """The pixels [pixels, 4] of an image; of the palette's, [entries, K, 4]."""
    width, height = _webp_size(name, data)
    if name == "shN_centroids":
        coefficients = (meta.degree + 1) ** 2 - 1
        if width != PALETTE_ROW * coefficients or not meta.palette <= PALETTE_ROW * height <= MOST_PALETTE:
            raise SceneError(
                f"{PALETTE_ROW * coefficients} columns, and rows for {meta.palette} entries, are required of {name}, "
                f"found {width}x{height} pixels"
            )
        return _unpacked(name, data, (width, height)).reshape(-1, coefficients, 4)
    if not meta.gaussians <= width * height <= 2 * meta.gaussians + _SPARE:
        raise SceneError(f"{meta.gaussians} pixels, or not many more, are required of {name}, found {width}x{height}")
    return _unpacked(name, data, (width, height)).reshape(-1, 4)


def _webp_size(name: str, data: bytes) -> tuple[int, int]:
    """Width and height of an image: the decoder makes room for them before it looks at anything else."""
    kind = data[12:16] if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else b""
    if kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(data) >= 30 and not data[20] & 2:  # which would be an animation
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    raise SceneError(f"a lossless WebP image is required for {name}, found another file, {data[:16]!r}")


def _unpacked(name: str, data: bytes, size: tuple[int, int]) -> Bytes:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large pictures
            with Image.open(io.BytesIO(data), formats=("WEBP",)) as picture:
                if picture.size != size:
                    raise SceneError(f"{size[0]}x{size[1]} pixels are required of {name}, found {picture.size}")
                return np.asarray(picture.convert("RGBA"))
    except (MemoryError, SceneError):
        raise
    except Exception as error:  # Pillow's decoders have no common error class for damaged files
        raise SceneError(f"the image {name} is damaged: {quoted(str(error))}") from error
