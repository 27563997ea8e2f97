"""Reading the .ksplat format, as GaussianSplats3D writes it for its viewer.

A header of 4096 bytes, one of 1024 for each section, and the sections. In compression level 0 they hold floats. In 1
and 2 a section begins with the lengths of its buckets that are not full and the centres of all: positions are 16 bits
in the cube around a bucket's centre, standard deviations and rotations are half floats, and so are spherical harmonics
in level 1; in level 2 those are bytes between two limits of the file. Colours and opacities are bytes. Source:
github.com/mkkellogg/GaussianSplats3D, src/loaders/SplatBuffer.js (2026).

A file may be damaged or hostile: each size is compared with the file's before memory is allocated for it.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .edits import merge_scenes
from .file_input import bytes_left, scene_file, usable
from .gaussians import SH_C0, Gaussians, SceneError

MAX_DEGREE: Final = 2

_HEADER_BYTES: Final = 4096
_SECTION_BYTES: Final = 1024
_HEADER: Final = Struct("<BBxxIIIIH14xff")
_SECTION: Final = Struct("<IIIIfHxxIIIIH")
_CENTRE_BYTES: Final = 12
_USUAL_RANGE: Final = 32767
_USUAL_LIMIT: Final = 1.5

Floats = npt.NDArray[np.float32]
Table = npt.NDArray[np.void]


class KsplatHeader(NamedTuple):
    """What a file says of all its sections."""

    major: int
    minor: int
    sections: int
    used_sections: int
    most: int
    gaussians: int
    level: int
    low: float
    """What the byte 0 of a harmonic stands for, in level 2,"""
    high: float
    """and the byte 255."""


class _Section(NamedTuple):
    gaussians: int
    room: int
    """The Gaussians for which the section has bytes."""
    bucket_size: int
    buckets: int
    block: float
    """The side of a bucket's cube."""
    centre_bytes: int
    range: int
    """The steps of half a side; 0 for the usual ones."""
    size: int
    full: int
    partial: int
    degree: int


def read_ksplat(path: str | Path) -> Gaussians:
    """Read the Gaussians of a .ksplat file of any compression level, on the CPU.

    Raises SceneError if it is truncated or malformed, OSError if it cannot be opened.
    """
    path = Path(path)
    with scene_file(path) as file:
        header = _read_header(file)
        if header.sections * _SECTION_BYTES > bytes_left(file):
            raise SceneError(f"{header.sections} sections need as many headers, found fewer: truncated")
        sections = [_Section(*_SECTION.unpack_from(file.read(_SECTION_BYTES))) for _ in range(header.sections)]
        scenes = [_read_section(file, header, section) for section in sections]
        found = sum(map(len, scenes))
        if found != header.gaussians:
            raise SceneError(f"the sections must hold {header.gaussians} Gaussians, found {found}")
    return usable(merge_scenes(scenes) if scenes else _nothing(header), path)


def ksplat_header(path: Path) -> KsplatHeader:
    """The header of a file; SceneError if it is not one."""
    with scene_file(path) as file:
        return _read_header(file)


def _read_header(file: BinaryIO) -> KsplatHeader:
    data = file.read(_HEADER_BYTES)
    if len(data) < _HEADER_BYTES:
        raise SceneError(f"a .ksplat file begins with {_HEADER_BYTES} bytes, found {len(data)}")
    header = KsplatHeader(*_HEADER.unpack_from(data))
    if header.major != 0 or header.minor < 1:
        raise SceneError(f"version 0.1 of .ksplat is required, found {header.major}.{header.minor}")
    if header.level > 2:
        raise SceneError(f"a compression level from 0 to 2 is required, found {header.level}")
    return header._replace(low=header.low or -_USUAL_LIMIT, high=header.high or _USUAL_LIMIT)


