"""The page's controls that edit a scene: crop, select, delete, undo, and save what is left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import torch

from ..scene.formats import WRITERS, losses_of, write_scene
from ..scene.gaussians import SceneError
from .camera_controls import set_value
from .crop_controls import CropControls
from .drawing import Look
from .edited_scene import EditedScene
from .open_page import OpenPage
from .pose import Pose, camera_of, part_of
from .scene_choices import LoadedScene

if TYPE_CHECKING:
    import viser

MOST_BYTES: Final = 2**29
"""Of a file that a page saves."""
_FORMATS: Final = (".ply", *(ending for ending in WRITERS if ending != ".ply"))
_AWAY: Final = "shift"
"""The key with which a box unselects."""
_NAME: Final = "edited"
"""Of the files that a page saves."""
_BUTTONS: Final = {
    "Delete": EditedScene.delete,
    "Unselect": EditedScene.unselect,
    "Undo": EditedScene.undo,
    "Restore all": EditedScene.restore,
}


class EditControls:
    """A folder of a page's panel."""

    def __init__(self, page: OpenPage, loaded: LoadedScene) -> None:
        self._page = page
        self._editing = threading.Lock()
        self._edited = EditedScene.of(loaded.scene)
        self._saved = self._edited.choice.deleted
        gui = page.client.gui
        with gui.add_folder("Edit", expand_by_default=False):
            self._crop = CropControls(page, loaded.scene, self._change_box)
            self._choosing = gui.add_folder(None)
            with self._choosing:
                hint = "boxes on the picture; with Shift, they unselect"
                self._dragging = gui.add_checkbox("Select by dragging", initial_value=False, hint=hint)
                self._words = gui.add_markdown("")
                for label, edit in _BUTTONS.items():
                    page.when(gui.add_button(label).on_click, partial(self._edit, edit))
            self._format = gui.add_dropdown("Format", _FORMATS)
            page.when(gui.add_button("Save scene").on_click, lambda: page.send(self._save))
        page.when(self._dragging.on_update, self._drag)

    def check_saved(self) -> None:
        """Raise SceneError if something was deleted since the scene was read or saved."""
        if not self._edited.choice.deleted.equal(self._saved):
            raise SceneError("a scene without unsaved edits is required to leave it; save it, or restore all of it")

    def show(self, loaded: LoadedScene) -> None:
        """Edit another scene."""
        self._crop.show(loaded.scene)  # which calls _change_box
        with self._editing:
            self._edited = EditedScene.of(loaded.scene)
            self._saved = self._edited.choice.deleted
            self._draw()

    def follow(self, loaded: LoadedScene) -> None:
        """Draw the same box of what became of the scene; what still changes cannot be selected."""
        self._choosing.visible = False
        set_value(self._dragging, False)
        with self._editing:
            self._edited = EditedScene.of(loaded.scene).within(self._edited.box)
            self._draw()

    def close(self) -> None:
        """Keep nothing of the scene: viser keeps the controls of a page that was closed."""
        with self._editing:
            self._edited = EditedScene.of(self._edited.whole.select(torch.zeros_like(self._saved)))

    def _change_box(self) -> None:
        with self._editing:  # one at a time: each makes a copy of what is left
            box = self._crop.box()
            self._crop.outline(box, self._edited.whole.offset)
            self._edited = self._edited.within(box and self._crop.limits(box))
            self._draw()

    def _edit(self, edit: Callable[[EditedScene], EditedScene]) -> None:
        with self._editing:
            self._edited = edit(self._edited)
            self._draw()

    def _drag(self) -> None:
        """Let the left button select, instead of orbit, or no longer."""
        scene = self._page.client.scene
        scene.remove_rect_select_callback()
        if self._dragging.value:
            for key in (None, _AWAY):
                scene.on_rect_select(modifier=key)(self._dragged)
        self._say_counts()

    def _dragged(self, event: viser.SceneRectSelectEvent) -> None:
        self._page.attempt(lambda: self._choose(event))

    def _choose(self, event: viser.SceneRectSelectEvent) -> None:
        look = self._page.look
        if look is not None:
            part = part_of(camera_of(self._page.pose(), look.near), event.screen_min, event.screen_max)
            self._edit(lambda edited: edited.select(part, adds=event.modifier != _AWAY))

    def _draw(self) -> None:
        """Draw what is left; whoever calls holds the lock."""
        edited, loaded = self._edited, self._page.loaded
        scene = edited.drawn()
        self._say_counts()
        if loaded is not None and loaded.scene is edited.whole:
            self._page.change(lambda look: replace(look, scene=scene))

    def _say_counts(self) -> None:
        choice = self._edited.choice
        selected, deleted = int(choice.selected.sum()), int(choice.deleted.sum())
        self._words.content = f"{selected} selected, {deleted} deleted of {len(choice.deleted)}"

    def _save(self, look: Look, pose: Pose) -> None:
        """Called in the render thread."""
        ending, edited = self._format.value, self._edited
        if ending not in WRITERS:
            raise SceneError("one of the formats on offer is required, found another")
        scene = edited.left()
        if not len(scene):
            raise SceneError("Gaussians are required to be left, found none; move the sides of the box, or undo")
        for loss in losses_of(ending, scene):
            self._page.tell(f"{_NAME}{ending}: {loss}")
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"{_NAME}{ending}"
            write_scene(path, scene.to("cpu"))
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise SceneError(
                    f"a file of at most {MOST_BYTES >> 20} MB is required, found {size >> 20} MB of {ending}; choose a "
                    "format that takes less, such as .spz, or a smaller box"
                )
            self._page.download(path.name, path.read_bytes())
        self._saved = edited.choice.deleted
