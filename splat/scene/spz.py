"""The .spz format: quantised Gaussians in a gzip stream (versions 1 to 3) or in Zstandard frames (version 4).

Source: github.com/nianticlabs/spz, README.md, extensions/README.md and src/cc/load-spz.cc (2026). Up to version 3, all
of the file is one gzip stream: a header of 16 bytes, the attributes, and records of extensions. Downloads that were
unpacked on the way are what was in the stream. Version 4 begins with a header of 32 bytes, records of extensions and a
table of sizes, uncompressed; each attribute is a frame of its own.

A file may be damaged or hostile: the size that its header implies must agree with that of the file before anything is
unpacked, and nothing is unpacked beyond it.
"""

from __future__ import annotations

import importlib
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from .axes import OPENGL_AXES, Axes
from .file_input import bytes_left, check_unpacked_size, scene_file, usable
from .file_output import check_writable, replacing
from .gaussians import Gaussians, SceneError
from .spz_values import MOST_FRACTIONAL_BITS, Bytes, decode_spz, encode_spz, widths

SPZ_VERSIONS: Final = (1, 2, 3, 4)
WRITTEN_VERSION: Final = 3
"""What is written unless another version is asked for: every reader of the format knows it, and it needs no
Zstandard."""
MAX_DEGREE: Final = 4
MAX_EXTENSIONS: Final = 2**16
"""Maximum size of all extensions together, in bytes."""

_MAGIC: Final = 0x5053474E  # NGSP
_START: Final = _MAGIC.to_bytes(4, "little")
_GZIP: Final = b"\x1f\x8b"
_HEADER: Final = Struct("<IIIBBBB")
_FRAMES: Final = Struct("<IIIBBBBI12x")
_SIZES: Final = Struct("<QQ")
_RECORD: Final = Struct("<II")
_CHUNK: Final = 2**18
_ANTIALIASED: Final = 1
_EXTENSIONS: Final = 2
_COORDINATE_SYSTEM: Final = 0xADBE0003
"""The extension that names the axes, as a 32-bit number; the only one that changes what the values mean."""


class SpzHeader(NamedTuple):
    """What a file claims to hold."""

    version: int
    gaussians: int
    degree: int
    fractional_bits: int
    flags: int
    frames: int = 0
    """The number of Zstandard frames, from version 4 on."""
    table: int = 0
    """The position of the table of their sizes."""

    @property
    def attributes(self) -> dict[str, int]:
        """Bytes of each attribute."""
        return {name: self.gaussians * width for name, width in widths(self.version, self.degree).items()}


def read_spz(path: str | Path) -> Gaussians:
    """Read the Gaussians of an .spz file of any version, on the CPU, in the axes of 3DGS.

    A warning says how many bytes of extensions are not used.

    Raises:
        SceneError: if the file is empty, truncated, malformed, or of version 4 without a module for Zstandard.
        OSError: if it cannot be opened.
    """
    path = Path(path)
    with scene_file(path) as file:
        return usable(spz_gaussians(file, path), path)


def spz_gaussians(file: BinaryIO, path: Path) -> Gaussians:
    """The Gaussians of an opened file, also those that cannot be drawn; `path` is for warnings."""
    header, stream = _open(file)
    check_unpacked_size(sum(header.attributes.values()), bytes_left(file) + file.tell())
    values, extensions = _inflate_attributes(header, stream) if stream else _read_frames(header, file)
    axes, unused = _read_extensions(extensions) if header.flags & _EXTENSIONS else (OPENGL_AXES, len(extensions))
    if unused:
        warnings.warn(f"{path}: {unused} bytes of extensions are not used", stacklevel=2)
    scene = decode_spz(values, header.version, header.fractional_bits, axes)
    return replace(scene, antialiased=bool(header.flags & _ANTIALIASED))


def spz_header(path: Path) -> SpzHeader:
    """The header of a file; SceneError if it is not one."""
    with scene_file(path) as file:
        return opened_header(file)


def opened_header(file: BinaryIO) -> SpzHeader:
    """The same of an opened file."""
    return _open(file)[0]


def write_spz(path: str | Path, scene: Gaussians, version: int = WRITTEN_VERSION) -> None:
    """Write a scene as an .spz file of version 2, 3 or 4; `spz_losses` says what is lost.

    The file appears complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not end in .spz, the version cannot be written or the scene cannot be held,
    OSError if the file cannot be written.
    """
    path = check_writable(path, ".spz", "such scenes")
    data = encode_spz_file(scene, version)
    with replacing(path) as file:
        file.write(data)


