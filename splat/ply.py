"""Reading PLY files of trained Gaussians, as the original 3D Gaussian Splatting code writes them.

The format is "The PLY Polygon File Format" (Turk, 1994): a text header that names elements and their
properties, then the rows, as text or binary. Gaussians are the element `vertex`.
"""

from __future__ import annotations

import io
import itertools
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import torch

from .scene import SH_C0, Gaussians, SceneError

Columns = dict[str, npt.NDArray[Any]]
"""Properties of `vertex`, by name, each of its own scalar type."""

_TYPES: Final = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"},
    **{"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"},
    **{"float": "f4", "double": "f8", "float32": "f4", "float64": "f8"},
}
_BYTE_ORDERS: Final = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_MAX_HEADER_LINE: Final = 65536


def read_ply(path: str | Path) -> Gaussians:
    """Read the Gaussians of a PLY file, activated, on the CPU.

    Properties of the element `vertex` are found by name, in any order and of any scalar type; unknown ones
    and other elements are passed over. What they are, and what stands in for those that are absent:

    - `x`, `y`, `z`: the centres; required.
    - `scale_0..2`: logarithms. Without `scale_2` the Gaussians are flat (2D Gaussian splatting), with
      `scale_0` alone they are balls, and without any they are balls sized by how densely points fill the
      scene.
    - `rot_0..3`: quaternions w, x, y, z; else no rotation.
    - `opacity`: logits, may be infinite; else opaque.
    - `f_dc_0..2`: constant SH coefficients; else `red`, `green`, `blue` (0 to 255, or 0 to 1 if floating),
      else grey.
    - `f_rest_0..`: the higher SH coefficients, all of red, then green, then blue: 9, 24, 45 or 72; else none.

    Gaussians which hold a NaN or an infinity, or a quaternion of length 0, are left out, with a warning that
    counts them.

    Raises:
        SceneError: if the file is empty, truncated, malformed, not PLY, or holds no centres.
        OSError: if it cannot be opened.
    """
    path = Path(path)
    with path.open("rb") as file:
        try:
            columns = _read_columns(file)
            gaussians = _to_gaussians(columns)
        except SceneError as error:
            raise SceneError(f"{path}: {error}") from error.__cause__
    valid = _valid(gaussians)
    left_out = len(gaussians) - int(valid.sum())
    if left_out:
        warnings.warn(
            f"{path}: left out {left_out} of {len(gaussians)} Gaussians, "
            "which hold NaN, infinity or a rotation of length 0",
            stacklevel=2,
        )
        gaussians = Gaussians(*(value[valid] for value in vars(gaussians).values()))
    return gaussians


@dataclass
class _Property:
    name: str
    type: str
    count_type: str | None
    """Of a list's length; None for a scalar."""


@dataclass
class _Element:
    name: str
    count: int
    properties: list[_Property]


def _read_columns(file: BinaryIO) -> Columns:
    byte_order, elements = _read_header(file)
    names = [element.name for element in elements]
    if "vertex" not in names:
        raise SceneError(f"an element 'vertex' is required, found {_listed(names)}")
    index = names.index("vertex")
    vertex = elements[index]
    _check_vertex(vertex)
    for element in elements[:index]:
        if not byte_order:
            _read_lines(file, element)
        elif all(prop.count_type is None for prop in element.properties):
            _read_exactly(file, element.count * _row_type(element, byte_order).itemsize, element)
        else:
            _skip_lists(file, element, byte_order)
    return _read_text(file, vertex) if not byte_order else _read_binary(file, vertex, byte_order)


def _read_header(file: BinaryIO) -> tuple[str, list[_Element]]:
    _check_magic(file.readline(_MAX_HEADER_LINE))
    byte_order = None
    elements: list[_Element] = []
    for number in itertools.count(2):
        line = file.readline(_MAX_HEADER_LINE)
        if not line.endswith(b"\n"):
            raise SceneError(f"the header must end with the line 'end_header', found line {number}: {line[:40]!r}")
        match line.decode("latin-1").split():
            case ["end_header"]:
                break
            case [] | ["comment" | "obj_info", *_]:
                pass
            case ["format", name, _] if name in _BYTE_ORDERS:
                byte_order = _BYTE_ORDERS[name]
            case ["element", name, count] if count.isdecimal():
                elements.append(_Element(name, int(count), []))
            case ["property", *words] if elements:
                elements[-1].properties.append(_read_property(words, number))
            case _:
                raise SceneError(f"header line {number} is not understood: {line[:80]!r}")
    if byte_order is None:
        raise SceneError(f"the header must name a format ({', '.join(_BYTE_ORDERS)}), found none")
    return byte_order, elements


