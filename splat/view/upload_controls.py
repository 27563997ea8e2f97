"""The page's control that uploads a scene, which is then shown on that page alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from ..scene.formats import FORMATS, suffix_of
from ..scene.gaussians import SceneError
from ..scene.names import quoted
from .choices import Exhibit

if TYPE_CHECKING:
    from .session import Session

_ENDINGS: Final = tuple(suffix for suffix, kind in FORMATS.items() if kind.alone)


@dataclass(frozen=True)
class UploadTerms:
    """What pages may upload."""

    most: int
    """Bytes of a file."""
    read: Callable[[Path], Exhibit]
    """Reads a file as the other scenes are read; it may be damaged or hostile."""


class UploadControls:
    """A button of a page's panel."""

    def __init__(self, page: Session, terms: UploadTerms) -> None:
        self._page, self._terms = page, terms
        self._reading = threading.Lock()
        label = f"Upload a scene (up to {terms.most >> 20} MB)"
        self._button = page.client.gui.add_upload_button(label, mime_type=",".join(_ENDINGS))
        page.when(self._button.on_upload, self._read)

    def _read(self) -> None:
        """Read what was uploaded, and what is uploaded meanwhile, on one of the threads that all pages share."""
        while self._button.value.content and self._reading.acquire(blocking=False):
            try:
                self._read_newest()
            except Exception as error:
                self._page.say(error)
            finally:
                self._reading.release()

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
                exhibit = self._terms.read(path)
            except SceneError as error:
                raise SceneError(str(error).replace(str(path), name)) from error
        self._page.show_uploaded(f"uploaded: {name}", exhibit)
