"""A page's session: the folders of its controls, and which scene it shows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .camera_controls import CameraControls, set_value
from .drawing import MODES, Look
from .edit_controls import EditControls
from .focus import Focus
from .open_page import OpenPage, ViewerOptions
from .path_controls import PathControls
from .photo_controls import PhotoControls
from .picture_controls import PictureControls
from .scene_choices import LoadedScene
from .upload_controls import UploadControls

if TYPE_CHECKING:
    import viser

NARROW: Final = 900
"""Pages of fewer pixels across begin with a panel that is folded: it is 320 wide."""


class Session(OpenPage):
    """A page with its controls."""

    def __init__(self, client: viser.ClientHandle, options: ViewerOptions, loaded: LoadedScene, name: str) -> None:
        """Add the controls to the page, and draw what its camera sees of `loaded`, the scene called `name`."""
        degree = min(options.degree, loaded.scene.degree)
        look = Look(loaded.scene, MODES[0], degree, options.background, loaded.view.camera.near)
        super().__init__(client, options, loaded, look)
        self._name = name
        self._uploaded: tuple[str, LoadedScene] | None = None
        self._add_controls(look, loaded)
        client.camera.on_update(self._camera_moved)
        self.ask()

    def close(self) -> None:
        """Forget the page: its thread ends, and its scenes are freed unless another page shows them."""
        super().close()
        self._edit.close()
        with self._lock:
            self._uploaded = None

    def _add_controls(self, look: Look, loaded: LoadedScene) -> None:
        gui, camera = self.client.gui, self.client.camera
        if camera.image_width < NARROW:
            gui.main_panel.minimize()
        upright = camera.image_height > camera.image_width  # a phone, whose panel the server cannot fold
        with gui.add_folder("Controls", expand_by_default=False) if upright else nullcontext():
            self._add_groups(look, loaded)
        self.add_status()

    def _add_groups(self, look: Look, loaded: LoadedScene) -> None:
        gui = self.client.gui
        self._scene = gui.add_dropdown("Scene", self.options.choices.names, initial_value=self._name)
        self._mode = gui.add_dropdown("Show", MODES, initial_value=look.mode)
        self.camera = CameraControls(self, loaded)
        self._picture = PictureControls(self, look)
        self.photos = PhotoControls(self, self.camera, loaded)
        self._edit = EditControls(self, loaded)
        self._path = PathControls(self, self.camera)
        upload = self.options.upload
        self._upload = None if upload is None else UploadControls(self, upload, self.show_uploaded)
        Focus(self, self.photos)
        self.when(self._scene.on_update, self._swap)
        self.when(self._mode.on_update, self._change_mode)

    async def _camera_moved(self, camera: viser.CameraHandle) -> None:
        # In the event loop, where no other message can change the camera between two of its values.
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
            self.open(name)
        except Exception:
            if not self._thread.closed:
                set_value(self._scene, self._name)
            raise

    def show_uploaded(self, name: str, loaded: LoadedScene) -> None:
        """Offer an uploaded scene on this page, instead of the one before, and show it."""
        with self._lock:
            if self._look is None:
                return
            self._uploaded = (name, loaded)
        if self._name == name:  # the one before had the same name, and is shown
            self.open(name)
        else:
            self._scene.options = (*dict.fromkeys([*self.options.choices.names, self._name, name]),)
            set_value(self._scene, name)

    def follow(self, name: str, loaded: LoadedScene) -> None:
        """Show what became of the scene called `name`, if the page shows that; the same box of it, if one is chosen."""
        with self._lock:
            if self._look is None or self._name != name:
                return
            self._loaded = loaded
        self.attempt(lambda: self._edit.follow(loaded))  # an error is the page's, and not of where the scene is made

    def open(self, name: str) -> None:
        """Show the chosen scene, which has this name, as its file is now."""
        self._edit.check_saved()
        uploaded = self._uploaded
        loaded = uploaded[1] if uploaded and uploaded[0] == name else self.options.choices.get(name)
        with self._lock:
            if self._look is None or self._scene.value != name:  # the page was closed, or another scene was chosen
                return
            self._name, self._loaded = name, loaded
            degree = self._picture.degree_for(loaded.scene.degree)
            self._look = replace(self._look, scene=loaded.scene, near=loaded.view.camera.near, degree=degree)
        self.camera.show_all()
        self.photos.show(loaded)
        self._edit.show(loaded)
        self.ask()
