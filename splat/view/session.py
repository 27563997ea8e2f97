"""One open page: what it shows, the folders of its controls, and the painter that draws for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ..scene.camera import Camera
from .camera_controls import CameraControls, set_value
from .choices import Choices, Exhibit
from .crop_controls import CropControls
from .drawing import MODES, Look, Picture
from .focus import Focus, Measure, point_seen
from .painter import Painter
from .path_controls import PathControls
from .photo_controls import PhotoControls
from .picture_controls import PictureControls
from .pose import Pose, camera_of, resized
from .prominence import Prominence
from .resolution import FULL, Detail, scaled_size
from .upload_controls import UploadControls, UploadTerms

if TYPE_CHECKING:
    import viser

BUSY: Final = "a file is already being made, or a click looked at; wait until that is done"
"""What the page says, once, if it asks for another meanwhile."""
NARROW: Final = 900
"""Pages of fewer pixels across begin with a panel that is folded: it is 320 wide."""
_QUALITY: Final = {"moving": 80, "resting": 95}


@dataclass(frozen=True)
class ViewTerms:
    """What all pages of a viewer share."""

    choices: Choices
    draw: Callable[[Look, Camera], Picture]
    background: tuple[float, float, float]
    degree: int
    """The highest degree of spherical harmonics to start with."""
    measure: Measure = point_seen
    photograph: Callable[[str], Picture | None] | None = None
    """Reads a photograph by its name in the list of cameras, small; None if no folder of them was given."""
    upload: UploadTerms | None = None
    """None: no page may upload a scene."""


@dataclass(frozen=True)
class PageRequest:
    """One picture for a page."""

    look: Look
    pose: Pose
    prominence: Prominence
    """Of the look's scene."""


