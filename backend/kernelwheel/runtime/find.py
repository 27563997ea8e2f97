"""Finding and using the Artifact that is selected for a request, short of compiling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .artifact import Artifact
from .errors import IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError
from .host import Host
from .installed import InstalledPackage
from .selection import Request, Selection, failed, select

if TYPE_CHECKING:
    from .store import Store

Use = Callable[[Artifact], object]  # verifies an Artifact, and loads it if wanted; raises if it is damaged


def find(package: InstalledPackage, host: Host, request: Request, use: Use) -> Selection:
    """Use the first available Artifact that fits and is intact; quarantine damaged ones in the user's own store.

    If the selection is to load, `use` has succeeded; if it is to compile or to fail, nothing was used.

    Raises:
        IncompatibleArtifactError: the wheel's Artifact or one in a read-only store is damaged.
        UnreadableArtifactError: an Artifact cannot be read at the moment.
        StoreError: a store cannot be used.
    """
    put_away = partial(_put_away, package.package)
    while True:
        selection = select(request, host, package.candidates(put_away), package)
        artifact = selection.artifact
        if artifact is None:
            return selection
        try:
            use(artifact)
        except UnreadableArtifactError:
            raise  # it may be intact: do not quarantine it
        except IncompatibleArtifactError as error:
            if artifact.store is None:
                package.damage = error
                raise
            put_away(artifact.store, artifact.folder, error)
        else:
            return selection


def foresee(package: InstalledPackage, host: Host, request: Request, verify: Use) -> Selection:
    """Predict what `find` would decide. Changes nothing and raises nothing: an error becomes a selection to fail."""
    damaged: set[Path] = set()
    try:
        while True:
            candidates = (each for each in package.candidates() if each.folder not in damaged)
            selection = select(request, host, candidates, package)
            if selection.artifact is None:
                return selection
            try:
                verify(selection.artifact)
            except IncompatibleArtifactError as error:
                own = selection.artifact.store is not None and selection.artifact.store.own
                if not own or isinstance(error, UnreadableArtifactError):
                    raise
                damaged.add(selection.artifact.folder)
            else:
                return selection
    except KernelWheelError as error:
        return failed(request, error)


def _put_away(package: str, store: Store, folder: Path, error: IncompatibleArtifactError) -> None:
    from . import progress

    place = store.quarantine(folder, error)
    with progress.shown(package) as say:
        say(f"{error.found}; the entry was moved to {place} and is not used")
