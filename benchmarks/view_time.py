"""`splat view`: the time from a drag to the picture, what of the scene it has, and the time until all is there.

Usage: view_time.py FOLDER [SCENE]..., where scenes of a million Gaussians are written first, and scenes of your own. A
page without a browser drags: it says where its camera is and takes the pictures, as the viewer's page does. What a
browser adds, to unpack a JPEG and show it, is not measured.
"""

from __future__ import annotations

import io
import math
import re
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

from splat.ops.densification import rotate
from splat.scene.builtin import knot_scene
from splat.scene.camera import Camera, orbit
from splat.scene.camera_list import find_cameras, read_cameras
from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import Gaussians
from splat.scene.rotations import quaternion
from splat.view.drawing import Look, draw
from splat.view.pose import resized
from splat.view.prominence import Prominence

PAGES = ((1280, 720), (1920, 1080))
DRAGS = 6
SECONDS = 3.0
GAUSSIANS = 1_000_000
_SAID = re.compile(rb"(\d+)x\d+ of \d+x\d+, (?:(\d+) of (\d+) Gaussians, )?\d+ ms")


class Shown(NamedTuple):
    """A picture as it arrived."""

    when: float
    width: int


class Hand:
    """A page that is dragged: its camera goes aside."""

    def __init__(self, url: str, camera: Camera) -> None:
        self._socket = websockets.sync.client.connect(
            url.replace("http", "ws"),
            subprotocols=[websockets.Subprotocol(f"viser-v{viser.__version__}")],
            max_size=None,
        )
        turn = camera.viewmat[:3, :3].double().T
        self._camera, self._turn, self._place = camera, turn, -turn @ camera.viewmat[:3, 3].double()
        self._step = turn[:, 0] * float(camera.viewmat[:3, 3].norm()) / 500
        self.shares: list[float] = []
        """Of the Gaussians, in the pictures that came."""
        self.complete = False
        """Whether the last one had all Gaussians and all pixels."""

    def move(self) -> float:
        """Say a camera that is a little further; return when."""
        self._place = self._place + self._step
        camera, place = self._camera, self._place.tolist()
        message = {
            "type": "ViewerCameraMessage",
            "wxyz": quaternion(self._turn).tolist(),
            "position": place,
            "look_at": (self._place + self._turn[:, 2]).tolist(),
            "up_direction": (-self._turn[:, 1]).tolist(),
            "fov": 2 * math.atan(camera.height / (2 * float(camera.K[1, 1]))),
            **{"near": 0.01, "far": 1000, "image_width": camera.width, "image_height": camera.height},
        }
        self.complete = False
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
            plain = zstandard.decompress(message[16 : 16 + size])
            for width, some, whole in _SAID.findall(plain):
                self.shares.append(int(some) / int(whole) if some else 1.0)
                self.complete = not some and int(width) == self._camera.width
            for part in msgspec.msgpack.decode(plain)["messages"]:
                if part["type"] == "BackgroundImageMessage" and part["rgb_data"]:
                    yield Shown(now, Image.open(io.BytesIO(part["rgb_data"])).width)

    def rest(self) -> float:
        """Wait for a picture with all Gaussians and all pixels, and for nothing after it; return when it came."""
        last = 0.0
        while not self.complete:
            for shown in self.pictures(0.5):
                last = shown.when
        return last

    def close(self) -> None:
        """Leave."""
        self._socket.close()


def main(folder: Path, paths: list[Path]) -> None:
    """Measure all scenes on both pages, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    write_scene(folder / "random.ply", random_scene(GAUSSIANS))
    write_scene(folder / "split.ply", split(knot_scene(), GAUSSIANS))
    rows = []
    for path in (None, folder / "split.ply", folder / "random.ply", *paths):
        scene = knot_scene() if path is None else read_scene(path)
        with serve([] if path is None else [str(path)]) as url:
            for width, height in PAGES:
                camera = place(scene, path, width, height)
                name = "built-in scene" if path is None else path.name
                rows.append([name, str(len(scene)), f"{width}x{height}", *drag(url, scene, camera)])
    print(f"the median of {DRAGS} drags from rest, then one of {SECONDS:g} s with 60 cameras a second")
    columns = ["drag to picture ms", "worst", "its width", "pictures/s", "their width", "share", "error of it"]
    table(["view", "Gaussians", "page", *columns, "everything after ms"], rows)
    print("share: of the Gaussians; error of it: the mean, of 255, against all Gaussians in as many pixels")


def place(scene: Gaussians, path: Path | None, width: int, height: int) -> Camera:
    """The first of the cameras beside the scene, or one that sees all of it."""
    found = path and find_cameras(path)
    return read_cameras(found)[0].of_size(width, height) if found else orbit(scene, width, height)


def drag(url: str, scene: Gaussians, camera: Camera) -> list[str]:
    """The columns of one page."""
    hand = Hand(url, camera)
    hand.move()
    hand.rest()
    firsts = []
    for _ in range(DRAGS + 3):
        start = hand.move()
        first = next(iter(hand.pictures(60)))
        firsts.append((first.when - start, first.width))
        hand.rest()
    times, widths = zip(*firsts[3:], strict=True)  # the first few find out what is fast enough

    start, seen = time.perf_counter(), list[Shown]()
    last, hand.shares = start, []
    while last < start + SECONDS or not hand.shares:
        last = hand.move()
        seen += hand.pictures(1 / 60)
    rate, share = len(seen) / (last - start), statistics.median(hand.shares)
    until = hand.rest() or seen[-1].when
    hand.close()
    moving = statistics.median(shown.width for shown in seen)
    return [
        *(f"{1e3 * value:.0f}" for value in (statistics.median(times), max(times))),
        f"{statistics.median(widths):.0f}",
        f"{rate:.1f}",
        f"{moving:.0f}",
        f"{share:.2f}",
        f"{error_of(scene, camera, moving / camera.width, share):.2f}",
        f"{1e3 * max(0.0, until - last):.0f}",
    ]


def error_of(scene: Gaussians, camera: Camera, scale: float, share: float) -> float:
    """How far a picture of a share of the Gaussians is from one of all."""
    middle = tuple(torch.stack(scene.bounds()).mean(0).tolist())
    pictures = [
        draw(Look(some, "colour", scene.degree, (0.0, 0.0, 0.0), camera.near), resized(camera, scale)).astype(float)
        for some in (scene, Prominence(scene, middle).first(share))
    ]
    return float(abs(pictures[0] - pictures[1]).mean())


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


def split(scene: Gaussians, count: int) -> Gaussians:
    """A scene of smaller Gaussians that looks alike: each is replaced by some that are strewn over it."""
    generator = torch.Generator().manual_seed(0)
    scene = scene.select(torch.arange(count) * len(scene) // count)
    strewn = rotate(scene.quats, scene.scales * torch.randn(count, 3, generator=generator))
    sizes = 0.4 * torch.exp(0.6 * torch.randn(count, 1, generator=generator))
    return Gaussians(scene.means + strewn, scene.quats, scene.scales * sizes, scene.opacities, scene.sh)


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
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
