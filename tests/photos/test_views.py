"""`read_views`: files of pictures that are damaged, hostile or something else are one clear error."""

from __future__ import annotations

import contextlib
import io
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import how_many
from PIL import Image

from splat.fit.fit_memory import FitMemory
from splat.fit.overlap import seen_by
from splat.fit.picture_views import read_views
from splat.fit.views import Views
from splat.scene.gaussians import SceneError

MEGABYTE = 2**20


def arrays(views: int = 2) -> dict[str, Any]:
    return {
        "images": np.full((views, 6, 8, 3), 100, np.uint8),
        "viewmats": np.tile(np.eye(4), (views, 1, 1)),
        "Ks": np.tile(np.eye(3), (views, 1, 1)),
        "points": np.ones((4, 3)),
        "colors": np.zeros((4, 3), np.uint8),
    }


def without_points(views: int = 2) -> dict[str, Any]:
    return {name: value for name, value in arrays(views).items() if name not in ("points", "colors")}


def npz(values: dict[str, Any], compressed: bool = False) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **values)
    return file.getvalue()


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """An array with a header of one's own."""
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(header))
    return b"\x93NUMPY" + version + size + header.encode("latin-1") + data


def many_members(extra: int, comment: int = 0) -> bytes:
    """An .npz file with a directory of many names, or of long ones."""
    file = io.BytesIO(npz(arrays()))
    with zipfile.ZipFile(file, "a") as archive:
        for number in range(extra):
            info = zipfile.ZipInfo(f"{number}")
            info.comment = bytes(comment)
            archive.writestr(info, b"")
    return file.getvalue()


