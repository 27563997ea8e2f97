"""Find the Artifact that answers a request: carry out what `decide` says, as far as no compiler is needed for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError
from ..core.host import Host
from ..store.artifact import Artifact
from .decision import Decision, Request, decide, failed
from .installed import InstalledPackage

if TYPE_CHECKING:
    from ..store.entries import Store

Use = Callable[[Artifact], object]


def find(package: InstalledPackage, host: Host, request: Request, use: Use) -> Decision:
    """Use the first Artifact at hand that fits and is whole; damaged ones of the user's own store are put away.

    Args:
        package: whose kernels are asked for.
        host: the machine.
        request: what is asked for.
        use: verifies the Artifact, and loads it where that is wanted; raises where it is damaged.

    Returns:
        The decision: to load, and then `use` has succeeded; or to compile or to fail, and nothing was used.

    Raises:
        IncompatibleArtifactError: the wheel's Artifact is damaged, or that of a read-only store.
        UnreadableArtifactError: one cannot be read now.
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
    """What `find` would come to; changes nothing, and raises nothing: an error is a decision to fail."""
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
            raise  # it may be whole: nothing is put away
        except IncompatibleArtifactError as error:
            set_aside(decision.artifact, error)
        else:
            return decision


def _put_away(package: str, store: Store, folder: Path, error: IncompatibleArtifactError) -> None:
    from ..build import progress

    place = store.quarantine(folder, error)
    with progress.shown(package) as say:
        say(f"{error.found}; the entry is now in {place} and is not used")
