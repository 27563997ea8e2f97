"""What .glb and .gltf files hold: the objects of their JSON, and the numbers of accessors.

Source: Khronos, *glTF 2.0 Specification*. JSON and standard containers are all that it takes, so no library reads it:
those for Python check neither indices nor sizes.

A file may be damaged or hostile: each index, size and type is checked before it is used, and buffers are in the file,
in its JSON, or files of its folder.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from .file_input import bytes_left, opened_file, path_inside, scene_file
from .gaussians import SceneError
from .json_input import JsonLimits, parse_json, whole_number
from .names import quoted

MAGIC: Final = b"glTF"
HEADER: Final = Struct("<4sII")
CHUNK: Final = Struct("<I4s")
JSON_CHUNK, BINARY_CHUNK = b"JSON", b"BIN\0"
VERSION: Final = 2
LIMITS: Final = JsonLimits(2**30, nests=200_000, values=1_200_000)
"""Of the JSON, which may have a buffer in it."""
DATA_START: Final = "data:application/octet-stream;base64,"
FLOAT: Final = 5126

_COMPONENTS: Final = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", FLOAT: "<f4"}
_WIDTHS: Final = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}
_MOST: Final = 2**53
_MOST_STRIDE: Final = 252


class Numbers(NamedTuple):
    """The numbers of an accessor, as they are stored."""

    stored: npt.NDArray[Any]
    """[N, width]"""
    normalized: bool
    """Whether the largest number of an integer type stands for 1."""

    def floats(self) -> npt.NDArray[np.float32]:
        """What they stand for."""
        found = self.stored.astype(np.float32)
        if self.normalized and self.stored.dtype.kind != "f":
            found = np.maximum(found / np.float32(np.iinfo(self.stored.dtype).max), np.float32(-1))
        return found


@dataclass(frozen=True)
class Gltf:
    """An opened file."""

    path: Path
    root: dict[str, Any]
    _file: BinaryIO
    _chunk: tuple[int, int] | None
    """Position and size of the binary chunk of a .glb."""
    _buffers: dict[int | Path, bytes] = field(default_factory=dict)
    """Those that were read, by their index or, so that none is read twice, their file."""

    @property
    def size(self) -> int:
        """Bytes of the file, and of those beside it that were read."""
        self._file.seek(0)
        return bytes_left(self._file) + sum(len(data) for key, data in self._buffers.items() if isinstance(key, Path))

    def entry(self, kind: str, index: object) -> dict[str, Any]:
        """An object of a list such as "nodes"; SceneError if there is none."""
        entries = self.root.get(kind)
        if isinstance(entries, list) and type(index) is int and 0 <= index < len(entries):
            entry = entries[index]
            if isinstance(entry, dict):
                return entry
        raise SceneError(f"the index of an object in {kind!r} is required, found {quoted(str(index)[:40])}")

    def view(self, index: object) -> memoryview:
        """The bytes of a buffer view."""
        view = self.entry("bufferViews", index)
        start, size = whole_number(view, "byteOffset", 0, _MOST, 0), whole_number(view, "byteLength", 1, _MOST)
        data = self._buffer(whole_number(view, "buffer", 0, _MOST))
        if start + size > len(data):
            raise SceneError(f"a buffer view needs {start + size} bytes of its buffer, found {len(data)}: truncated")
        return memoryview(data)[start : start + size]

    def numbers(self, index: object, kind: str) -> Numbers:
        """The numbers of an accessor of this type, not copied."""
        accessor = self.entry("accessors", index)
        if accessor.get("type") != kind or "sparse" in accessor:
            found = "a sparse one" if "sparse" in accessor else quoted(str(accessor.get("type"))[:40])
            raise SceneError(f"accessor {index} must be of type {kind} and whole, found {found}")
        component = whole_number(accessor, "componentType", 0, _MOST)
        if component not in _COMPONENTS:
            raise SceneError(f"the component type of an accessor must be one of {[*_COMPONENTS]}, found {component}")
        row = np.dtype((_COMPONENTS[component], _WIDTHS[kind]))
        data = self.view(accessor.get("bufferView"))
        view = self.entry("bufferViews", accessor.get("bufferView"))
        stride = whole_number(view, "byteStride", row.itemsize, _MOST_STRIDE, row.itemsize)
        count, start = whole_number(accessor, "count", 1, 2**32), whole_number(accessor, "byteOffset", 0, _MOST, 0)
        needed = start + stride * (count - 1) + row.itemsize
        if needed > len(data):
            raise SceneError(f"accessor {index} needs {needed} bytes of its buffer view, found {len(data)}: truncated")
        strides = (stride, row.base.itemsize)
        stored: npt.NDArray[Any] = np.ndarray((count, _WIDTHS[kind]), row.base, data, start, strides)
        return Numbers(stored, accessor.get("normalized") is True)

    def _buffer(self, index: int) -> bytes:
        buffer = self.entry("buffers", index)
        size = whole_number(buffer, "byteLength", 1, _MOST)
        uri = buffer.get("uri")
        key = (
            index
            if uri is None or str(uri).startswith("data:")
            else path_inside(self.path.parent, unquote(str(uri)), "a buffer's file")
        )
        if key not in self._buffers:
            self._buffers[key] = _read_file(key) if isinstance(key, Path) else self._held(index, uri)
        data = self._buffers[key]
        if len(data) < size:
            raise SceneError(f"buffer {index} must have {size} bytes, found {len(data)}: truncated")
        return data

    def _held(self, index: int, uri: str | None) -> bytes:
        """A buffer that is in the file."""
        if uri is not None:
            kind, _, data = uri.partition(",")
            try:
                if kind.endswith(";base64"):
                    return base64.b64decode(data, validate=True)
            except (ValueError, binascii.Error):
                pass
            raise SceneError(f"the data of buffer {index} must be base64, found something else")
        if index or not self._chunk:
            raise SceneError(f"buffer {index} must have a 'uri', or be the first of a .glb with a binary chunk")
        start, size = self._chunk
        self._file.seek(start)
        return self._file.read(size)


@contextmanager
def opened_gltf(path: Path) -> Iterator[Gltf]:
    """A file of either kind, whatever its name; a SceneError of the block gets the name in front.

    Raises SceneError if it is none, OSError if it cannot be opened.
    """
    with scene_file(path) as file:
        yield Gltf(path, *_root(file))


def _root(file: BinaryIO) -> tuple[dict[str, Any], BinaryIO, tuple[int, int] | None]:
    content, chunk = _contents(file)
    root = parse_json(content, "a .glb file or glTF as JSON", LIMITS)
    asset = root.get("asset") if isinstance(root, dict) else None
    version = asset.get("version") if isinstance(asset, dict) else None
    if not isinstance(version, str) or version.split(".")[0] != str(VERSION):
        raise SceneError(f"version {VERSION} of glTF is required as 'asset', found {quoted(str(version)[:40])}")
    return root, file, chunk


def _contents(file: BinaryIO) -> tuple[bytes, tuple[int, int] | None]:
    """The JSON, and where the binary chunk is."""
    header = file.read(HEADER.size)
    if not header.startswith(MAGIC):
        file.seek(0)
        return file.read(LIMITS.bytes + 1), None
    if len(header) < HEADER.size or HEADER.unpack(header)[1] != VERSION:
        raise SceneError(f"version {VERSION} of .glb is required, found {header[4:8]!r}")
    size, kind = _chunk_header(file)
    if kind != JSON_CHUNK:
        raise SceneError(f"the first chunk of a .glb file must be {JSON_CHUNK!r}, found {kind!r}")
    content = file.read(min(size, LIMITS.bytes + 1))
    if not bytes_left(file):
        return content, None
    size, kind = _chunk_header(file)
    return content, (file.tell(), size) if kind == BINARY_CHUNK else None


def _chunk_header(file: BinaryIO) -> tuple[int, bytes]:
    header = file.read(CHUNK.size)
    size, kind = CHUNK.unpack(header) if len(header) == CHUNK.size else (0, b"")
    if not kind or size > (left := bytes_left(file)):
        raise SceneError(f"a chunk needs a header and {size} bytes, found {left if kind else len(header)}: truncated")
    return size, kind


def _read_file(path: Path) -> bytes:
    try:
        with opened_file(path) as file:
            return file.read(bytes_left(file))
    except OSError as error:
        raise SceneError(f"the buffer {quoted(path.name)} cannot be read: {error.strerror}") from error
