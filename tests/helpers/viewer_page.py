"""A viewer whose pictures are noted, and its page without a browser."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import websockets.sync.client
import zstandard

from splat.scene.builtin import knot_scene
from splat.scene.camera import UP, Camera, FirstView, orbit
from splat.scene.camera_list import TakenPicture
from splat.scene.gaussians import Gaussians
from splat.view.drawing import Look, Picture
from splat.view.open_page import ViewerOptions
from splat.view.scene_choices import BUILT_IN, SceneChoices
from splat.view.server import Viewer

viser = pytest.importorskip("viser", reason="pip install 'viser>=1.1,<1.2'")
EYE = {"wxyz": [1, 0, 0, 0], "position": [0, 0, -5], "look_at": [0, 0, 0], "up_direction": [0, -1, 0]}
FRONT = {**EYE, "fov": 0.8, "near": 0.01, "far": 1000, "image_height": 60, "image_width": 80}


class Drawn:
    """A drawing function that notes what it drew, and what is drawn at this moment."""

    def __init__(self) -> None:
        self.pictures: queue.Queue[tuple[Look, Camera]] = queue.Queue()
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.most = 0
        self._lock, self._now = threading.Lock(), 0

    def __call__(self, look: Look, camera: Camera) -> Picture:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.pictures.put((look, camera))
        try:
            assert self.gate.wait(20)
        finally:
            with self._lock:
                self._now -= 1
        if self.error is not None:
            raise self.error
        return np.zeros((camera.height, camera.width, 3), np.uint8)

    def full(self) -> tuple[Look, Camera]:
        """The next picture with all pixels."""
        while True:
            look, camera = self.pictures.get(timeout=20)
            if camera.width == FRONT["image_width"]:
                return look, camera


class Page:
    """A page without a browser: what viser's page says, in its words."""

    def __init__(self, url: str, **headers: str) -> None:
        address = url.replace("http", "ws")
        names = [websockets.Subprotocol(f"viser-v{viser.__version__}")]
        self.socket = websockets.sync.client.connect(
            address, subprotocols=names, additional_headers=headers, max_size=None
        )
        self.received: list[bytes] = []
        self.reads = threading.Event()
        self.reads.set()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            for message in self.socket:
                assert isinstance(message, bytes)
                assert self.reads.wait(20)
                size = int.from_bytes(message[8:16], "little")  # of the part without pictures, which is compressed
                self.received.append(zstandard.decompress(message[16 : 16 + size]))

    def say(self, kind: str, **values: object) -> None:
        self.socket.send(msgspec.msgpack.encode({"type": kind, **values}))

    def look(self, **changes: object) -> None:
        self.say("ViewerCameraMessage", **{**FRONT, **changes})

    def wait_for(self, text: str) -> None:
        wait(lambda: any(text.encode() in message for message in self.received))


def wait(condition: Callable[[], bool]) -> None:
    """Until it is true; the test fails after long."""
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def painters() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("splat-view-")]


def options(
    drawn: Callable[[Look, Camera], Picture], read: Callable[[Path | None], Gaussians] | None = None
) -> ViewerOptions:
    choices = SceneChoices({BUILT_IN: None, "other": Path("other")}, read or (lambda _: knot_scene()), place)
    return ViewerOptions(choices, drawn, (0.0, 0.0, 0.0), 4)


def place(scene: Gaussians, path: Path | None) -> tuple[FirstView, Sequence[TakenPicture]]:
    camera = orbit(scene, 80, 60)
    return FirstView(camera, UP["y"]), [TakenPicture("a.png", camera)] if path else []


def session_of(viewer: Viewer) -> Any:
    """The only page's."""
    wait(lambda: viewer.pages == 1)
    (session,) = viewer._sessions.values()
    return session
