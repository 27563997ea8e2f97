"""One open page: what it shows, its camera, the thread that draws for it, and what it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..scene.camera import Camera
from ..scene.names import one_line
from .clicks import Measure, point_seen
from .drawing import Look, Picture
from .pose import Pose, camera_of, resized
from .prominence import Prominence
from .render_thread import RenderThread
from .resolution import FULL, Detail, scaled_size
from .scene_choices import LoadedScene, SceneChoices

if TYPE_CHECKING:
    import viser

BUSY: Final = "a file is already being made, or a click looked at; wait until that is done"
"""What the page says, once, if it asks for another meanwhile."""
_QUALITY: Final = {"moving": 80, "resting": 95}


@dataclass(frozen=True)
class UploadOptions:
    """What pages may upload."""

    most: int
    """Bytes of a file."""
    read: Callable[[Path], LoadedScene]
    """Reads a file as the other scenes are read; it may be damaged or hostile."""
    memory: Callable[[], int | None] = lambda: None
    """How many bytes there are for what is on its way, if that is known."""


@dataclass(frozen=True)
class ViewerOptions:
    """What all pages of a viewer share."""

    choices: SceneChoices
    draw: Callable[[Look, Camera], Picture]
    background: tuple[float, float, float]
    degree: int
    """The highest degree of spherical harmonics to start with."""
    measure: Measure = point_seen
    photograph: Callable[[str], Picture | None] | None = None
    """Reads a photograph by its name in the list of cameras, small; None if no folder of them was given."""
    upload: UploadOptions | None = None
    """None: no page may upload a scene."""
    turn: Callable[[], AbstractContextManager[object]] = nullcontext
    """What each picture is drawn within."""
    panel: Callable[[viser.GuiApi], None] = lambda gui: None
    """Adds controls that all pages share, above their own."""


@dataclass(frozen=True)
class PageRequest:
    """One picture for a page."""

    look: Look
    pose: Pose
    prominence: Prominence
    """Of the look's scene."""