def encode_spz_file(scene: Gaussians, version: int) -> bytes:
    """The bytes of a file of version 2, 3 or 4."""
    if version not in SPZ_VERSIONS[1:]:
        raise ValueError(f"version 2, 3 or 4 of .spz can be written, found {version}")
    values, bits = encode_spz(scene, version)
    flags = _ANTIALIASED if scene.antialiased else 0
    parts = [values[name].tobytes() for name in widths(version, scene.degree)]
    if version < 4:
        packer = zlib.compressobj(wbits=31)
        header = _HEADER.pack(_MAGIC, version, len(scene), scene.degree, bits, flags, 0)
        return b"".join([packer.compress(header), *map(packer.compress, parts), packer.flush()])
    zstd = _zstandard()
    parts = [part for part in parts if part]
    frames = [zstd.compress(part, 12) for part in parts]
    header = _FRAMES.pack(_MAGIC, version, len(scene), scene.degree, bits, flags, len(parts), _FRAMES.size)
    table = [_SIZES.pack(len(frame), len(part)) for frame, part in zip(frames, parts, strict=True)]
    return b"".join([header, *table, *frames])


class _PlainStream:
    """A file that a browser or a server has unpacked already."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    @property
    def ended(self) -> bool:
        """Whether all of it was read."""
        return not bytes_left(self.file)

    def read(self, size: int) -> bytes:
        """The next `size` bytes, or what there is until the end."""
        return self.file.read(size)


class _GzipStream:
    """What a gzip stream holds, unpacked only as far as it is asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.inflater = zlib.decompressobj(wbits=31)

    @property
    def ended(self) -> bool:
        """Whether all of it was read, and is whole."""
        return self.inflater.eof

    def read(self, size: int) -> bytearray:
        """The next `size` bytes, or what there is until the end."""
        data = bytearray()
        try:
            while len(data) < size and not self.inflater.eof:
                chunk = self.inflater.unconsumed_tail or self.file.read(_CHUNK)
                piece = self.inflater.decompress(chunk, size - len(data))
                data += piece
                if not chunk and not piece:
                    break
        except zlib.error as error:
            raise SceneError(f"the gzip stream is damaged: {error}") from error
        return data


_Stream = _GzipStream | _PlainStream


def _open(file: BinaryIO) -> tuple[SpzHeader, _Stream | None]:
    """The header, and the stream behind it up to version 3."""
    start = file.read(_FRAMES.size)
    is_packed = start[:2] == _GZIP
    if is_packed or (start[:4] == _START and int.from_bytes(start[4:8], "little") in SPZ_VERSIONS[:3]):
        file.seek(0)
        stream: _Stream = _GzipStream(file) if is_packed else _PlainStream(file)
        return _check_header(bytes(stream.read(_HEADER.size)), _HEADER, SPZ_VERSIONS[:3]), stream
    return _check_header(start, _FRAMES, SPZ_VERSIONS[3:]), None


def _check_header(data: bytes, layout: Struct, versions: tuple[int, ...]) -> SpzHeader:
    if len(data) < layout.size or layout.unpack(data)[0] != _MAGIC:
        raise SceneError(
            f"an .spz file is required, a gzip stream or a file that begins with NGSP, found {data[:16]!r}"
            if data
            else "an .spz file is required, found nothing"
        )
    _, version, count, degree, bits, flags, *rest = layout.unpack(data)
    if version not in versions:
        raise SceneError(f"version {' or '.join(map(str, versions))} is required in such an .spz file, found {version}")
    if degree > MAX_DEGREE:
        raise SceneError(f"the degree of the spherical harmonics must be 0 to {MAX_DEGREE}, found {degree}")
    if bits > MOST_FRACTIONAL_BITS:
        raise SceneError(f"centres must have at most {MOST_FRACTIONAL_BITS} fractional bits, found {bits}")
    return SpzHeader(version, count, degree, bits, flags, *(rest if layout is _FRAMES else ()))


def _inflate_attributes(header: SpzHeader, stream: _Stream) -> tuple[dict[str, Bytes], bytes]:
    """The attributes, and the extensions behind them."""
    values = {}
    for name, size in header.attributes.items():
        values[name] = _rows(name, stream.read(size), size, header)
    extensions = stream.read(MAX_EXTENSIONS + 1)
    if len(extensions) > MAX_EXTENSIONS:
        raise SceneError(f"at most {MAX_EXTENSIONS} bytes may follow the attributes, found more")
    if not stream.ended:
        raise SceneError("the gzip stream must have an end, found none: truncated")
    return values, bytes(extensions)


