"""An Artifact: a folder with libraries and a manifest. It takes no options: they were all spent in the Plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..core import manifest as manifests
from ..core.manifest import Library, Manifest

if TYPE_CHECKING:  # at import, only what a fitting wheel needs is loaded
    from .entries import Store


class Artifact(NamedTuple):
    """An Artifact at hand.

    Attributes:
        folder: where its libraries are.
        manifest: what it says.
        store: the Store that it is an entry of; None: it is the package's own, out of its wheel.
    """

    folder: Path
    manifest: Manifest
    store: Store | None = None

    def verify_library(self, library: Library) -> Path:
        """Check a library against the manifest before anything loads it; of a Store, also who could have changed it.

        The wheel's is where the package's own code is: whoever could change the one could change the other.

        Returns:
            Its path.

        Raises:
            IncompatibleArtifactError: as `manifest.verify`.
            StoreError: as `Store.verify_library`.
        """
        if self.store:
            return self.store.verify_library(self.folder, library)
        return manifests.verify(self.folder, library)

    def verify(self) -> None:
        """The same for every library."""
        for library in self.manifest.libraries:
            self.verify_library(library)
