"""From a Plan to its Artifact: the entry of a Store, else compiled now and kept there. For the backend and the JIT."""

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
from ..toolchain.toolchain import Toolchain
from . import resources
from .plan import Plan

if TYPE_CHECKING:  # at run time, what it needs may be missing, which only a compile complains of
    from .compile import Say


def compile_once(
    plan: Plan, tools: Toolchain, sources: Path, store: Store, jobs: int, say: Say
) -> tuple[Artifact, bool]:
    """The Store's entry for a Plan, and whether it was compiled now. Call it inside `store.making`.

    Raises:
        BuildError: it does not compile.
        StoreError: it cannot be kept.
    """
    from .compile import compile_plan
    from .work_folder import LOG, work_path

    manifests = [each.artifact.manifest for each in take_inventory(store).entries if each.artifact]
    peak_mb = resources.known_peak(manifests, plan.cuda is not None)

    compiled = False

    def compile_into(folder: Path) -> None:
        nonlocal compiled
        compiled = True
        compile_plan(plan, tools, sources, folder, jobs=jobs, say=say, known_peak_mb=peak_mb, store=store)

    store.sign(log=f"{work_path(store, plan)}/{LOG}")
    entry = store.publish(plan.fingerprint, compile_into)
    say(f"kernels are in {entry.folder}")
    clean_builds(store, time.time() - BUILDS_ARE_KEPT, "old")
    return entry, compiled


def cached_build(plan: Plan, tools: Toolchain, sources: Path, settings: Settings, scratch: Path, say: Say) -> Artifact:
    """The Artifact for a wheel. Where no Store can be used, that is said, and it is compiled for the wheel alone.

    Args:
        plan: what is wanted; an entry of the same fingerprint is as good as one that is compiled now.
        tools: what to compile with.
        sources: the folder with the Plan's sources.
        settings: name the Stores, and how many compilers run at once.
        scratch: a folder to be made for an Artifact that cannot be kept.
        say: receives one line at a time.

    Raises:
        BuildError: it does not compile.
        StoreError: it could not be compiled in the temporary folder either, which others can change.
    """
    from .compile import compile_plan, decisions

    def packed(entry: Artifact) -> Artifact:
        """The wheel says why it is what it is, whoever compiled its libraries."""
        built_with = {**entry.manifest.built_with, **decisions(plan, tools)}
        return entry._replace(manifest=entry.manifest._replace(built_with=built_with))

    try:
        for store in stores(settings, plan.package, plan.version):
            entry = _look(store, plan.fingerprint, say)
            if entry:
                say(f"nothing to compile: reusing {entry.folder}")
                return packed(entry)
        with store.making(lambda maker: say(f"waiting for {maker}")):  # the last one, the user's own
            entry, _ = compile_once(plan, tools, sources, store, settings.jobs, say)
            return packed(entry)
    except StoreError as error:
        say(f"the compiled kernels are not kept for other builds: {_in_a_line(error)}")
    return compile_plan(plan, tools, sources, scratch, jobs=settings.jobs, say=say, trust=trust_of(settings))


def _look(store: Store, fingerprint: str, say: Say) -> Artifact | None:
    """The entry, if a Store has it whole. One that is only read and cannot be used is no hindrance, but said."""
    try:
        return store.entry(fingerprint, lambda place, error: say(f"{_in_a_line(error)}: it is now in {place}"))
    except (StoreError, IncompatibleArtifactError) as error:
        if store.own:
            raise
        say(f"not looking in {store.folder}: {_in_a_line(error)}")
        return None


def _in_a_line(error: KernelWheelError) -> str:
    return f"{error.problem} ({'; '.join(error.found.splitlines())})"
