"""Memory by somebody else's file: what a small or a long file could make a fit allocate, in children with a limit."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import photographs
import processes
import pytest

pytestmark = [pytest.mark.slow]

MANY = 30_000_000
"""Bytes of the long files."""

# Each read may take so many bytes of address space beyond what is there before it.
LIMITED = """
import json, resource, sys
from pathlib import Path
import torch
from splat.fit.fit_memory import FitMemory
from splat.fit.photograph_views import photograph_views
from splat.fit.picture_views import read_views
from splat.photos.folders import read_capture
torch.set_num_threads(1)

def read(path):
    memory = FitMemory(2**30, 2**30)
    if path.suffix == ".png":
        return read_views([path], 9, 0, memory)
    return photograph_views(read_capture(path), 9, 0, memory=memory)

read(Path(sys.argv[1]))
for path, most in json.loads(sys.argv[2]):
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + most
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        print(len(read(Path(path))), "pictures")
    except (ValueError, MemoryError) as error:
        print(type(error).__name__, error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def text_folder(folder: Path) -> Path:
    return photographs.colmap_folder(folder, count=2, binary=False)


def long_line(name: str, after: str) -> Callable[[Path], Path]:
    """A model with a line that goes on and on, after the first occurrence of some words."""

    def make(folder: Path) -> Path:
        text_folder(folder)
        path = folder / "sparse" / "0" / name
        before, words, rest = path.read_text().partition(after)
        path.write_text(before + words + " 1" * (MANY // 2) + rest)
        return folder

    return make


def many_lines(name: str, line: str, most: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        text_folder(folder)
        path = folder / "sparse" / "0" / name
        path.write_text(path.read_text() + "".join(line.format(i) for i in range(9, most)))
        return folder

    return make


def transforms(values: str, size: int = MANY) -> Callable[[Path], Path]:
    """A file with a list of so many bytes more."""

    def make(folder: Path) -> Path:
        photographs.transforms_folder(folder, count=2)
        path = folder / "transforms.json"
        path.write_text(f'{path.read_text()[:-1]}, "more": [{values * (size // len(values))}{values[:-1]}]}}')
        return folder

    return make


def wide(letter: str, size: int) -> Callable[[Path], Path]:
    """A file with so many letters in words, and a single other one."""

    def make(folder: Path) -> Path:
        photographs.transforms_folder(folder, count=2)
        path = folder / "transforms.json"
        words = ('"' + "a" * 10**6 + '",') * (size // 10**6)
        path.write_text(f'{path.read_text()[:-1]}, "more": [{words}"{letter}"]}}', encoding="utf-8")
        return folder

    return make


def png(path: Path, width: int, height: int) -> Path:
    """A picture that says its size, which is all that may be read of it, and begins with some black rows."""
    packer = zlib.compressobj(9)
    row = bytes(1 + 3 * width)
    data = b"".join([*(packer.compress(row) for _ in range(16)), packer.flush()])

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return path


def picture(width: int, height: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        folder.mkdir()
        return png(folder / "a.png", width, height)

    return make


def photograph(folder: Path) -> Path:
    """A folder whose pictures are large, and used as small ones."""
    photographs.colmap_folder(folder, count=2)
    png(folder / "images" / "01.png", 6400, 4800)
    return folder


SMALL = 32 * 2**20
CASES: dict[str, tuple[Callable[[Path], Path], int, str]] = {
    "a camera": (long_line("cameras.txt", " 40 30"), SMALL, "cameras.txt: line 2: at most 8192 bytes are required"),
    "observations": (long_line("images.txt", "1.5 2.5 -1"), SMALL, "2 pictures"),
    "a track": (long_line("points3D.txt", " 0.5 1 0"), SMALL, "2 pictures"),
    "a comment": (long_line("cameras.txt", "# a comment"), SMALL, "2 pictures"),
    "cameras": (
        many_lines("cameras.txt", "{} PINHOLE 1 1 1 1 1 1\n", 120_000),
        6 * SMALL,
        "cameras.txt: at most 100000 cameras are required, found more",
    ),
    # 48 bytes each, and twice as much while it grows.
    "points": (many_lines("points3D.txt", "{} 0 0 0 0 0 0 0\n", 300_000), 3 * SMALL, "2 pictures"),
    "objects": (
        transforms("{},"),
        MANY + SMALL,
        "of at most 1000000 objects and lists is required, found up to 100000",
    ),
    "words": (transforms('"ab",'), MANY + SMALL, "of at most 6000000 values is required, found up to 6000"),
    "more bytes": (transforms('"' + "a" * 10**6 + '",', 2**26), 3 * SMALL, "of at most 67108864 bytes is required"),
    "a wide letter": (
        wide("\u4e00", 34_000_000),
        3 * SMALL,
        "of at most 67108864 bytes is required, found 340",
    ),
    "a written one": (wide("\\ud83d\\ude00", 17_000_000), 3 * SMALL, "with characters that take 4 each"),
    "letters of Latin-1": (wide("\xfc", 2**23), 3 * SMALL, "2 pictures"),
    "a picture": (picture(13300, 13300), SMALL, "a picture of at most 160000000 pixels is required, found 13300x13300"),
    "pixels": (
        picture(12000, 12000),
        SMALL,
        "a.png: a picture of 144.0 megapixels needs about 28.4 GiB, found 1.0 GiB of memory; make it smaller first",
    ),
    "a photograph": (
        photograph,
        SMALL,
        "2 photographs of up to 30.7 megapixels need about 5.8 GiB, found 1.0 GiB of memory; make them smaller",
    ),
}


def test_what_a_read_allocates_is_bounded(tmp_path: Path) -> None:
    first = text_folder(tmp_path / "first")
    reads = [(str(make(tmp_path / case)), most) for case, (make, most, _) in CASES.items()]
    done = processes.run([sys.executable, "-c", LIMITED, first, json.dumps(reads)], cwd=tmp_path)
    said = dict(zip(CASES, done.stdout.splitlines(), strict=True))
    assert {case: words for case, words in said.items() if CASES[case][2] not in words} == {}