class OpenPage:
    """What a page shows is one immutable value, replaced as a whole, so a picture in progress is not disturbed."""

    def __init__(self, client: viser.ClientHandle, options: ViewerOptions, loaded: LoadedScene, look: Look) -> None:
        """Nothing is drawn before `ask`, and `add_status` must have been called by then."""
        self.client, self.options = client, options
        self._lock = threading.Lock()
        self._complaint, self._said_busy = "", False
        self._loaded: LoadedScene | None = loaded
        self._look: Look | None = look
        self._cropped: Prominence | None = None
        self._thread: RenderThread[PageRequest] = RenderThread(
            f"splat-view-{client.client_id}", self._paint, self._failed
        )

    @property
    def look(self) -> Look | None:
        """What is drawn; None once the page is closed."""
        return self._look

    @property
    def loaded(self) -> LoadedScene | None:
        """The scene that was chosen, as a whole; None once the page is closed."""
        return self._loaded

    def close(self) -> None:
        """Forget the page: its thread ends, and its scene is freed unless another page shows it."""
        self._thread.close()
        with self._lock:
            self._look = self._loaded = self._cropped = None

    def ended(self, seconds: float = 0.0) -> bool:
        """Wait up to `seconds` until nothing is drawn for a closed page any more; return whether that is so."""
        return self._thread.ended(seconds)

    def add_status(self) -> None:
        """Add the line that says what was drawn last, below the controls that are there."""
        self._status = self.client.gui.add_markdown("")

    def when(self, register: Callable[[Callable[[object], None]], object], work: Callable[[], None]) -> None:
        """Run `work` when the page triggers it; an error, such as an unreadable scene, is shown on the page."""
        register(lambda _: self.attempt(work))

    def attempt(self, work: Callable[[], None]) -> None:
        """Do the work; an error is shown on the page."""
        try:
            work()
        except Exception as error:
            self.say(error)

    def take_turns(self, lock: threading.Lock, is_due: Callable[[], bool], work: Callable[[], None]) -> None:
        """Do the work while it is due, one at a time, on one of the threads that all pages share.

        Who holds the lock does what comes due meanwhile, too. An error is shown on the page.
        """
        while is_due() and lock.acquire(blocking=False):
            try:
                self.attempt(work)
            finally:
                lock.release()

    def change(self, changed: Callable[[Look], Look]) -> None:
        """Draw something else from now on: what `changed` makes of what is drawn; not if the page is closed."""
        with self._lock:
            if self._look is not None:
                self._look = changed(self._look)
        self.ask()

    def pose(self) -> Pose:
        """Where the page's camera is."""
        camera = self.client.camera
        return Pose(
            tuple(camera.wxyz.ravel().tolist()),
            tuple(camera.position.ravel().tolist()),
            camera.fov,
            camera.image_width,
            camera.image_height,
        )

    def ask(self) -> None:
        """Draw what the page's camera sees now."""
        with self._lock:
            if self._look is not None and self._loaded is not None:
                self._thread.ask(PageRequest(self._look, self.pose(), self._prominence_of(self._look, self._loaded)))

    def _prominence_of(self, look: Look, loaded: LoadedScene) -> Prominence:
        """What of the scene is drawn in motion; a crop of it has an order of its own."""
        if look.scene is loaded.scene:
            self._cropped = None
            return loaded.prominence
        if self._cropped is None or self._cropped.scene is not look.scene:
            self._cropped = Prominence(look.scene, loaded.middle)
        return self._cropped

    def _paint(self, request: PageRequest, detail: Detail) -> float:
        """Draw in some detail and show it; called in the render thread. Returns how many seconds that took."""
        camera = camera_of(request.pose, request.look.near)
        scene = request.prominence.first(detail.share)
        with self.options.turn():
            start = time.perf_counter()
            picture = self.options.draw(replace(request.look, scene=scene), resized(camera, detail.scale))
        if self._thread.closed:
            return time.perf_counter() - start
        quality = _QUALITY["resting" if detail == FULL else "moving"]
        self.client.scene.set_background_image(picture, format="jpeg", jpeg_quality=quality)
        self.client.flush()
        width, height = scaled_size(camera.width, camera.height, detail.scale)
        seconds = time.perf_counter() - start
        some = "" if detail.share == 1 else f"{len(scene)} of {len(request.look.scene)} Gaussians, "
        self._status.content = f"{width}x{height} of {camera.width}x{camera.height}, {some}{1e3 * seconds:.0f} ms"
        self._complaint = ""
        return seconds

    def send(self, errand: Callable[[Look, Pose], None]) -> None:
        """Have the render thread do it, one at a time for a page, since it may take long and need much memory."""
        look, pose = self._look, self.pose()
        if look is None:
            return
        with self._lock:
            if not self._is_sending() and self._thread.send(lambda: errand(look, pose)):
                self._complaint, self._said_busy = "", False
            elif not self._said_busy:
                self._said_busy = True
                self.tell(BUSY)

    def _is_sending(self) -> bool:
        """Whether much of a file is still on its way: a page that reads none must not make the server keep many.

        viser keeps what it is sending, at most 128 MB, elsewhere.
        """
        from viser import _messages

        buffer = self.client._websock_connection.get_message_buffer()
        with buffer.buffer_lock:
            return any(isinstance(message, _messages.FileTransferPart) for message in buffer.message_from_id.values())

    def download(self, name: str, content: bytes) -> None:
        """Give the page's browser a file to save."""
        if not self._thread.closed:
            self.client.send_file_download(name, content, save_immediately=True)

    def _failed(self, error: Exception) -> None:
        """Say why pictures fail, once rather than for every picture."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            self.say(error)

    def tell(self, text: str) -> None:
        """Show a notice on the page."""
        self._notify(text)

    def say(self, error: Exception) -> None:
        """Show an error on the page."""
        self._notify(str(error) or type(error).__name__, color="red")

    def _notify(self, text: str, **options: Any) -> None:
        # Names in it need not be UTF-8, and viser would end the page's connection.
        if not self._thread.closed:
            self.client.add_notification("splat", "\n".join(map(one_line, text.splitlines())), **options)
