"""The page's control that uploads a scene, which is then shown on that page alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..scene.formats import FORMATS, suffix_of
from ..scene.gaussians import SceneError
from ..scene.names import quoted
from .open_page import OpenPage, UploadOptions
from .scene_choices import LoadedScene

_ENDINGS: Final = tuple(suffix for suffix, kind in FORMATS.items() if kind.alone)


class UploadControls:
    """A button of a page's panel."""

    def __init__(self, page: OpenPage, options: UploadOptions, show: Callable[[str, LoadedScene], None]) -> None:
        """`show` shows an uploaded scene by its name."""
        self._page, self._options, self._show = page, options, show
        self._reading = threading.Lock()
        label = f"Upload a scene (up to {options.most >> 20} MB)"
        self._button = page.client.gui.add_upload_button(label, mime_type=",".join(_ENDINGS))
        page.when(self._button.on_upload, self._read)

    def _read(self) -> None:
        self._page.take_turns(self._reading, lambda: bool(self._button.value.content), self._read_newest)

    def _read_newest(self) -> None:
        """Read it from a file of its own, that is gone then."""
        file = self._button.value
        if not file.content:  # the one that was uploaded after it was read instead
            return
        self._button._impl.value = type(file)("", b"")
        suffix = suffix_of(Path(file.name))
        if suffix not in _ENDINGS:
            raise SceneError(f"a file that is a whole scene ({', '.join(_ENDINGS)}) is required, found {suffix}")
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"upload{suffix}"
            path.write_bytes(file.content)
            name = quoted(file.name)
            del file
            try:
                loaded = self._options.read(path)
            except SceneError as error:
                raise SceneError(str(error).replace(str(path), name)) from error
        self._show(f"uploaded: {name}", loaded)
