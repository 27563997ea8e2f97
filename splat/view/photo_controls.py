"""The page's controls of the cameras that the scene was fitted to: their frusta, going to one, and its photograph."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np

from ..scene.gaussians import SceneError
from ..scene.names import quoted
from .camera_controls import CameraControls, set_value
from .clicks import Click
from .frusta import clicked_frustum, frustum_corners, frustum_lines, shown_pictures
from .open_page import OpenPage
from .pose import aim_of, camera_of
from .scene_choices import LoadedScene

NONE: Final = "none"
_NODE: Final = "/cameras"
_COLOR: Final = (255, 160, 40)
_PIXELS: Final = 2.0


class PhotoControls:
    """A folder of a page's panel, which is there if the scene has such cameras."""

    def __init__(self, page: OpenPage, camera: CameraControls, loaded: LoadedScene) -> None:
        self._page, self._camera = page, camera
        self._reading, self._shown = threading.Lock(), NONE
        gui = page.client.gui
        self._folder = gui.add_folder("Photographs", expand_by_default=False)
        with self._folder:
            self._drawn = gui.add_checkbox("Cameras", initial_value=False, hint="draw them; click on one to go there")
            self._chosen = gui.add_dropdown("Go to", (NONE,))
            self._note = gui.add_markdown("", visible=False)
            self._photograph = gui.add_image(np.zeros((1, 1, 3), np.uint8), visible=False)
        self.show(loaded)
        page.when(self._drawn.on_update, self._draw)
        page.when(self._chosen.on_update, self._go)

    def show(self, loaded: LoadedScene) -> None:
        """Offer the cameras of another scene."""
        taken = shown_pictures(loaded.taken)
        self._folder.visible = bool(taken)
        self._by_name = {f"{number + 1}: {quoted(picture.name)}": picture for number, picture in enumerate(taken)}
        self._corners = frustum_corners([picture.camera for picture in taken], loaded.middle) if taken else None
        few = f"{len(taken)} of {len(loaded.taken)} cameras, evenly chosen" if len(taken) < len(loaded.taken) else ""
        self._note.content, self._note.visible = few, bool(few)
        self._chosen.options = (NONE, *self._by_name)
        self._photograph.visible, self._shown = False, NONE
        self._draw()

    def click(self, click: Click) -> bool:
        """Go to the camera that was clicked; whether there was one, and they are drawn."""
        loaded, corners = self._page.loaded, self._corners
        if not self._drawn.value or loaded is None or corners is None:
            return False
        camera = camera_of(self._page.pose(), loaded.view.camera.near)
        found = clicked_frustum(corners, camera, click.across, click.down)
        if found is None:
            return False
        set_value(self._chosen, list(self._by_name)[found])
        return True

    def _draw(self) -> None:
        scene = self._page.client.scene
        if self._drawn.value and self._corners is not None:
            lines = frustum_lines(self._corners)
            scene.add_line_segments(_NODE, lines, _COLOR, thickness=_PIXELS, thickness_units="screen")
        else:
            scene.remove_by_name(_NODE)

    def _go(self) -> None:
        picture, loaded = self._by_name.get(self._chosen.value), self._page.loaded
        if loaded is None:
            return
        if picture is not None:
            # The camera's own up, so that what is drawn can be compared with the photograph.
            self._camera.point(aim_of(picture.camera, None, loaded.middle, self._page.pose()))
            self._page.ask()
        self._page.take_turns(self._reading, lambda: self._chosen.value != self._shown, self._show_chosen)

    def _show_chosen(self) -> None:
        name = self._chosen.value
        try:
            self._show(name)
        finally:
            self._shown = name  # not before: of a scene that is left meanwhile, it is due to be taken away

    def _show(self, name: str) -> None:
        """Read and show the photograph of a camera's name, or none."""
        self._photograph.visible = False
        picture = self._by_name.get(name)
        if picture is None or self._page.options.photograph is None:
            return
        photograph = self._page.options.photograph(picture.name)
        if photograph is None:
            raise SceneError(f"the photograph {picture.name!r} in the folder is required, found none")
        self._photograph.image = photograph
        self._photograph.visible = True