def _check_magic(line: bytes) -> None:
    if not line:
        raise SceneError("a PLY file is required, found an empty file")
    if line.strip() != b"ply":
        raise SceneError(f"a PLY file, which starts with the line 'ply', is required, found {line[:16]!r}")


def _read_property(words: list[str], number: int) -> _Property:
    match words:
        case [scalar, name] if scalar in _TYPES:
            return _Property(name, _TYPES[scalar], None)
        case ["list", length, item, name] if item in _TYPES and _TYPES.get(length, "f")[0] != "f":
            return _Property(name, _TYPES[item], _TYPES[length])
    raise SceneError(f"header line {number} is not understood: 'property {' '.join(words)[:80]}'")


def _check_vertex(vertex: _Element) -> None:
    names = [prop.name for prop in vertex.properties]
    if "packed_position" in names:
        raise SceneError(
            "plain properties are required, found a compressed PLY (packed_position): export it uncompressed"
        )
    lists = [prop.name for prop in vertex.properties if prop.count_type is not None]
    if lists:
        raise SceneError(f"the properties of 'vertex' must be scalar, found lists: {_listed(lists)}")
    if not {"x", "y", "z"} <= set(names):
        raise SceneError(f"'vertex' must have the properties x, y and z, found {_listed(names)}")
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise SceneError(f"the properties of 'vertex' must differ in name, found twice: {_listed(doubles)}")


def _row_type(element: _Element, byte_order: str) -> np.dtype[np.void]:
    return np.dtype([(f"{i}", byte_order + prop.type) for i, prop in enumerate(element.properties)])


def _read_binary(file: BinaryIO, vertex: _Element, byte_order: str) -> Columns:
    row = _row_type(vertex, byte_order)
    rows = np.frombuffer(_read_exactly(file, vertex.count * row.itemsize, vertex), dtype=row, count=vertex.count)
    return {prop.name: rows[f"{i}"] for i, prop in enumerate(vertex.properties)}


def _read_text(file: BinaryIO, vertex: _Element) -> Columns:
    lines = _read_lines(file, vertex)
    width = len(vertex.properties)
    for number, line in enumerate(lines):
        if len(line.split()) != width:
            raise SceneError(f"row {number} of 'vertex' must have {width} numbers, found {len(line.split())}")
    try:
        table = np.array([line.split() for line in lines], dtype=np.float64).reshape(len(lines), width)
    except ValueError as error:
        raise SceneError(f"the rows of 'vertex' must be numbers: {error}") from error
    with np.errstate(over="ignore", invalid="ignore"):
        return {prop.name: table[:, i].astype(prop.type) for i, prop in enumerate(vertex.properties)}


def _read_lines(file: BinaryIO, element: _Element) -> list[bytes]:
    lines: list[bytes] = []
    while len(lines) < element.count:
        line = file.readline()
        if not line:
            raise SceneError(f"{element.count} rows of {element.name!r} are required, found {len(lines)}: truncated")
        if line.strip():
            lines.append(line)
    return lines


def _read_exactly(file: BinaryIO, size: int, element: _Element) -> bytes:
    # Ask how much there is before asking for it: a corrupt count must not claim all memory.
    start = file.tell()
    left = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    if left < size:
        raise SceneError(
            f"{element.count} rows of {element.name!r} need {size} bytes from byte {start} on, found {left}: truncated"
        )
    return file.read(size)


def _skip_lists(file: BinaryIO, element: _Element, byte_order: str) -> None:
    for _ in range(element.count):
        for prop in element.properties:
            length = 1
            if prop.count_type is not None:
                count_type = np.dtype(byte_order + prop.count_type)
                length = int(np.frombuffer(_read_exactly(file, count_type.itemsize, element), count_type)[0])
                if length < 0:
                    raise SceneError(f"a list of {element.name!r} must have a length of 0 or more, found {length}")
            _read_exactly(file, length * np.dtype(prop.type).itemsize, element)


