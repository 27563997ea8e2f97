"""The Artifact: a folder with compiled libraries and a manifest; its options were all settled by the Plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import IncompatibleArtifactError
from ..machine.platforms import HOST_PLATFORM
from ..record import Record
from . import manifest as manifests
from .manifest import Library, Manifest

if TYPE_CHECKING:  # at run time, only what loading a wheel's Artifact needs is imported
    from ..machine.permissions import Guard


class Damaged(Record):
    """An entry in the user's own store whose manifest is damaged."""

    folder: Path
    error: IncompatibleArtifactError


class Artifact(Record):
    """An Artifact on this machine."""

    folder: Path  # where its libraries are
    manifest: Manifest
    guard: Guard | None = None  # of the Store that it is an entry of; None if it is the package's own, from its wheel

    def only(self, part: str) -> Artifact:
        """The same with the libraries of one part; all of it for none."""
        return self._replace(manifest=self.manifest.only(part)) if part else self

    def open_library(self, library: Library) -> int:
        """Check a library against the manifest before anything uses it; in a Store, also who could have changed it.

        Returns the descriptor of the file that was checked, to be used and closed by the caller: its path may lead to
        another file by now.

        Raises:
            IncompatibleArtifactError: the file is missing, or has another size or digest.
            UnreadableArtifactError: it cannot be read right now.
            StoreError: somebody else can change it.
        """
        path = self.folder / library.file
        try:
            if self.guard is None:  # beside the package's own code: whoever could change one could change the other
                return manifests.verified(HOST_PLATFORM.open_file(path), library, path)
            with self.guard.opened(self.folder) as inside:
                return manifests.verified(self.guard.open_file(inside, library.file, path), library, path)
        except FileNotFoundError as error:
            raise manifests.corrupt(path, str(error)) from error
        except OSError as error:
            raise manifests.unreadable(path, error) from error

    def verify_library(self, library: Library) -> None:
        """The same check alone."""
        os.close(self.open_library(library))

    def verify(self) -> None:
        """Check every library."""
        for library in self.manifest.libraries:
            self.verify_library(library)
