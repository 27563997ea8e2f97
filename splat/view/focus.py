"""A double-click on the picture makes the page's camera look at what was clicked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .clicks import Click, is_double
from .drawing import Look
from .open_page import OpenPage
from .photo_controls import PhotoControls
from .pose import Pose, camera_of

if TYPE_CHECKING:
    import viser


class Focus:
    """A double-click on the picture makes the page's camera look at what was clicked, and orbit around it.

    A click on a frustum is the photographs' (`photo_controls.py`).
    """

    def __init__(self, page: OpenPage, photos: PhotoControls) -> None:
        self._page, self._photos = page, photos
        self._last: Click | None = None
        page.client.scene.on_click()(self._clicked)  # type: ignore[arg-type]

    async def _clicked(self, event: viser.SceneClickEvent) -> None:
        # In the event loop, so that clicks stay in order.
        click = Click(*event.screen_pos)
        try:
            if self._photos.click(click):
                self._last = None
                return
        except Exception as error:  # a page's camera may be none
            self._page.say(error)
            return
        double = is_double(self._last, click)
        self._last = None if double else click
        if double:
            self._page.send(lambda look, pose: self._look_at(look, pose, click))

    def _look_at(self, look: Look, pose: Pose, click: Click) -> None:
        """Called in the render thread."""
        point = self._page.options.measure(look, camera_of(pose, look.near), click)
        if point is not None and self._page.look is not None:
            self._page.client.camera.look_at = point
