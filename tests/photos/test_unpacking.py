"""Pictures whose files ask for more memory or work than their size says: a TIFF's tiles, a JPEG's scans."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from splat.photos.named_picture import read_small
from splat.photos.pictures import check_unpacking, opened_picture, picture_size, read_mask, read_resized
from splat.photos.unpacking import MOST_SCANS, scan_count
from splat.scene.gaussians import SceneError

GREY, SHORT, LONG, ASCII = 200, 3, 4, 2


def tiff(path: Path, *tiles: tuple[int, int], big: bool = False, kind: int = LONG) -> Path:
    """A grey TIFF of 40x24 with a tile, deflated; of several sizes the last is Pillow's, and the first libtiff's."""
    width, height = tiles[-1] if max(tiles[0]) > 1000 else tiles[0]
    data = zlib.compress(bytes([GREY]) * (width * height))
    entries = [(256, LONG, 40), (257, LONG, 24), (258, SHORT, 8), (259, SHORT, 8), (262, SHORT, 1), (277, SHORT, 1)]
    entries += [(322, kind, across) for across, _ in tiles] + [(323, kind, down) for _, down in tiles]
    entries += [(324, LONG, 1000), (325, LONG, len(data))]
    packed = b"".join(struct.pack("<HHQQ" if big else "<HHII", tag, of, 1, value) for tag, of, value in entries)
    head = (
        b"II+\0\x08\0\0\0" + struct.pack("<QQ", 16, len(entries))
        if big
        else b"II*\0" + struct.pack("<IH", 8, len(entries))
    )
    path.write_bytes((head + packed).ljust(1000, b"\0") + data)
    return path


def jpeg(path: Path, size: tuple[int, int] = (40, 24), mode: str = "RGB", **options: bool) -> Path:
    Image.new(mode, size, GREY if mode == "L" else (GREY, GREY, GREY)).save(path, **options)
    return path


def more_scans(path: Path, more: int) -> Path:
    """The same JPEG with its last scan so many times more."""
    content = path.read_bytes()
    last = content.rindex(b"\xff\xda")
    path.write_bytes(content[:-2] + content[last:-2] * more + content[-2:])
    return path


@pytest.mark.parametrize("big", [False, True])
def test_a_tile_that_is_much_larger_than_its_picture_is_refused(tmp_path: Path, big: bool) -> None:
    usual = tiff(tmp_path / "a.tif", (48, 32), big=big)
    assert (read_resized(usual, (40, 24)).colors == GREY).all()
    hostile = tiff(tmp_path / "b.tif", (60000, 60000), (48, 32), big=big)
    for read in (picture_size, lambda path: read_resized(path, (9, 9)), lambda path: read_mask(path, (9, 9))):
        with pytest.raises(SceneError, match=r"b\.tif: .* 160000000 pixels is required, found tiles of 60000x60000;"):
            read(hostile)
    with pytest.raises(SceneError, match=r"c\.tif: .* damaged picture: the sizes of its tiles are no whole numbers"):
        picture_size(tiff(tmp_path / "c.tif", (48, 32), big=big, kind=ASCII))


def test_a_tile_takes_memory(tmp_path: Path) -> None:
    path = tiff(tmp_path / "a.tif", (12000, 12000), (48, 32))
    with pytest.raises(SceneError, match=r"40x24 pixels needs about 4\.3 GiB, found 4\.0 GiB of memory"):
        check_unpacking(path, (9, 9), 2**32)
    with pytest.raises(SceneError, match=r"40x24 pixels needs about 4\.3 GiB, found 4\.0 GiB of memory"):
        read_small(path, 640, 2**32)


def test_scans_are_kept_however_small_a_jpeg_becomes(tmp_path: Path) -> None:
    memory, size = 20 * 2**20, (250, 200)
    check_unpacking(jpeg(tmp_path / "a.jpg", (2000, 1600)), size, memory)
    with pytest.raises(SceneError, match=r"b\.jpg: .* of 250x200 pixels needs about 0\.0 GiB"):
        check_unpacking(jpeg(tmp_path / "b.jpg", (2000, 1600), progressive=True), size, memory)


def test_a_jpeg_with_many_scans_is_refused(tmp_path: Path) -> None:
    usual = jpeg(tmp_path / "a.jpg", progressive=True)
    assert read_resized(more_scans(usual, 20), (9, 9)).colors.shape == (9, 9, 3)
    hostile = more_scans(jpeg(tmp_path / "b.jpg", progressive=True), MOST_SCANS)
    for read in (lambda path: read_resized(path, (9, 9)), lambda path: read_mask(path, (9, 9))):
        with pytest.raises(SceneError, match=rf"b\.jpg: a JPEG of at most {MOST_SCANS} scans is required, found more"):
            read(hostile)


def scans(content: bytes) -> int:
    with Image.open(io.BytesIO(content)) as picture:
        file = getattr(picture, "fp")  # noqa: B009, of which mypy knows nothing
        before = file.tell()
        found = scan_count(picture)
        assert file.tell() == before
    return found


def test_what_is_a_scan(tmp_path: Path) -> None:
    assert scans(jpeg(tmp_path / "a.jpg", mode="L").read_bytes()) == 1
    whole = more_scans(jpeg(tmp_path / "b.jpg"), 500).read_bytes()
    assert scans(whole) == 1, "of a baseline one that begins with a scan of all, only that one is read"
    several = jpeg(tmp_path / "c.jpg", progressive=True).read_bytes()
    assert 2 < scans(several) < 12
    comments = b"".join(b"\xff\xfe" + struct.pack(">H", 60_002) + b"\xff\xda" * 30_000 for _ in range(9))
    assert scans(several[:2] + comments + several[2:]) == scans(several), "what is in a comment is none"
    assert scans(several[:2] + b"\xff\xfe\0\2" * 10_000 + several[2:]) > MOST_SCANS, "nobody writes so many"
    with opened_picture(tmp_path / "c.jpg") as picture:
        (tmp_path / "c.jpg").write_bytes(several[:400])
        assert scan_count(picture) <= MOST_SCANS, "cut meanwhile"