def _row(level: int, degree: int) -> np.dtype[np.void]:
    """One Gaussian."""
    position, value = ("<f4", "<f4") if level == 0 else ("<u2", "<f2")
    harmonic = ("<f4", "<f2", "u1")[level]
    number = 3 * ((degree + 1) ** 2 - 1)
    return np.dtype(
        [("mean", position, 3), ("scale", value, 3), ("quat", value, 4), ("color", "u1", 4), ("sh", harmonic, number)]
    )


def _nothing(header: KsplatHeader) -> Gaussians:
    return _scene(np.zeros(0, _row(header.level, 0)), np.zeros((0, 3), np.float32), header, 0)


def _read_section(file: BinaryIO, header: KsplatHeader, section: _Section) -> Gaussians:
    """The Gaussians of the section that begins here; the next one follows."""
    if section.degree > MAX_DEGREE:
        raise SceneError(f"the degree of the spherical harmonics must be 0 to {MAX_DEGREE}, found {section.degree}")
    if section.gaussians > section.room:
        raise SceneError(f"a section must have bytes for its {section.gaussians} Gaussians, found {section.room}")
    if section.buckets and section.centre_bytes != _CENTRE_BYTES:
        raise SceneError(f"a bucket's centre must have {_CENTRE_BYTES} bytes, found {section.centre_bytes}")
    row = _row(header.level, section.degree)
    needed = 4 * section.partial + section.centre_bytes * section.buckets + row.itemsize * section.room
    if needed > (left := bytes_left(file)):
        raise SceneError(f"a section of {section.room} Gaussians needs {needed} bytes, found {left}: truncated")
    lengths = np.frombuffer(file.read(4 * section.partial), "<u4")
    centres = np.frombuffer(file.read(section.centre_bytes * section.buckets), "<f4").reshape(-1, 3)
    table = np.frombuffer(file.read(row.itemsize * section.room), row)[: section.gaussians]
    if header.level == 0:
        return _scene(table, table["mean"], header, section.degree)
    steps = section.range or _USUAL_RANGE
    with np.errstate(all="ignore"):  # what is not finite is left out and counted later
        offsets = (table["mean"].astype(np.float64) - steps) * (section.block / 2 / steps)
        means = offsets + centres[_buckets(section, lengths)]
        return _scene(table, means.astype(np.float32), header, section.degree)


def _buckets(section: _Section, lengths: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """The bucket of each Gaussian: they are in the order of the buckets, the full ones first."""
    if section.full + section.partial > section.buckets:
        raise SceneError(f"{section.full + section.partial} buckets need as many centres, found {section.buckets}")
    sizes = np.concatenate([np.full(section.full, section.bucket_size, np.int64), lengths.astype(np.int64)])
    ends = sizes.cumsum()
    if int(ends[-1] if len(ends) else 0) < section.gaussians:
        raise SceneError(f"the buckets of a section must hold its {section.gaussians} Gaussians, found {sizes.sum()}")
    return np.searchsorted(ends, np.arange(section.gaussians), side="right")


def _scene(table: Table, means: Floats, header: KsplatHeader, degree: int) -> Gaussians:
    color = table["color"].astype(np.float32) / np.float32(255)
    with np.errstate(all="ignore"):
        rest = table["sh"].astype(np.float32)
        if header.level == 2:
            rest = np.float32(header.low) + rest / np.float32(255) * np.float32(header.high - header.low)
        # A negative standard deviation makes the same Gaussian as a positive one.
        scales = np.abs(table["scale"].astype(np.float32))
    sh = np.empty((len(table), (degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = (color[:, :3] - np.float32(0.5)) / np.float32(SH_C0)
    for level in range(1, degree + 1):  # of each degree, those of red, then of green, then of blue
        own = slice(level**2, (level + 1) ** 2)
        part = rest[:, 3 * own.start - 3 : 3 * own.stop - 3]
        sh[:, own] = part.reshape(len(table), 3, 2 * level + 1).swapaxes(1, 2)
    arrays = (means, table["quat"].astype(np.float32), scales, color[:, 3], sh)
    return Gaussians(*(torch.from_numpy(np.array(array, np.float32)) for array in arrays))
