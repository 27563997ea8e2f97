"""One open page: its controls, its camera, and the painter that draws for it."""

from __future__ import annotations

import io
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from PIL import Image

from ..scene.camera import Camera
from ..scene.camera_file import camera_json
from .choices import Choices, Exhibit
from .drawing import MODES, Look, Picture
from .painter import Painter
from .pose import Aim, Pose, aim_of, camera_of, resized
from .resolution import FULL, Detail, scaled_size

if TYPE_CHECKING:
    import viser

BUSY: Final = "a picture is already being saved; wait until it has been downloaded"
"""What the page says, once, if the button is clicked again meanwhile."""
_QUALITY: Final = {"moving": 80, "resting": 95}


@dataclass(frozen=True)
class ViewTerms:
    """What all pages of a viewer share."""

    choices: Choices
    draw: Callable[[Look, Camera], Picture]
    background: tuple[float, float, float]
    degree: int
    """The highest degree of spherical harmonics to start with."""


@dataclass(frozen=True)
class PageRequest:
    """One picture for a page."""

    look: Look
    pose: Pose
    exhibit: Exhibit
    """Of the look's scene."""


class Session:
    """A page. What it shows is one immutable value, replaced as a whole, so a picture in progress is not disturbed."""

    def __init__(self, client: viser.ClientHandle, terms: ViewTerms, exhibit: Exhibit, name: str) -> None:
        """Add the controls to the page, and draw what its camera sees of `exhibit`, the scene called `name`."""
        self._client, self._terms = client, terms
        self._lock = threading.Lock()
        self._complaint, self._told = "", False
        self._name = name
        self._exhibit: Exhibit | None = exhibit
        degree = min(terms.degree, exhibit.scene.degree)
        look = Look(exhibit.scene, MODES[0], degree, terms.background, exhibit.view.camera.near)
        self._look: Look | None = look
        self._painter: Painter[PageRequest] = Painter(f"splat-view-{client.client_id}", self._paint, self._failed)
        self._add_controls(look, self._aim_of(exhibit).fov)
        self._limit_zoom(exhibit)
        client.camera.on_update(self._camera_moved)
        self._ask()

    def close(self) -> None:
        """Forget the page: its thread ends, and its scene is freed unless another page shows it."""
        self._painter.close()
        with self._lock:
            self._look = self._exhibit = None

    def ended(self, seconds: float = 0.0) -> bool:
        """Wait up to `seconds` until nothing is drawn for a closed page any more; return whether that is so."""
        return self._painter.ended(seconds)

    def _add_controls(self, look: Look, fov: float) -> None:
        gui = self._client.gui
        self._scene = gui.add_dropdown("Scene", self._terms.choices.names, initial_value=self._name)
        self._mode = gui.add_dropdown("Show", MODES, initial_value=look.mode)
        self._degree = gui.add_slider("SH degree", 0, 4, 1, look.degree, hint="of what the scene has")
        self._fov = gui.add_slider("Field of view", 5, 150, 1, _slider_degrees(fov), hint="degrees, vertical")
        self._background = gui.add_rgb("Background", _bytes(look.background))
        for label, work in (
            ("Whole scene", self._show_all),
            ("Save picture", self._save_picture),
            ("Save camera", self._save_camera),
        ):
            self._when(gui.add_button(label).on_click, work)
        self._status = gui.add_markdown("")
        self._when(self._scene.on_update, self._swap)
        self._when(self._fov.on_update, self._zoom)
        for handle in (self._mode, self._degree, self._background):
            self._when(handle.on_update, self._change)

    def _when(self, register: Callable[[Callable[[object], None]], object], work: Callable[[], None]) -> None:
        """Run `work` when the page triggers it; an error, such as an unreadable scene, is shown on the page."""

        def happened(_: object) -> None:
            try:
                work()
            except Exception as error:
                self._say(error)

        register(happened)

    async def _camera_moved(self, camera: viser.CameraHandle) -> None:
        # In the event loop, where no other message can change the camera between two of its values.
        self._ask()

    def _change(self) -> None:
        mode = self._mode.value if self._mode.value in MODES else MODES[0]
        red, green, blue = (min(255, max(0, int(value))) / 255 for value in self._background.value)
        with self._lock:
            if self._look is not None:
                degree = min(max(0, int(self._degree.value)), self._look.scene.degree)
                self._look = replace(self._look, mode=mode, degree=degree, background=(red, green, blue))
        self._ask()

    def _zoom(self) -> None:
        degrees = min(150, max(5, float(self._fov.value)))
        if degrees != _slider_degrees(
            self._client.camera.fov
        ):  # the camera's angle may lie between two values of the slider
            self._client.camera.fov = math.radians(degrees)
            self._ask()

    def _swap(self) -> None:
        """Read the chosen scene and show it; the previous one stays until then, and if reading fails."""
        name = self._scene.value
        if name == self._name:
            return
        try:
            self._open(name)
        except Exception:
            if not self._painter.closed:
                _set(self._scene, self._name)
            raise

    def _open(self, name: str) -> None:
        exhibit = self._terms.choices.get(name)
        with self._lock:
            if self._look is None or self._scene.value != name:  # the page was closed, or another scene was chosen
                return
            self._name, self._exhibit = name, exhibit
            degree = min(max(0, int(self._degree.value)), exhibit.scene.degree)
            self._look = replace(self._look, scene=exhibit.scene, near=exhibit.view.camera.near, degree=degree)
        self._show_all()
        self._ask()

    def _show_all(self) -> None:
        """Point the page's camera at the scene as it was first seen."""
        exhibit = self._exhibit
        if exhibit is not None:
            self._limit_zoom(exhibit)
            aim = self._aim_of(exhibit)
            point(self._client.camera, self._client.atomic, aim)
            _set(self._fov, _slider_degrees(aim.fov))

    def _aim_of(self, exhibit: Exhibit) -> Aim:
        return aim_of(*exhibit.view, exhibit.middle)

    def _limit_zoom(self, exhibit: Exhibit) -> None:
        """Limit how close and how far the page can zoom, to what makes sense for the scene's size."""
        aim = self._aim_of(exhibit)
        distance = math.dist(aim.position, aim.look_at)
        self._client.camera.min_orbit_distance = distance / 1000
        self._client.camera.max_orbit_distance = distance * 1000

    def _pose(self) -> Pose:
        camera = self._client.camera
        return Pose(
            tuple(camera.wxyz.ravel().tolist()),
            tuple(camera.position.ravel().tolist()),
            camera.fov,
            camera.image_width,
            camera.image_height,
        )

    def _ask(self) -> None:
        with self._lock:
            if self._look is not None and self._exhibit is not None:
                self._painter.ask(PageRequest(self._look, self._pose(), self._exhibit))

    def _paint(self, request: PageRequest, detail: Detail) -> float:
        """Draw in some detail and show it; called in the painter's thread. Returns how many seconds that took."""
        camera = camera_of(request.pose, request.look.near)
        scene = request.exhibit.prominence.first(detail.share)
        start = time.perf_counter()
        picture = self._terms.draw(replace(request.look, scene=scene), resized(camera, detail.scale))
        if self._painter.closed:
            return time.perf_counter() - start
        quality = _QUALITY["resting" if detail == FULL else "moving"]
        self._client.scene.set_background_image(picture, format="jpeg", jpeg_quality=quality)
        self._client.flush()
        width, height = scaled_size(camera.width, camera.height, detail.scale)
        seconds = time.perf_counter() - start
        some = "" if detail.share == 1 else f"{len(scene)} of {len(request.look.scene)} Gaussians, "
        self._status.content = f"{width}x{height} of {camera.width}x{camera.height}, {some}{1e3 * seconds:.0f} ms"
        self._complaint = ""
        return seconds

    def _save_picture(self) -> None:
        """Have the painter do it, one picture at a time, since one may take long and need much memory."""
        look, pose = self._look, self._pose()
        if look is None:
            return
        with self._lock:
            if self._painter.send(partial(self._send_picture, look, pose)):
                self._complaint, self._told = "", False
            elif not self._told:
                self._told = True
                self._client.add_notification("splat", BUSY)

    def _send_picture(self, look: Look, pose: Pose) -> None:
        """Called in the painter's thread."""
        file = io.BytesIO()
        Image.fromarray(self._terms.draw(look, camera_of(pose, look.near))).save(file, format="PNG")
        if not self._painter.closed:
            self._client.send_file_download("splat.png", file.getvalue(), save_immediately=True)

    def _save_camera(self) -> None:
        look = self._look
        if look is None:
            return
        text = camera_json(camera_of(self._pose(), look.near))
        self._client.send_file_download("camera.json", text.encode(), save_immediately=True)

    def _failed(self, error: Exception) -> None:
        """Say why pictures fail, once rather than for every picture."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            self._say(error)

    def _say(self, error: Exception) -> None:
        if not self._painter.closed:
            self._client.add_notification("splat", str(error) or type(error).__name__, color="red")


def point(camera: viser.CameraHandle | viser.InitialCameraConfig, atomic: Callable[[], Any], aim: Aim) -> None:
    """Point the camera of a page, or of all pages opened from now on, at `aim`."""
    with atomic():
        camera.position = _triple(aim.position)
        camera.look_at = _triple(aim.look_at)
        if hasattr(camera, "up_direction"):
            camera.up_direction = _triple(aim.up)
        camera.fov = aim.fov


def _slider_degrees(fov: float) -> int:
    return min(150, max(5, round(math.degrees(fov))))


def _set(handle: Any, value: object) -> None:
    # Typed as read-only, because mypy has no setters of another type than the getter's.
    handle.value = value


def _triple(values: tuple[float, ...]) -> tuple[float, float, float]:
    x, y, z = values
    return x, y, z


def _bytes(color: tuple[float, float, float]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * value) for value in color)
    return red, green, blue
