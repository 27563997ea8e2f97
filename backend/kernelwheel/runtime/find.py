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

Use = Callable[[Artifact], object]


def find(package: InstalledPackage, host: Host, request: Request, use: Use) -> Selection:
    """Use the first available Artifact that fits and is intact; quarantine damaged ones in the user's own store.

    The selection. If it is to load, `use` has succeeded; if it is to compile or to fail, nothing was used.
    """
    put_away = partial(_put_away, package.package)

    def set_aside(artifact: Artifact, error: IncompatibleArtifactError) -> None:
        if artifact.store is None:
            package.damage = error
            raise error
        put_away(artifact.store, artifact.folder, error)

    return _settle(lambda: select(request, host, package.candidates(put_away), package), use, set_aside)


def foresee(package: InstalledPackage, host: Host, request: Request, verify: Use) -> Selection:
    """Predict what `find` would decide. Changes nothing and raises nothing: an error becomes a selection to fail."""
    passed_over: set[Path] = set()

    def set_aside(artifact: Artifact, error: IncompatibleArtifactError) -> None:
        if artifact.store is None or not artifact.store.own:
            raise error
        passed_over.add(artifact.folder)

    def select_now() -> Selection:
        candidates = (each for each in package.candidates() if each.folder not in passed_over)
        return select(request, host, candidates, package)

    try:
        return _settle(select_now, verify, set_aside)
    except KernelWheelError as error:
        return failed(request.device, error)


def _settle(
    select_now: Callable[[], Selection], use: Use, set_aside: Callable[[Artifact, IncompatibleArtifactError], None]
) -> Selection:
    while True:
        selection = select_now()
        if selection.artifact is None:
            return selection
        try:
            use(selection.artifact)
        except UnreadableArtifactError:
            raise  # it may be intact: do not quarantine it
        except IncompatibleArtifactError as error:
            set_aside(selection.artifact, error)
        else:
            return selection


def _put_away(package: str, store: Store, folder: Path, error: IncompatibleArtifactError) -> None:
    from . import progress

    place = store.quarantine(folder, error)
    with progress.shown(package) as say:
        say(f"{error.found}; the entry was moved to {place} and is not used")
