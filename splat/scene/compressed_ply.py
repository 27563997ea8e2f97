"""Reading compressed PLY files, as SuperSplat and PlayCanvas write them.

An element `chunk` has the least and the greatest value of positions, scales and colours for every 256 Gaussians, as
floats. The element `vertex` has four words for each Gaussian: position and scale, fractions between those values of 11,
10 and 11 bits; rotation, 2 bits that say which of w, x, y, z is the largest and 10 bits for each of the others; and
colour and opacity, 8 bits each. An element `sh` may have a byte for each higher coefficient of the spherical harmonics.
Scales are logarithms, opacities are not logits. Source: github.com/playcanvas/splat-transform, decompress-ply.ts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import torch

from .gaussians import SH_C0, Gaussians, SceneError
from .names import listed, quoted
from .ply_header import Element, Header, repeated
from .ply_rows import PlyBody

PER_CHUNK: Final = 256
"""Gaussians that share their limits."""

PACKED: Final = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
_AXES: Final = ("x", "y", "z")
_COEFFICIENTS: Final = (9, 24, 45)

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]
Table = npt.NDArray[np.void]


def is_compressed(header: Header) -> bool:
    """Whether a PLY file says that it is a compressed one."""
    return any(prop.name == PACKED[0] for element in header.elements for prop in element.properties)


def read_compressed(file: BinaryIO, header: Header) -> Gaussians:
    """Read the Gaussians behind the header of a file, which may have NaN.

    Raises SceneError if the file is truncated or malformed, OSError if it cannot be read.
    """
    elements = {element.name: element for element in header.elements}
    _check_elements(header, elements)
    body = PlyBody(file)
    tables: dict[str, Table] = {}
    for element in header.elements:
        if element.name in ("chunk", "vertex", "sh") and element.properties:
            row = np.dtype([(prop.name, header.byte_order + prop.type) for prop in element.properties])
            tables[element.name] = np.frombuffer(body.read(element.size, element), row)
        else:
            body.skip(element.size, element)
    return _to_scene(tables["chunk"], tables["vertex"], tables.get("sh"))


def _check_elements(header: Header, elements: dict[str, Element]) -> None:
    if not header.byte_order:
        raise SceneError("a compressed PLY must be binary, found text")
    for element in header.elements:
        names = [prop.name for prop in element.properties]
        if element.has_lists:
            raise SceneError(f"a compressed PLY has no lists, found some in {quoted(element.name)!r}")
        if twice := repeated(names):
            raise SceneError(
                f"the properties of {quoted(element.name)!r} must differ in name, found twice: {listed(twice)}"
            )
    limits = [f"{end}_{axis}" for end in ("min", "max") for axis in (*_AXES, *(f"scale_{axis}" for axis in _AXES))]
    _require(elements, "chunk", limits, "f")
    if any(prop.name == "min_r" for prop in elements["chunk"].properties):
        _require(elements, "chunk", [f"{end}_{color}" for end in ("min", "max") for color in "rgb"], "f")
    _require(elements, "vertex", PACKED, "u4")
    count = elements["vertex"].rows
    chunks = -(-count // PER_CHUNK)
    if elements["chunk"].rows != chunks:
        raise SceneError(f"{count} rows of 'vertex' need {chunks} rows of 'chunk', found {elements['chunk'].rows}")
    if "sh" in elements and elements["sh"].properties:  # gsplat writes one without any for degree 0
        _check_harmonics(elements["sh"], count)


def _check_harmonics(element: Element, count: int) -> None:
    number = len(element.properties)
    if number not in _COEFFICIENTS:
        raise SceneError(f"'sh' must have 9, 24 or 45 properties, found {number}")
    _require({"sh": element}, "sh", [f"f_rest_{i}" for i in range(number)], "u1")
    if element.rows != count:
        raise SceneError(f"'sh' must have {count} rows, as 'vertex' has, found {element.rows}")


def _require(elements: dict[str, Element], name: str, properties: Sequence[str], kind: str) -> None:
    """Raise SceneError unless an element has these properties, of a type that starts with `kind`."""
    found = {prop.name: prop.type for prop in elements[name].properties} if name in elements else {}
    missing = [prop for prop in properties if not found.get(prop, "").startswith(kind)]
    if missing:
        what = {"f": "floats", "u4": "of type uint", "u1": "of type uchar"}[kind]
        raise SceneError(
            f"{name!r} of a compressed PLY must have the properties {listed(missing)}, {what}; found {listed([*found])}"
        )


def _to_scene(chunk: Table, vertex: Table, harmonics: Table | None) -> Gaussians:
    n = len(vertex)
    means, scales = np.empty((n, 3), np.float32), np.empty((n, 3), np.float32)
    # What is not finite is left out and counted later, so numpy need not warn.
    with np.errstate(all="ignore"):
        for i, axis in enumerate(_AXES):
            means[:, i] = _between(chunk, axis, _fraction(vertex["packed_position"], i))
            scales[:, i] = np.exp(_between(chunk, f"scale_{axis}", _fraction(vertex["packed_scale"], i)))
        sh = _harmonics(chunk, vertex["packed_color"], harmonics)
    arrays = (means, _rotations(vertex["packed_rotation"]), scales, _bits(vertex["packed_color"], 0, 8), sh)
    return Gaussians(*(torch.from_numpy(array) for array in arrays))


def _bits(words: Words, shift: int, bits: int) -> Floats:
    """A field of some bits, as 0 to 1."""
    most = (1 << bits) - 1
    field: Floats = ((words >> shift & most) / np.float32(most)).astype(np.float32)
    return field


def _fraction(words: Words, axis: int) -> Floats:
    """The field of an axis in a word of 11, 10 and 11 bits."""
    return _bits(words, (21, 11, 0)[axis], (11, 10, 11)[axis])


def _between(chunk: Table, name: str, fractions: Floats) -> Floats:
    """Values between the limits of each Gaussian's chunk."""
    low, high = (np.repeat(chunk[f"{end}_{name}"].astype(np.float32), PER_CHUNK) for end in ("min", "max"))
    n = len(fractions)
    values: Floats = low[:n] * (1 - fractions) + high[:n] * fractions
    return values