def with_member(name: str, data: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    """An .npz file, of which one member is `data`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for other, value in arrays().items():
            if other != name:
                buffer = io.BytesIO()
                np.save(buffer, value)
                archive.writestr(f"{other}.npy", buffer.getvalue())
        archive.writestr(f"{name}.npy", data)
    return file.getvalue()


def read(tmp_path: Path, data: bytes, name: str = "a.npz") -> Views:
    path = tmp_path / name
    path.write_bytes(data)
    return read_views([path], 10, 0)


def test_stored_and_compressed_files_are_the_same(tmp_path: Path) -> None:
    for compressed in (False, True):
        views = read(tmp_path, npz(arrays(), compressed))
        assert [image.shape for image in views.images] == [(6, 8, 3)] * 2
        assert views.images[0][0, 0, 0].item() == pytest.approx(100 / 255)


def shaped(shape: str, kind: str = "|u1", rest: bytes = b"") -> bytes:
    return npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n", rest)


WHOLE = npz(arrays())
COMPRESSED = npz(arrays(), compressed=True)  # once: it has the time at which it was made
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "an .npz file of arrays is required, found nothing"),
    "many members": (many_members(2000), "an archive with a directory of at most 65536 bytes is required, found a l"),
    "long comments": (many_members(2, 2**15), "an archive with a directory of at most 65536 bytes is required, found"),
    "no zip": (b"PK\x03\x04" + bytes(90), "an .npz file of arrays is required, found File is not a zip file"),
    "cut": (WHOLE[:-30], "an .npz file of arrays is required, found"),
    "one array": (shaped("(1,)", rest=b"1"), "an .npz file of arrays is required, found File is not a zip file"),
    "pickle": (b"\x80\x04]\x94.", "an .npz file of arrays is required, found File is not a zip file"),
    "objects": (
        npz({**arrays(), "images": np.array([{}, 1], object)}),
        "images is damaged, or not an array: plain numbers are required, found objects",
    ),
    "no array": (with_member("images", b"text"), "images is damaged, or not an array: .*magic string"),
    "no header": (with_member("images", b"\x93NUMPY\x01\x00"), "images is damaged, or not an array: EOF"),
    "version": (
        with_member("images", b"\x93NUMPY\x03\x00" + bytes(90)),
        r"images is damaged, or not an array: version 1.0 or 2.0 is required, found \(3, 0\)",
    ),
    "header": (
        with_member("images", npy("{}\n")),
        "images is damaged, or not an array: Header does not contain the correct keys",
    ),
    "code": (
        with_member("images", npy("__import__('os').abort()\n")),
        "images is damaged, or not an array: malformed node",
    ),
    "brackets": (
        with_member("images", npy("(" * 60000 + "\n")),
        "images is damaged, or not an array: .*Header info length",
    ),
    "deep": (with_member("images", npy("-" * 9000 + "1\n")), "images is damaged, or not an array: "),
    "python 2": (
        with_member("images", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (9L,), }\n")),
        "images is",
    ),
    "more than there is": (
        with_member("images", shaped("(1000000000, 6, 8, 3)", rest=bytes(90))),
        "images is damaged, or not an array: 144000000000 bytes are required for its shape .* found 90",
    ),
    "many dimensions": (
        with_member("images", shaped(f"{(10**9,) * 9}", rest=bytes(9))),
        r"images is damaged, or not an array: 10{81} bytes are required",
    ),
    "negative": (
        with_member("images", shaped("(-1, 6, 8, 3)", rest=bytes(90))),
        "images is damaged, or not an array: -144 bytes",
    ),
    "less than there is": (
        with_member("images", shaped("(1, 2, 2, 3)", rest=bytes(90))),
        "images is damaged, or not an array: 12 bytes are required .* found 90",
    ),
    "bomb": (
        npz({**arrays(), "images": np.zeros((200, 600, 800, 3), np.uint8)}, compressed=True),
        r"images, .*unpack to 288\d{6} bytes, more than 100 times the \d{6} of the file; save it uncompressed",
    ),
    "other bomb": (
        with_member("images", bytes(2**26 - MEGABYTE), zipfile.ZIP_BZIP2),
        "images is damaged, or not an array: its compression is not that of numpy.savez_compressed",
    ),
    "encrypted": (
        WHOLE.replace(b"PK\x01\x02\x2d\x03\x2d\x00\x00\x00", b"PK\x01\x02\x2d\x03\x2d\x00\x01\x00").replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"
        ),
        "images is damaged, or not an array: .*encrypted",
    ),
    "damaged": (
        WHOLE.replace(bytes([100] * 9), bytes([100] * 8 + [101])),
        "images is damaged, or not an array: Bad CRC-32",
    ),
    "one number": (npz({**arrays(), "images": np.float32(1)}), r"images must have shape \[C, H, W, 3\], found \[\]"),
    "no pictures": (npz({**arrays(), "images": np.zeros((0, 6, 8, 3), np.uint8)}), r"found \[0, 6, 8, 3\]"),
    "beyond float32": (npz({**arrays(), "Ks": np.full((2, 3, 3), 1e300)}), "Ks must be finite numbers"),
    "points beyond": (npz({**arrays(), "points": np.full((4, 3), -1e39)}), "points must be finite numbers"),
    "NaN": (npz({**arrays(), "images": np.full((2, 6, 8, 3), np.nan)}), "images must be finite numbers"),
    "text": (npz({**arrays(), "Ks": np.array(["a"])}), "Ks must be finite numbers, found <U1"),
    "records": (npz({**arrays(), "Ks": np.zeros(2, [("a", "f4")])}), "Ks must be finite numbers, found "),
    "complex": (npz({**arrays(), "Ks": np.zeros((2, 3, 3), complex)}), "Ks must be finite numbers, found complex128"),
    "around 0": (npz({**arrays(), "images": np.linspace(-1, 1, 288).reshape(2, 6, 8, 3)}), "from 0 to 1, found -1"),
    "normalised": (npz({**arrays(), "Ks": np.tile(np.diag([0.7, 0.7, 1]), (2, 1, 1))}), "Ks must be in pixels of 8x6"),
    "points behind": (npz({**arrays(), "points": -np.ones((4, 3))}), "found none that show the same part"),
    "single, points behind": (npz({**arrays(1), "points": -np.ones((4, 3))}), "found none that show the same part"),
    "one place, no points": (npz(without_points()), "photographs from several places are required, found 2"),
    "apart, no points": (
        npz({**without_points(), "viewmats": np.stack([np.eye(4), np.diag([-1.0, 1, -1, 1])])}),
        "photographs from several places are required",
    ),
}


def test_random_points_are_where_the_cameras_look(tmp_path: Path) -> None:
    outwards = np.tile(np.eye(4), (4, 1, 1))
    for turn, matrix in enumerate(outwards):
        matrix[:3, :3] = [[(-1) ** turn, 0, 0], [0, 1, 0], [0, 0, (-1) ** turn]]
        matrix[:3, 3] = -matrix[:3, 2] + [0.3 * (turn // 2), 0, 0]
    for count in (4, 1):
        values = {**without_points(count), "viewmats": outwards[:count]}
        views = read(tmp_path, npz(values))
        seen = seen_by(views.points.double(), views.lens_cameras())
        assert (seen.sum(0) >= min(2, count)).all()
        assert seen.any(1).all()


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(tmp_path: Path, case: str) -> None:
    data, message = BROKEN[case]
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(SceneError, match=message) as raised:
                read(tmp_path, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(raised.value).startswith(f"{tmp_path / 'a.npz'}: ")
    assert str(raised.value).count("\n") == 0
    assert len(str(raised.value)) < 500
    assert peak < 8 * MEGABYTE


def test_pictures_that_do_not_fit_into_memory_are_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(npz({**arrays(), "images": np.zeros((2, 600, 800, 3), np.uint8)}, compressed=True))
    message = r"a\.npz: images, .* unpack to 0\.0 GiB, found 0\.0 GiB of memory; save fewer or smaller pictures"
    tracemalloc.start()
    try:
        with pytest.raises(SceneError, match=message):
            read_views([tmp_path / "a.npz"], 10, 0, FitMemory(10**6, None))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE


def test_compressible_pictures_are_read(tmp_path: Path) -> None:
    values = {
        **arrays(),
        "images": np.zeros((2, 600, 800, 3), np.uint8),
        "Ks": np.tile(np.diag([99, 99, 1]), (2, 1, 1)),
    }
    assert len(read(tmp_path, npz(values, compressed=True)).images) == 2


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    whole = draw(st.sampled_from([WHOLE, COMPRESSED]))
    damaged = bytearray(whole[: draw(st.integers(len(whole) // 2, len(whole)) | st.just(len(whole)))])
    for _ in range(draw(st.integers(0, 4))):
        # Half of them where the headers and the directory of the zip file are.
        size = len(damaged)
        at = draw(st.integers(*draw(st.sampled_from([(0, size), (0, 150), (size - 500, size)]))))
        damaged[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(damaged)


HEADER = st.lists(
    st.sampled_from(
        ["{", "}", "'descr'", ":", "'<f4'", "'|O'", "'shape'", "(2, 3, 3)", "(", "9" * 30, "'fortran_order'"]
    ),
    max_size=12,
).map(" ".join)


@pytest.mark.slow
@settings(max_examples=how_many(100), deadline=None, derandomize=True)
@given(
    data=damaged_files()
    | st.builds(lambda header, rest: with_member("Ks", npy(header, rest)), HEADER, st.binary(max_size=99))
    | st.binary(max_size=200)
)
def test_damaged_files_are_read_or_refused_but_never_crash(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with contextlib.suppress(SceneError):
                read(tmp_path_factory.getbasetemp(), data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MEGABYTE


def png(width: int, height: int) -> bytes:
    """The header of a picture of any size, and nothing behind it."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    data = file.getvalue()
    size = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + size + struct.pack(">I", zlib.crc32(size)) + data[33:]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a picture .* is required, found neither"),
        (png(60000, 60000), "a picture of at most 160000000 pixels is required, found more; make it smaller first"),
        (png(13300, 13300), "a picture of at most 160000000 pixels is required, found 13300x13300; make it"),
        (png(10000, 10000), "a damaged picture.*truncated"),
        # Of 4 GB, as it says; Python makes room for what is asked of a file before it reads.
        (png(10, 10)[:33] + b"\xff\xff\xff\xffIDAT" + bytes(9), "a damaged picture"),
        (png(10, 10)[:33] + b"\x7f\xff\xff\xfftEXt" + bytes(9), "a damaged picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "found neither"),
    ],
    ids=["empty", "bomb", "large", "cut", "pixels", "text", "program"],
)
def test_pictures_that_are_none(tmp_path: Path, data: bytes, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracemalloc.start()
        try:
            with pytest.raises(SceneError, match=message) as raised:
                read(tmp_path, data, "a.png")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert str(raised.value).startswith(f"{tmp_path / 'a.png'}: ")
    assert peak < 8 * MEGABYTE


@settings(max_examples=how_many(50), deadline=None, derandomize=True)
@given(kind=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]), data=st.data())
def test_damaged_pictures_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    file = io.BytesIO()
    Image.linear_gradient("L").resize((16, 16)).convert("RGB").save(file, kind)
    damaged = bytearray(file.getvalue()[: data.draw(st.integers(9, len(file.getvalue())))])
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(damaged)) | st.integers(0, 60))
        damaged[at : at + 1] = data.draw(st.binary(max_size=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracemalloc.start()
        try:
            with contextlib.suppress(SceneError):
                read(tmp_path_factory.getbasetemp(), bytes(damaged), "a.png")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * MEGABYTE