class Session:
    """A page. What it shows is one immutable value, replaced as a whole, so a picture in progress is not disturbed."""

    def __init__(self, client: viser.ClientHandle, terms: ViewTerms, exhibit: Exhibit, name: str) -> None:
        """Add the controls to the page, and draw what its camera sees of `exhibit`, the scene called `name`."""
        self.client, self.terms = client, terms
        self._lock = threading.Lock()
        self._complaint, self._told = "", False
        self._name = name
        self._exhibit: Exhibit | None = exhibit
        self._uploaded: tuple[str, Exhibit] | None = None
        self._cropped: Prominence | None = None
        degree = min(terms.degree, exhibit.scene.degree)
        look = Look(exhibit.scene, MODES[0], degree, terms.background, exhibit.view.camera.near)
        self._look: Look | None = look
        self._painter: Painter[PageRequest] = Painter(f"splat-view-{client.client_id}", self._paint, self._failed)
        self._add_controls(look, exhibit)
        Focus(self)
        client.camera.on_update(self._camera_moved)
        self.ask()

    @property
    def look(self) -> Look | None:
        """What is drawn; None once the page is closed."""
        return self._look

    @property
    def exhibit(self) -> Exhibit | None:
        """The scene that was chosen, as a whole; None once the page is closed."""
        return self._exhibit

    def close(self) -> None:
        """Forget the page: its thread ends, and its scene is freed unless another page shows it."""
        self._painter.close()
        with self._lock:
            self._look = self._exhibit = self._uploaded = self._cropped = None

    def ended(self, seconds: float = 0.0) -> bool:
        """Wait up to `seconds` until nothing is drawn for a closed page any more; return whether that is so."""
        return self._painter.ended(seconds)

    def _add_controls(self, look: Look, exhibit: Exhibit) -> None:
        gui, camera = self.client.gui, self.client.camera
        if camera.image_width < NARROW:
            gui.main_panel.minimize()
        upright = camera.image_height > camera.image_width  # a phone, whose panel the server cannot fold
        with gui.add_folder("Controls", expand_by_default=False) if upright else nullcontext():
            self._add_groups(look, exhibit)
        self._status = gui.add_markdown("")

    def _add_groups(self, look: Look, exhibit: Exhibit) -> None:
        gui = self.client.gui
        self._scene = gui.add_dropdown("Scene", self.terms.choices.names, initial_value=self._name)
        self._mode = gui.add_dropdown("Show", MODES, initial_value=look.mode)
        self.camera = CameraControls(self, exhibit)
        self._picture = PictureControls(self, look)
        self.photos = PhotoControls(self, exhibit)
        self._crop = CropControls(self, exhibit)
        self._path = PathControls(self)
        self._upload = None if self.terms.upload is None else UploadControls(self, self.terms.upload)
        self.when(self._scene.on_update, self._swap)
        self.when(self._mode.on_update, self._change_mode)

    def when(self, register: Callable[[Callable[[object], None]], object], work: Callable[[], None]) -> None:
        """Run `work` when the page triggers it; an error, such as an unreadable scene, is shown on the page."""

        def happened(_: object) -> None:
            try:
                work()
            except Exception as error:
                self.say(error)

        register(happened)

    async def _camera_moved(self, camera: viser.CameraHandle) -> None:
        # In the event loop, where no other message can change the camera between two of its values.
        self.ask()

    def change(self, changed: Callable[[Look], Look]) -> None:
        """Draw something else from now on: what `changed` makes of what is drawn; not if the page is closed."""
        with self._lock:
            if self._look is not None:
                self._look = changed(self._look)
        self.ask()

    def _change_mode(self) -> None:
        mode = self._mode.value if self._mode.value in MODES else MODES[0]
        self.change(lambda look: replace(look, mode=mode))

    def _swap(self) -> None:
        """Read the chosen scene and show it; the previous one stays until then, and if reading fails."""
        name = self._scene.value
        if name == self._name:
            return
        try:
            self._open(name)
        except Exception:
            if not self._painter.closed:
                set_value(self._scene, self._name)
            raise

    def show_uploaded(self, name: str, exhibit: Exhibit) -> None:
        """Offer an uploaded scene on this page, instead of the one before, and show it."""
        with self._lock:
            if self._look is None:
                return
            self._uploaded = (name, exhibit)
        if self._name == name:  # the one before had the same name, and is shown
            self._open(name)
        else:
            self._scene.options = (*dict.fromkeys([*self.terms.choices.names, self._name, name]),)
            set_value(self._scene, name)

    def _open(self, name: str) -> None:
        uploaded = self._uploaded
        exhibit = uploaded[1] if uploaded and uploaded[0] == name else self.terms.choices.get(name)
        with self._lock:
            if self._look is None or self._scene.value != name:  # the page was closed, or another scene was chosen
                return
            self._name, self._exhibit = name, exhibit
            degree = self._picture.degree_for(exhibit.scene.degree)
            self._look = replace(self._look, scene=exhibit.scene, near=exhibit.view.camera.near, degree=degree)
        self.camera.show_all()
        self.photos.show(exhibit)
        self._crop.show(exhibit)
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
            if self._look is not None and self._exhibit is not None:
                self._painter.ask(PageRequest(self._look, self.pose(), self._prominence_of(self._look, self._exhibit)))

    def _prominence_of(self, look: Look, exhibit: Exhibit) -> Prominence:
        """What of the scene is drawn in motion; a crop of it has an order of its own."""
        if look.scene is exhibit.scene:
            self._cropped = None
            return exhibit.prominence
        if self._cropped is None or self._cropped.scene is not look.scene:
            self._cropped = Prominence(look.scene, exhibit.middle)
        return self._cropped

    def _paint(self, request: PageRequest, detail: Detail) -> float:
        """Draw in some detail and show it; called in the painter's thread. Returns how many seconds that took."""
        camera = camera_of(request.pose, request.look.near)
        scene = request.prominence.first(detail.share)
        start = time.perf_counter()
        picture = self.terms.draw(replace(request.look, scene=scene), resized(camera, detail.scale))
        if self._painter.closed:
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
        """Have the painter do it, one at a time for a page, since it may take long and need much memory."""
        look, pose = self._look, self.pose()
        if look is None:
            return
        with self._lock:
            if not self._is_sending() and self._painter.send(lambda: errand(look, pose)):
                self._complaint, self._told = "", False
            elif not self._told:
                self._told = True
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
        if not self._painter.closed:
            self.client.send_file_download(name, content, save_immediately=True)

    def _failed(self, error: Exception) -> None:
        """Say why pictures fail, once rather than for every picture."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            self.say(error)

    def tell(self, text: str) -> None:
        """Show a notice on the page."""
        if not self._painter.closed:
            self.client.add_notification("splat", text)

    def say(self, error: Exception) -> None:
        """Show an error on the page."""
        if not self._painter.closed:
            self.client.add_notification("splat", str(error) or type(error).__name__, color="red")
