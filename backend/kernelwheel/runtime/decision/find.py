"""Carrying out a Decision, short of compiling: read, decide, and use what was decided on; or only predict that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..artifact.artifact import Artifact
from ..errors import IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError
from ..machine.host import Host
from .decision import Decision, Request, decide, decide_on_wheel, failed
from .snapshot import InstalledPackage, Snapshot

Use = Callable[[Artifact], object]  # verifies an Artifact, and loads it if wanted; raises if it is damaged


def look(package: InstalledPackage, host: Host, request: Request) -> tuple[Snapshot, Decision]:
    """Read as much as it takes, and decide on it. Changes nothing."""
    snapshot = package.read_wheel(host)
    if decision := decide_on_wheel(snapshot, request):
        return snapshot, decision
    snapshot = package.read(host)
    return snapshot, decide(snapshot, request)


def find(package: InstalledPackage, host: Host, request: Request, use: Use) -> Decision:
    """Use the first available Artifact that fits and is intact; quarantine damaged ones in the user's own store.

    If the Decision is to load, `use` has succeeded; if it is to compile, nothing was used.

    Raises:
        KernelWheelError: that of a Decision to fail; the wheel's Artifact or one in a read-only store is damaged.
        UnreadableArtifactError: an Artifact cannot be read at the moment.
    """
    while True:
        snapshot, decision = look(package, host, request)
        for damaged in decision.damaged:
            _put_away(snapshot, damaged.folder, damaged.error)
        if decision.error:
            raise decision.error
        artifact = decision.artifact
        if artifact is None:
            return decision
        try:
            use(artifact)
        except UnreadableArtifactError:
            raise  # it may be intact: do not quarantine it
        except IncompatibleArtifactError as error:
            if artifact.guard is None:
                package.damage = error
                raise
            _put_away(snapshot, artifact.folder, error)  # raises for a read-only store
        else:
            return decision


def predict(snapshot: Snapshot, request: Request, verify: Use) -> Decision:
    """Predict what `find` would decide. Changes nothing and raises nothing: an error becomes a Decision to fail."""
    decision = decide(snapshot, request)
    while artifact := decision.artifact:
        try:
            verify(artifact)
            break
        except KernelWheelError as error:
            passing = isinstance(error, UnreadableArtifactError) or not isinstance(error, IncompatibleArtifactError)
            if passing or artifact.guard is None or not snapshot.store_of(artifact.folder).own:
                return failed(request, error)
        snapshot = snapshot._replace(entries=tuple(each for each in snapshot.entries if each.folder != artifact.folder))
        decision = decide(snapshot, request)
    return decision


def _put_away(snapshot: Snapshot, folder: Path, error: IncompatibleArtifactError) -> None:
    from .. import progress

    place = snapshot.store_of(folder).quarantine(folder, error)
    progress.printer(snapshot.package)(f"{error.found}; the entry was moved to {place} and is not used")
