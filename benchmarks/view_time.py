"""`splat view`: the time from a drag to the picture and the resolution it had, and the time until all pixels are there.

Usage: view_time.py FOLDER, where a scene is written first. A page without a browser drags: it says where its camera is
and takes the pictures, as the viewer's page does. What a browser adds, to unpack a JPEG and show it, is not measured.
"""

from __future__ import annotations

import io
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
import viser
import websockets
import websockets.sync.client
import zstandard
from measure import table
from PIL import Image

from splat.scene.formats import write_scene
from splat.scene.gaussians import Gaussians

PAGES = ((1280, 720), (1920, 1080))
DRAGS = 6
SECONDS = 3.0
GAUSSIANS = 1_000_000


class Shown(NamedTuple):
    """A picture as it arrived."""

    when: float
    width: int


class Hand:
    """A page that is dragged."""

    def __init__(self, url: str, width: int, height: int) -> None:
        self._socket = websockets.sync.client.connect(
            url.replace("http", "ws"),
            subprotocols=[websockets.Subprotocol(f"viser-v{viser.__version__}")],
            max_size=None,
        )
        self._size, self._x = (width, height), 0.0

    def move(self) -> float:
        """Say a camera that is a little further; return when."""
        self._x += 0.01
        width, height = self._size
        message = {
            "type": "ViewerCameraMessage",
            **{"wxyz": [1, 0, 0, 0], "position": [self._x, 0, -5], "look_at": [self._x, 0, 0]},
            **{"up_direction": [0, -1, 0], "fov": 0.8, "near": 0.01, "far": 1000},
            **{"image_width": width, "image_height": height},
        }
        now = time.perf_counter()
        self._socket.send(msgspec.msgpack.encode(message))
        return now

    def pictures(self, seconds: float) -> Iterator[Shown]:
        """Those that arrive within this time."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            try:
                message = self._socket.recv(timeout=left)
            except TimeoutError:
                return
            now = time.perf_counter()
            assert isinstance(message, bytes)
            size = int.from_bytes(message[8:16], "little")
            for part in msgspec.msgpack.decode(zstandard.decompress(message[16 : 16 + size]))["messages"]:
                if part["type"] == "BackgroundImageMessage" and part["rgb_data"]:
                    yield Shown(now, Image.open(io.BytesIO(part["rgb_data"])).width)

    def rest(self) -> float:
        """Wait for a picture with all pixels, and for nothing after it; return when it came."""
        shown = next(shown for shown in self.pictures(60) if shown.width == self._size[0])
        last = shown.when
        for late in self.pictures(0.3):
            last = late.when
        return last

    def close(self) -> None:
        """Leave."""
        self._socket.close()


def main(folder: Path) -> None:
    """Measure both scenes on both pages, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    write_scene(folder / "random.ply", random_scene(GAUSSIANS))
    rows = []
    for name, words in (("built-in scene", []), (f"{GAUSSIANS} random Gaussians", [str(folder / "random.ply")])):
        with serve(words) as url:
            for width, height in PAGES:
                rows.append([name, f"{width}x{height}", *drag(url, width, height)])
    print(f"the median of {DRAGS} drags from rest, then one of {SECONDS:g} s with 60 cameras a second")
    columns = ["drag to picture ms", "worst", "its width", "pictures/s", "their width", "all pixels after ms"]
    table(["view", "page", *columns], rows)


def drag(url: str, width: int, height: int) -> list[str]:
    """The columns of one page."""
    hand = Hand(url, width, height)
    hand.move()
    hand.rest()
    firsts = []
    for _ in range(DRAGS + 3):
        start = hand.move()
        first = next(iter(hand.pictures(60)))
        firsts.append((first.when - start, first.width))
        if first.width < width:
            hand.rest()
    times, widths = zip(*firsts[3:], strict=True)  # the first few find the resolution

    start, seen = time.perf_counter(), list[Shown]()
    last = start
    while last < start + SECONDS:
        last = hand.move()
        seen += hand.pictures(1 / 60)
    until = hand.rest() if seen[-1].width < width else seen[-1].when
    hand.close()
    return [
        *(f"{1e3 * value:.0f}" for value in (statistics.median(times), max(times))),
        f"{statistics.median(widths):.0f}",
        f"{len(seen) / SECONDS:.0f}",
        f"{statistics.median(shown.width for shown in seen):.0f}",
        f"{1e3 * max(0.0, until - last):.0f}",
    ]


def random_scene(count: int) -> Gaussians:
    """Small Gaussians in a ball of radius 1."""
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(count, 3, generator=generator)
    means *= torch.rand(count, 1, generator=generator) ** (1 / 3) / means.norm(dim=1, keepdim=True)
    return Gaussians(
        means=means,
        quats=torch.randn(count, 4, generator=generator),
        scales=0.001 + 0.004 * torch.rand(count, 3, generator=generator),
        opacities=torch.rand(count, generator=generator),
        sh=torch.randn(count, 1, 3, generator=generator),
    )


@contextmanager
def serve(words: list[str]) -> Iterator[str]:
    """The viewer as a process; yields its address."""
    command = [sys.executable, "-m", "splat", "view", "--port", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
