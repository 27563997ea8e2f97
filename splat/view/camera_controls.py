"""The page's controls of its camera: the field of view, what is up, the whole scene again, and saving it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..scene.camera import UP
from ..scene.camera_file import camera_json
from .open_page import OpenPage
from .pose import Aim, Numbers, Pose, aim_of, camera_of
from .scene_choices import LoadedScene

if TYPE_CHECKING:
    import viser

AS_OPENED: Final = "as opened"
UPSIDE_DOWN: Final = "upside down"
THIS_PICTURE: Final = "this picture's"
"""The direction that is up in the picture at the time of the choice."""
UPS: Final = (AS_OPENED, UPSIDE_DOWN, *UP, THIS_PICTURE)
"""What a page may choose to be up."""
_DEEP: Final = 1e7
"""How many times as far as its near plane a page's own far plane is."""


class CameraControls:
    """A folder of a page's panel."""

    def __init__(self, page: OpenPage, loaded: LoadedScene) -> None:
        self._page, self._camera = page, page.client.camera
        gui = page.client.gui
        with gui.add_folder("Camera", expand_by_default=False):
            first = first_aim(loaded, page.pose())
            self._fov = gui.add_slider("Field of view", 5, 150, 1, slider_degrees(first.fov), hint="degrees, vertical")
            self._up = gui.add_dropdown("Up", UPS, hint="what stays upright while you orbit")
            page.when(gui.add_button("Whole scene").on_click, self.show_all)
            page.when(gui.add_button("Save camera").on_click, self._save)
        self._up_was = self._up.value
        self._limit_zoom(first)
        if first.fov != first_aim(loaded).fov:  # all pages begin with that, whatever their shape
            self._camera.fov = first.fov
        page.when(self._fov.on_update, self._zoom)
        page.when(self._up.on_update, self._turn)

    def show_all(self) -> None:
        """Point the page's camera at the scene as it was first seen."""
        loaded = self._page.loaded
        if loaded is not None:
            aim = first_aim(loaded, self._page.pose())
            self._limit_zoom(aim)
            self.point(aim, AS_OPENED)

    def point(self, aim: Aim, up: str = THIS_PICTURE) -> None:
        """Point the page's camera at `aim`; `up`, one of `UPS`, is what the page then says is up."""
        point(self._camera, self._page.client.atomic, aim)
        self._up_was = up
        set_value(self._up, up)
        set_value(self._fov, slider_degrees(aim.fov))

    def _zoom(self) -> None:
        degrees = min(150, max(5, float(self._fov.value)))
        if degrees != slider_degrees(self._camera.fov):  # the camera's angle may lie between two values of the slider
            self._camera.fov = math.radians(degrees)
            self._page.ask()

    def _turn(self) -> None:
        """Turn the picture so that what was chosen is up; the camera stays where it is."""
        name, loaded = self._up.value, self._page.loaded
        if name == self._up_was or name not in UPS or loaded is None:
            return
        self._up_was = name
        self._camera.up_direction = _triple(self._direction(name, loaded))
        self._page.ask()

    def _direction(self, name: str, loaded: LoadedScene) -> Numbers:
        """x, y, z of what a choice says is up."""
        if name == THIS_PICTURE:
            camera = camera_of(self._page.pose(), loaded.view.camera.near)
            return tuple((-camera.viewmat[1, :3]).tolist())
        opened = first_aim(loaded).up
        return {AS_OPENED: opened, UPSIDE_DOWN: tuple(-number for number in opened), **UP}[name]

    def _limit_zoom(self, aim: Aim) -> None:
        """Limit how close and how far the page can zoom, to what makes sense for the scene's size."""
        distance = math.dist(aim.position, aim.look_at)
        limits = [("max_orbit_distance", distance * 1000), ("min_orbit_distance", distance / 1000)]
        if distance * 1000 < self._camera.min_orbit_distance:
            limits.reverse()  # viser takes no maximum below the minimum, between the two neither
        for name, limit in limits:
            setattr(self._camera, name, limit)

    def _save(self) -> None:
        look = self._page.look
        if look is not None:
            camera = camera_of(self._page.pose(), look.near)
            self._page.download("camera.json", camera_json(camera, look.scene.offset).encode())


def first_aim(loaded: LoadedScene, page: Pose | None = None) -> Aim:
    """How a page's camera is set to show a scene as it is first seen."""
    return aim_of(*loaded.view, loaded.middle, page)


def point(camera: viser.CameraHandle | viser.InitialCameraConfig, atomic: Callable[[], Any], aim: Aim) -> None:
    """Point the camera of a page, or of all pages opened from now on, at `aim`."""
    with atomic():
        camera.position = _triple(aim.position)
        camera.look_at = _triple(aim.look_at)
        if hasattr(camera, "up_direction"):
            camera.up_direction = _triple(aim.up)
        camera.fov = aim.fov
        camera.near, camera.far = aim.near, _DEEP * aim.near


def slider_degrees(fov: float) -> int:
    """The value of the slider that is nearest to an angle in radians."""
    return min(150, max(5, round(math.degrees(fov))))


def set_value(handle: Any, value: object) -> None:
    """Set a control's value, which its page is told, too."""
    # Typed as read-only, because mypy has no setters of another type than the getter's.
    handle.value = value


def _triple(values: Numbers) -> tuple[float, float, float]:
    x, y, z = values
    return x, y, z
