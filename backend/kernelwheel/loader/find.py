"""Finding and using the Artifact for a request, as `decide` decides, short of compiling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError
from ..core.host import Host
from ..store.artifact import Artifact
from .installed import InstalledPackage
from .selection import Decision, Request, decide, failed

if TYPE_CHECKING:
    from ..store.entries import Store

Use = Callable[[Artifact], object]


def find(package: InstalledPackage, host: Host, request: Request, use: Use) -> Decision:
    """Use the first available Artifact that fits and is intact; quarantine damaged ones in the user's own store.

    Args:
        package: the package that needs kernels.
        host: the machine.
        request: the kernels requested.
        use: verifies an Artifact, and loads it if wanted; raises if it is damaged.

    Returns:
        The decision. If it is to load, `use` has succeeded; if it is to compile or to fail, nothing was used.

    Raises:
        IncompatibleArtifactError: the wheel's Artifact or one in a read-only store is damaged.
        UnreadableArtifactError: an Artifact cannot be read at the moment.
        StoreError: a store cannot be used.
    """
    put_away = partial(_put_away, package.package)

    def set_aside(artifact: Artifact, error: IncompatibleArtifactError) -> None:
        if artifact.store is None:
            package.damage = error
            raise error
        put_away(artifact.store, artifact.folder, error)

    return _settle(lambda: decide(request, host, package.candidates(put_away), package), use, set_aside)


def foresee(package: InstalledPackage, host: Host, request: Request, verify: Use) -> Decision:
    """Predict what `find` would decide. Changes nothing and raises nothing: an error becomes a decision to fail."""
    passed_over: set[Path] = set()

    def set_aside(artifact: Artifact, error: IncompatibleArtifactError) -> None:
        if artifact.store is None or not artifact.store.own:
            raise error
        passed_over.add(artifact.folder)

    def decide_now() -> Decision:
        candidates = (each for each in package.candidates() if each.folder not in passed_over)
        return decide(request, host, candidates, package)

    try:
        return _settle(decide_now, verify, set_aside)
    except KernelWheelError as error:
        return failed(request.device, error)


def _settle(
    decide_now: Callable[[], Decision], use: Use, set_aside: Callable[[Artifact, IncompatibleArtifactError], None]
) -> Decision:
    while True:
        decision = decide_now()
        if decision.artifact is None:
            return decision
        try:
            use(decision.artifact)
        except UnreadableArtifactError:
            raise  # it may be intact: do not quarantine it
        except IncompatibleArtifactError as error:
            set_aside(decision.artifact, error)
        else:
            return decision


def _put_away(package: str, store: Store, folder: Path, error: IncompatibleArtifactError) -> None:
    from ..core import progress

    place = store.quarantine(folder, error)
    with progress.shown(package) as say:
        say(f"{error.found}; the entry was moved to {place} and is not used")