def _rotations(words: Words) -> Floats:
    """Quaternions w, x, y, z."""
    three = np.stack([_bits(words, shift, 10) for shift in (20, 10, 0)], axis=1)
    three = (three - np.float32(0.5)) * np.float32(math.sqrt(2))
    largest = np.sqrt(np.clip(1 - (three * three).sum(axis=1), 0, None))
    quats = np.empty((len(words), 4), np.float32)
    for index in range(4):
        rows = words >> 30 == index
        quats[rows] = np.insert(three[rows], index, largest[rows], axis=1)
    return quats


def _harmonics(chunk: Table, words: Words, harmonics: Table | None) -> Floats:
    """SH coefficients [N, K, 3]; those of degree 1 and higher are stored for red, then green, then blue."""
    number = 0 if harmonics is None else len(harmonics.dtype.names or ())
    sh = np.empty((len(words), 1 + number // 3, 3), np.float32)
    for i, color in enumerate("rgb"):
        values = _bits(words, (24, 16, 8)[i], 8)
        if f"min_{color}" in (chunk.dtype.names or ()):
            values = _between(chunk, color, values)
        sh[:, 0, i] = (values - np.float32(0.5)) / np.float32(SH_C0)
    # A byte stands for the middle of its interval, of 256 from -4 to 4; the first and the last stand for the ends.
    middles = ((np.arange(256) + 0.5) / 256).astype(np.float32)
    middles[[0, 255]] = 0, 1
    for k in range(number):
        assert harmonics is not None
        sh[:, 1 + k % (number // 3), k // (number // 3)] = (middles[harmonics[f"f_rest_{k}"]] - np.float32(0.5)) * 8
    return sh