def _to_gaussians(columns: Columns) -> Gaussians:
    means = _stack(columns, ("x", "y", "z"))
    with np.errstate(over="ignore"):
        # A logit of -inf is an opacity of 0, so exp may well overflow.
        logits = columns["opacity"].astype(np.float64) if "opacity" in columns else np.full(len(means), np.inf)
        opacities = 1 / (1 + np.exp(-logits))
        scales = _scales(columns, means)
    rotations = [f"rot_{i}" for i in range(4)]
    if _present(columns, rotations):
        quats = _stack(columns, rotations)
    else:
        quats = np.tile(np.array([1, 0, 0, 0], np.float32), (len(means), 1))
    return Gaussians(
        means=torch.from_numpy(means),
        quats=torch.from_numpy(quats),
        scales=torch.from_numpy(scales.astype(np.float32)),
        opacities=torch.from_numpy(opacities.astype(np.float32)),
        sh=torch.from_numpy(_harmonics(columns, len(means))),
    )


def _scales(columns: Columns, means: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    names = [f"scale_{i}" for i in range(3) if f"scale_{i}" in columns]
    if not names:
        # Points on a surface of the scene's size, half their distance from each other in deviation.
        points = means[np.isfinite(means).all(axis=1)]
        low, high = np.quantile(points, (0.02, 0.98), axis=0) if len(points) else np.zeros((2, 3))
        size = 0.5 * float(np.linalg.norm(high - low)) / math.sqrt(max(len(points), 1))
        return np.full_like(means, size)
    if names != [f"scale_{i}" for i in range(len(names))]:
        raise SceneError(f"scale_0, scale_1 and scale_2 belong together, found only {_listed(names)}")
    scales = np.exp(_stack(columns, names))
    if len(names) == 1:
        scales = np.repeat(scales, 3, axis=1)
    elif len(names) == 2:
        scales = np.concatenate([scales, np.zeros_like(scales[:, :1])], axis=1)
    return scales


def _harmonics(columns: Columns, n: int) -> npt.NDArray[np.float32]:
    """SH coefficients [N, K, 3]."""
    if _present(columns, ["f_dc_0", "f_dc_1", "f_dc_2"]):
        constant = _stack(columns, ("f_dc_0", "f_dc_1", "f_dc_2"))
    elif _present(columns, ["red", "green", "blue"]):
        values = _stack(columns, ("red", "green", "blue"))
        is_bytes = columns["red"].dtype.kind in "iu" or values.max(initial=0) > 1
        constant = (values / np.float32(255 if is_bytes else 1) - np.float32(0.5)) / np.float32(SH_C0)
    else:
        constant = np.zeros((n, 3), np.float32)
    rest = sum(name.startswith("f_rest_") for name in columns)
    degree = math.isqrt(rest // 3 + 1) - 1
    names = [f"f_rest_{i}" for i in range(rest)]
    if rest != 3 * ((degree + 1) ** 2 - 1) or degree > 4 or not columns.keys() >= set(names):
        raise SceneError(f"f_rest_0 and so on must be 0, 9, 24, 45 or 72 properties in a row, found {rest}")
    if not rest:
        return constant[:, None]
    bands = _stack(columns, names).reshape(n, 3, rest // 3).transpose(0, 2, 1)
    return np.ascontiguousarray(np.concatenate([constant[:, None], bands], axis=1))


def _valid(gaussians: Gaussians) -> torch.Tensor:
    valid = (gaussians.quats != 0).any(dim=1)
    for value in vars(gaussians).values():
        others = tuple(range(1, value.ndim))
        valid &= torch.isfinite(value).all(dim=others) if others else torch.isfinite(value)
    return valid


def _present(columns: Columns, names: list[str]) -> bool:
    """Whether all of `names` are there; some but not all is an error."""
    found = [name for name in names if name in columns]
    if found and found != names:
        raise SceneError(f"{_listed(names)} belong together, found only {_listed(found)}")
    return bool(found)


def _stack(columns: Columns, names: tuple[str, ...] | list[str]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.stack([columns[name].astype(np.float32) for name in names], axis=1)


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
