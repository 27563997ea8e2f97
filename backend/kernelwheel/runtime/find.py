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


def find(package: InstalledPackage, host: Host, request: Request, use: Use, changes: bool = True) -> Selection:
    """Use the first available Artifact that fits and is intact; quarantine damaged ones in the user's own store.

    If the selection is to load, `use` has succeeded; if it is to compile or to fail, nothing was used. Without
    `changes`, damaged ones are passed over.

    Raises:
        IncompatibleArtifactError: the wheel's Artifact or one in a read-only store is damaged.
        UnreadableArtifactError: an Artifact cannot be read at the moment.
        StoreError: a store cannot be used.
    """
    put_away = partial(_put_away, package.package) if changes else None
    damaged: set[Path] = set()
    while True:
        candidates = (each for each in package.candidates(put_away) if each.folder not in damaged)
        selection = select(request, host, candidates, package)
        artifact = selection.artifact
        if artifact is None:
            return selection
        try:
            use(artifact)
        except UnreadableArtifactError:
            raise  # it may be intact: do not quarantine it
        except IncompatibleArtifactError as error:
            if artifact.guard is None:
                if changes:
                    package.damage = error
                raise
            store = next(each for each in package.stores() if each.root == artifact.folder.parent)
            if put_away:
                put_away(store, artifact.folder, error)  # raises for a read-only one
            elif not store.own:
                raise
            damaged.add(artifact.folder)
        else:
            return selection


def predict(package: InstalledPackage, host: Host, request: Request, verify: Use) -> Selection:
    """Predict what `find` would decide. Changes nothing and raises nothing: an error becomes a selection to fail."""
    try:
        return find(package, host, request, verify, changes=False)
    except KernelWheelError as error:
        return failed(request, error)


def _put_away(package: str, store: Store, folder: Path, error: IncompatibleArtifactError) -> None:
    from . import progress

    place = store.quarantine(folder, error)
    progress.printer(package)(f"{error.found}; the entry was moved to {place} and is not used")