def _rows(name: str, data: bytes | bytearray, size: int, header: SpzHeader) -> Bytes:
    if len(data) != size:
        raise SceneError(
            f"{size} bytes of {name} are required for {header.gaussians} Gaussians, found {len(data)}: truncated"
        )
    return np.frombuffer(data, np.uint8).reshape(header.gaussians, widths(header.version, header.degree)[name])


def _read_frames(header: SpzHeader, file: BinaryIO) -> tuple[dict[str, Bytes], bytes]:
    """The attributes of version 4, and the extensions."""
    sizes = _check_table(header, file)
    file.seek(_FRAMES.size)
    extensions = file.read(header.table - _FRAMES.size)
    file.seek(header.table + len(sizes) * _SIZES.size)
    values = {}
    for name, size in header.attributes.items():
        data = _unpack_frame(name, file.read(sizes[name]), size) if size else b""
        values[name] = _rows(name, data, size, header)
    return values, extensions


def _check_table(header: SpzHeader, file: BinaryIO) -> dict[str, int]:
    """The size of each frame, after checking all sizes with each other and with the file's."""
    attributes = {name: size for name, size in header.attributes.items() if size}
    if header.frames != len(attributes):
        raise SceneError(f"{len(attributes)} attributes are required ({', '.join(attributes)}), found {header.frames}")
    if not _FRAMES.size <= header.table <= _FRAMES.size + MAX_EXTENSIONS:
        raise SceneError(
            f"the table of sizes must begin at byte {_FRAMES.size} or up to {MAX_EXTENSIONS} bytes behind, found "
            f"{header.table}"
        )
    file.seek(header.table)
    data = file.read(header.frames * _SIZES.size)
    if len(data) < header.frames * _SIZES.size:
        raise SceneError(f"a table of {header.frames} sizes is required at byte {header.table}: truncated")
    sizes = {}
    for name, (packed, unpacked) in zip(attributes, _SIZES.iter_unpack(data), strict=True):
        if unpacked != attributes[name]:
            raise SceneError(
                f"{attributes[name]} bytes of {name} are required for {header.gaussians} Gaussians, found {unpacked}"
            )
        sizes[name] = packed
    left = bytes_left(file)
    if sum(sizes.values()) != left:
        raise SceneError(f"{sum(sizes.values())} bytes are required behind the table of sizes, found {left}: truncated")
    return sizes


def _unpack_frame(name: str, data: bytes, size: int) -> bytes:
    zstd = _zstandard()
    unpacker = zstd.ZstdDecompressor()
    try:
        unpacked: bytes = unpacker.decompress(data, max_length=size + 1)
    except zstd.ZstdError as error:
        raise SceneError(f"the frame of {name} is damaged: {error}") from error
    if len(unpacked) == size and not unpacker.eof and not unpacker.needs_input:
        unpacked += unpacker.decompress(b"", max_length=1)
    if len(unpacked) > size or unpacker.unused_data:
        raise SceneError(f"the frame of {name} must hold {size} bytes, found more")
    if not unpacker.eof:
        raise SceneError(f"the frame of {name} must have an end, found none: truncated")
    return unpacked


def _zstandard() -> Any:
    """The module for Zstandard of Python 3.14, or the same one for older Pythons."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise SceneError(
        "version 4 of .spz is compressed with Zstandard, for which Python 3.14 or backports.zstd is required, found "
        "neither; to fix: python -m pip install backports.zstd"
    )


def _read_extensions(data: bytes) -> tuple[Axes, int]:
    """The axes of the file, and the number of bytes of extensions that are not used."""
    axes, unused = OPENGL_AXES, 0
    for kind, payload in _records(data):
        if kind == _COORDINATE_SYSTEM and len(payload) == 4:
            axes = _axes(int.from_bytes(payload, "little"))
        else:
            unused += _RECORD.size + len(payload)
    return axes, unused


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        if len(data) - at < _RECORD.size:
            raise SceneError(f"an extension must begin with {_RECORD.size} bytes, found {len(data) - at}: truncated")
        kind, size = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if size > len(data) - at:
            raise SceneError(f"extension {kind:#010x} must have {size} bytes, found {len(data) - at}: truncated")
        yield kind, data[at : at + size]
        at += size


def _axes(system: int) -> Axes:
    """The signs that turn a coordinate system of the reference (1 is LDB, 8 is RUF) into that of 3DGS, RDF."""
    if not system:
        return OPENGL_AXES
    if system > 8:
        raise SceneError(
            f"a coordinate system with y up or down (1 to 8) is required, found {system}: save it in another one, such "
            "as RUB"
        )
    right, up, front = ((system - 1) >> bit & 1 for bit in range(3))
    return (1 if right else -1, -1 if up else 1, 1 if front else -1)
