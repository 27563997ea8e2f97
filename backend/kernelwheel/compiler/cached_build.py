"""The Artifact for a Plan: an entry of a Store, or compiled now and added to the user's Store.

Shared by the backend and the JIT.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import IncompatibleArtifactError, KernelWheelError, StoreError
from ..core.settings import Settings
from ..store.artifact import Artifact
from ..store.entries import Store
from ..store.inventory import take_inventory
from ..store.maintenance import BUILDS_ARE_KEPT, clean_builds
from ..store.places import stores, trust_of
from ..store.publishing import making, publish, sign
from . import resources
from .plan import Plan
from .toolchain.toolchain import Toolchain

if TYPE_CHECKING:  # at run time its dependencies may be missing, which matters only when something is compiled
    from .compile import Say


def compile_once(
    plan: Plan, tools: Toolchain, sources: Path, store: Store, jobs: int, say: Say, wheel: Artifact | None = None
) -> tuple[Artifact, bool]:
    """Return the Store's entry for a Plan, and whether it was compiled just now. Call it inside `making`.

    The libraries that the Plan takes are those of `wheel`.

    Raises:
        BuildError: it does not compile.
        StoreError: it cannot be stored.
    """
    from .compile import compile_plan
    from .work_folder import LOG, work_path

    manifests = [each.artifact.manifest for each in take_inventory(store).entries if each.artifact]
    peak_mb = resources.known_peak(manifests, plan.cuda is not None)

    compiled = False

    def compile_into(folder: Path) -> None:
        nonlocal compiled
        compiled = True
        compile_plan(plan, tools, sources, folder, jobs=jobs, say=say, known_peak_mb=peak_mb, store=store, wheel=wheel)

    sign(store, log=f"{work_path(store, plan)}/{LOG}")
    entry = publish(store, plan.fingerprint, compile_into)
    say(f"kernels are in {entry.folder}")
    clean_builds(store, time.time() - BUILDS_ARE_KEPT, "old")
    return entry, compiled


def cached_build(plan: Plan, tools: Toolchain, sources: Path, settings: Settings, scratch: Path, say: Say) -> Artifact:
    """Return the Artifact for a wheel. If no Store is usable, say so and compile for this wheel only.

    Args:
        plan: what to build; an entry with the same fingerprint is as good as a fresh compile.
        tools: what to compile with.
        sources: the folder with the Plan's sources.
        settings: where the Stores are, and how many compilers run at once.
        scratch: a folder to create for an Artifact that cannot be stored.
        say: receives progress, one line per call.

    Raises:
        BuildError: it does not compile.
        StoreError: the fallback, the temporary folder, is unusable too because other users can change it.
    """
    from .compile import compile_plan, decisions

    def packed(entry: Artifact) -> Artifact:
        """Record this build's decisions in the wheel, even if its libraries were compiled earlier."""
        built_with = {**entry.manifest.built_with, **decisions(plan, tools)}
        return entry._replace(manifest=entry.manifest._replace(built_with=built_with))

    try:
        for store in stores(settings, plan.package, plan.version):
            entry = _look(store, plan.fingerprint, say)
            if entry:
                say(f"nothing to compile: reusing {entry.folder}")
                return packed(entry)
        with making(store, lambda maker: say(f"waiting for {maker}")):  # the last Store is the user's own
            entry, _ = compile_once(plan, tools, sources, store, settings.jobs, say)
            return packed(entry)
    except StoreError as error:
        say(f"the compiled kernels will not be cached for other builds: {_in_a_line(error)}")
    return compile_plan(plan, tools, sources, scratch, jobs=settings.jobs, say=say, trust=trust_of(settings))


def _look(store: Store, fingerprint: str, say: Say) -> Artifact | None:
    """The entry, if the Store has an intact one. An unusable read-only Store is reported and skipped."""
    try:
        return store.entry(fingerprint, lambda place, error: say(f"{_in_a_line(error)}: moved to {place}"))
    except (StoreError, IncompatibleArtifactError) as error:
        if store.own:
            raise
        say(f"skipping {store.folder}: {_in_a_line(error)}")
        return None


def _in_a_line(error: KernelWheelError) -> str:
    return f"{error.problem} ({'; '.join(error.found.splitlines())})"
