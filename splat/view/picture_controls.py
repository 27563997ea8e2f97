"""The page's controls of the picture: spherical harmonics, the background, and saving it."""

from __future__ import annotations

import io
from dataclasses import replace

from PIL import Image

from .drawing import Look
from .open_page import OpenPage
from .pose import Pose, camera_of


class PictureControls:
    """A folder of a page's panel."""

    def __init__(self, page: OpenPage, look: Look) -> None:
        self._page = page
        gui = page.client.gui
        with gui.add_folder("Picture", expand_by_default=False):
            # Not the first scene's, which may have less than those that are chosen after it.
            self._degree = gui.add_slider("SH degree", 0, 4, 1, page.options.degree, hint="of what the scene has")
            self._background = gui.add_rgb("Background", _bytes(look.background))
            page.when(gui.add_button("Save picture").on_click, lambda: page.send(self._save))
        for handle in (self._degree, self._background):
            page.when(handle.on_update, self._change)

    def degree_for(self, most: int) -> int:
        """The chosen degree of spherical harmonics, for a scene that has them up to `most`."""
        return min(max(0, int(self._degree.value)), most)

    def _change(self) -> None:
        red, green, blue = (min(255, max(0, int(value))) / 255 for value in self._background.value)
        self._page.change(
            lambda look: replace(look, degree=self.degree_for(look.scene.degree), background=(red, green, blue))
        )

    def _save(self, look: Look, pose: Pose) -> None:
        """Called in the render thread."""
        file = io.BytesIO()
        Image.fromarray(self._page.options.draw(look, camera_of(pose, look.near))).save(file, format="PNG")
        self._page.download("splat.png", file.getvalue())


def _bytes(color: tuple[float, float, float]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * value) for value in color)
    return red, green, blue
