"""The .sog format, version 2: a ZIP archive of a meta.json and lossless WebP images, as PlayCanvas writes them.

A pixel of each image belongs to a Gaussian. Positions have 16 bits between limits, of their logarithm; standard
deviations, colours and the coefficients of a palette of spherical harmonics are numbers of an entry in a list of up to
256 values, a codebook, that meta.json has. Sources: developer.playcanvas.com, *The SOG Format*, and
github.com/playcanvas/splat-transform, read-sog.ts (2026).

A file may be damaged or hostile: the sizes in the archive's directory and in the images' headers are checked before
anything is unpacked. What meta.json names is looked up in the directory; no name becomes a path.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from .file_input import bytes_left, check_unpacked_size, scene_file, usable
from .gaussians import Gaussians, SceneError
from .names import quoted
from .sog_meta import MAX_META, META, MOST_PALETTE, SogMeta, parse_meta

PALETTE_ROW: Final = 64
"""Entries of the palette in a row of its image."""
FIRST_TAG: Final = 252
"""The alpha of a rotation whose w is the largest; those of x, y and z follow."""

_DIRECTORY: Final = 2**16
"""Maximum size of the archive's directory in bytes; that of 8 names has 500."""
_END: Final = 22
_SPARE: Final = 2**16
"""So many more pixels than twice the Gaussians an image may have."""

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def read_sog(path: str | Path) -> Gaussians:
    """Read the Gaussians of a .sog file of version 2, on the CPU.

    Raises SceneError if it is damaged, malformed or of another version, OSError if it cannot be opened.
    """
    path = Path(path)
    with scene_file(path) as file:
        size = bytes_left(file)
        with _opened(file) as archive:
            meta, members = _read_meta(archive)
            check_unpacked_size(4 * meta.gaussians * (11 + 3 * (meta.degree + 1) ** 2), size)
            check_unpacked_size(sum(members[name].file_size for name in meta.files.values()), size)
            packed = {image: _member(archive, members[name]) for image, name in meta.files.items()}
        return usable(decode_sog(meta, {name: _pixels(name, data, meta) for name, data in packed.items()}), path)


def sog_version(path: Path) -> int:
    """The version of a file, which is 2; SceneError if it is not one."""
    with scene_file(path) as file, _opened(file) as archive:
        _read_meta(archive)
    return 2


def decode_sog(meta: SogMeta, pixels: dict[str, Bytes]) -> Gaussians:
    """The Gaussians of images [pixels, 4]; of the palette's image, rows of the palette's entries [entries, K, 4]."""
    n = meta.gaussians
    low, high, quats, scales, color = (pixels[name][:n] for name in ("means_l", "means_u", "quats", "scales", "sh0"))
    fractions = (low[:, :3] + high[:, :3].astype(np.float64) * 256) / 65535
    extent = meta.maxs.astype(np.float64) - meta.mins
    logarithms = meta.mins + np.where(extent == 0, 1, extent) * fractions
    sh = np.zeros((n, (meta.degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = _looked_up(meta.colors, color[:, :3], "sh0")
    if meta.degree:
        labels = pixels["shN_labels"][:n, :2].astype(np.int64) @ np.array([1, 256])
        if n and (most := int(labels.max())) >= meta.palette:
            raise SceneError(f"labels of a palette of {meta.palette} entries are required, found {most}")
        sh[:, 1:] = _looked_up(meta.coefficients, pixels["shN_centroids"][: meta.palette, :, :3], "shN")[labels]
    with np.errstate(all="ignore"):  # what is not finite is left out and counted later
        means = (np.sign(logarithms) * np.expm1(np.abs(logarithms))).astype(np.float32)
        deviations = np.exp(_looked_up(meta.scales, scales[:, :3], "scales"))
    opacities = color[:, 3] / np.float32(255)
    return Gaussians(*(torch.from_numpy(array) for array in (means, _rotations(quats), deviations, opacities, sh)))


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


# The archive


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    _check_directory(file)
    try:
        return zipfile.ZipFile(file)
    except Exception as error:  # zipfile has no common error class for damaged files
        raise SceneError(f"a .sog file is required, a ZIP archive, found {quoted(str(error))}") from error


def _check_directory(file: BinaryIO) -> None:
    """Raise SceneError if the archive's directory is large: zipfile makes objects of all of it."""
    size = bytes_left(file)
    file.seek(max(0, size - _END - 2**16))
    end = file.read()
    file.seek(0)
    # Where zipfile looks: at the very end, then before a comment.
    at = len(end) - _END
    if not (at >= 0 and end[at : at + 4] == b"PK\5\6" and end[-2:] == b"\0\0"):
        at = end.rfind(b"PK\5\6")
    if at < 0 or len(end) - at < _END:
        raise SceneError(
            f"a .sog file is required, a ZIP archive, found {end[:16]!r}"
            if size
            else "a .sog file is required, found nothing"
        )
    directory = int.from_bytes(end[at + 12 : at + 16], "little")
    if directory > _DIRECTORY or end[max(at - 20, 0) : at].startswith(b"PK\6\7"):
        raise SceneError(f"an archive with a directory of at most {_DIRECTORY} bytes is required, found a larger one")


def _read_meta(archive: zipfile.ZipFile) -> tuple[SogMeta, dict[str, zipfile.ZipInfo]]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename in members:
            raise SceneError(f"the names in the archive must differ, found twice: {quoted(info.filename)}")
        members[info.filename] = info
    if META not in members:
        raise SceneError(f"{META} is required in the archive, found none")
    if members[META].file_size > MAX_META:
        raise SceneError(f"{META} must have at most {MAX_META} bytes, found {members[META].file_size}")
    meta = parse_meta(_member(archive, members[META]))
    for image, name in meta.files.items():
        if name not in members:
            raise SceneError(f"the image {image} is required in the archive, found none called {quoted(name)!r}")
    return meta, members


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SceneError(f"{quoted(info.filename)} must be stored or deflated, found method {info.compress_type}")
    try:
        with archive.open(info) as member:
            return member.read(info.file_size)
    except MemoryError:
        raise
    except Exception as error:  # as above
        raise SceneError(f"{quoted(info.filename)} is damaged: {quoted(str(error))}") from error


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
