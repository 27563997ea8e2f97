"""The page's controls of a path: cameras that it was at, kept as keyframes, played, and saved for `render --path`."""

from __future__ import annotations

import threading
import time
from typing import Final

from ..scene.camera import Camera
from ..scene.camera_motion import camera_at
from ..scene.camera_path import CameraPath, path_json
from ..scene.coordinates import Offset
from ..scene.gaussians import SceneError
from .camera_controls import CameraControls
from .open_page import OpenPage
from .pose import aim_of, camera_of

MOST: Final = 500
"""Keyframes of a page."""
_SECONDS: Final = (1, 60, 10)
"""The shortest and the longest path, and what it takes at first."""
_TICK: Final = 0.05


class PathControls:
    """A folder of a page's panel."""

    def __init__(self, page: OpenPage, camera: CameraControls) -> None:
        self._page, self._camera = page, camera
        self._keyframes: tuple[Camera, ...] = ()
        self._lock, self._playing, self._stop = threading.Lock(), threading.Lock(), threading.Event()
        least, most, first = _SECONDS
        gui = page.client.gui
        with gui.add_folder("Path", expand_by_default=False):
            self._count = gui.add_markdown("")
            self._seconds = gui.add_slider("Seconds", least, most, 1, first, hint="of the whole path")
            for label, work in (
                ("Add keyframe", self._add),
                ("Remove last", self._remove),
                ("Play or stop", self._play),
                ("Save path", lambda: page.send(lambda look, pose: self._save(look.scene.offset))),
            ):
                page.when(gui.add_button(label).on_click, work)
        self._tell()

    def _add(self) -> None:
        look = self._page.look
        if look is None:
            return
        camera = camera_of(self._page.pose(), look.near)
        with self._lock:
            if len(self._keyframes) >= MOST:
                raise SceneError(f"at most {MOST} keyframes are required, found another; save the path first")
            self._keyframes += (camera,)
            self._tell()

    def _remove(self) -> None:
        with self._lock:
            self._keyframes = self._keyframes[:-1]
            self._tell()

    def _tell(self) -> None:
        count = len(self._keyframes)
        self._count.content = f"{count} keyframe{'s'[: count != 1]}"

    def _path(self) -> CameraPath:
        if not self._keyframes:
            raise SceneError("one keyframe or more is required, found none; add some where the camera is to pass")
        least, most, _ = _SECONDS
        return CameraPath(self._keyframes, seconds=float(min(most, max(least, self._seconds.value))))

    def _play(self) -> None:
        """Move the page's camera along the path, or stop that."""
        path = self._path()
        if not self._playing.acquire(blocking=False):
            self._stop.set()
            return
        try:
            self._stop.clear()
            seconds, start, place = path.seconds or 1.0, time.monotonic(), 0.0
            while place < 1 and (loaded := self._page.loaded) is not None:
                place = min((time.monotonic() - start) / seconds, 1.0)
                camera = camera_at(path, place * (len(path.keyframes) - 1))
                # With each camera's own up, as the path has it.
                self._camera.point(aim_of(camera, None, loaded.middle, self._page.pose()))
                if self._stop.wait(_TICK):
                    break
        finally:
            self._playing.release()

    def _save(self, offset: Offset) -> None:
        self._page.download("path.json", path_json(self._path(), offset).encode())
