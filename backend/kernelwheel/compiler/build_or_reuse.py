"""Making the Artifact for a job: the Plan, an entry of a Store with its fingerprint, or a compile."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..runtime.artifact import manifest as manifests
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.content import part_made
from ..runtime.errors import IncompatibleArtifactError, KernelWheelError, StoreError
from ..runtime.progress import Say
from ..runtime.store.clearing import Cleaning, clean_builds
from ..runtime.store.store import Store, stores
from ..runtime.store.store_lock import making, sign
from ..store.pruning import BUILDS_ARE_KEPT
from ..store.publishing import intact_entry, publish
from .compile import Planned, compile_plan, decisions
from .compile_job import CompileJob
from .component_facts import component_facts
from .create_plan import create_plan
from .device_code import OtherHostCode
from .find_toolchain import describe_toolchain, toolchain_for
from .parent_watch import Caller
from .standards import raised_standards
from .taken_libraries import NOTHING, find_taken
from .toolchain.compiler_environment import without_effect
from .toolchain.toolchain import Toolchain
from .toolchain.torch_files import torch_libraries
from .work_folder import LOG, work_path


def build_or_reuse(job: CompileJob, caller: Caller, say: Say) -> dict[str, Any]:
    """The Artifact for a job, from a Store or compiled now.

    Returns:
        As plain JSON values: its `folder`; whether it was `compiled` just now; `decisions`, the reasons for what this
        job asks for, as in a manifest's `built_with`; and `packing`, what a wheel's needs of what was compiled with:
        `components`, see component_facts.py, and `torch_libraries`, the files of the libraries that torch brings.

    Raises:
        BuildError: it does not compile.
        StoreError: it cannot be stored, and the job names no folder for it instead.
    """
    tools = toolchain_for(job, caller.environ)
    for line in without_effect(caller.environ, job.settings.variable):
        say(f"note: {line}")
    packing: dict[str, Any] = {}
    if job.scratch:  # a build asks, which packs what is compiled
        for line in describe_toolchain(tools):
            say(line)
        packing = {"components": component_facts(tools), "torch_libraries": torch_libraries(tools.torch)}
    planned = create_plan_for(job, tools)
    for line in raised_standards(planned.plan, tools):
        say(line)
    try:
        folder, compiled = _find_or_compile(job, planned, caller, say)
    except OtherHostCode as reason:
        say(f"compiling host code too: the wheel's is for other device code ({reason})")
        whole = create_plan_for(job, tools, device_code_alone=False)
        folder, compiled = _find_or_compile(job, whole, caller, say)
    reasons = decisions(planned.plan, tools)
    return {"folder": str(folder), "compiled": compiled, "decisions": reasons, "packing": packing}


def _find_or_compile(job: CompileJob, planned: Planned, caller: Caller, say: Say) -> tuple[Path, bool]:
    """The Artifact's folder, and whether it was compiled just now."""
    plan, settings, scratch = planned.plan, job.settings, job.scratch
    try:
        for store in stores(settings, plan.package, plan.version) if job.lock is None else ():
            if entry := _look(store, plan.fingerprint, say):
                say(f"nothing to compile: reusing {entry.folder}")
                return entry.folder, False
        *_, store = stores(settings, plan.package, plan.version)
        store = store._replace(part=part_made(plan.content))
        # The process that asks may hold the right to make entries itself.
        with making(store, lambda maker: say(f"waiting for {maker}")) if job.lock is None else nullcontext():
            entry, compiled = _compile_once(job, planned, store, caller, say)
            return entry.folder, compiled
    except StoreError as error:
        if scratch is None:
            raise
        say(f"the compiled kernels will not be cached for other builds: {_in_a_line(error)}")
    compile_plan(planned, job.sources, scratch, None, caller, say)
    return scratch, True


def create_plan_for(job: CompileJob, tools: Toolchain, *, device_code_alone: bool = True) -> Planned:
    """The Plan for a job; without host code, if that of the wheel will do and `device_code_alone`.

    Raises:
        BuildError: this machine cannot compile it; the message says what is missing and how to install it.
    """
    manifest = manifests.read(job.wheel, job.content["package"]) if job.wheel and tools.cuda.nvcc else None
    taken = find_taken(manifest, job.content, tools, cpu_kernels=job.cpu_kernels) if manifest else NOTHING
    if not device_code_alone:
        taken = taken._replace(host_code={})
    plan = create_plan(job.content, job.sources, tools, taken, cpu_kernels=job.cpu_kernels)
    wheel = Artifact(job.wheel, manifest) if job.wheel and manifest and any(taken) else None
    return Planned(plan, tools, wheel, by_content=job.scratch is None)


def _compile_once(job: CompileJob, planned: Planned, store: Store, caller: Caller, say: Say) -> tuple[Artifact, bool]:
    """The Store's entry for a Plan, and whether it was compiled just now. Call it inside `making`."""
    plan = planned.plan
    made: list[Artifact] = []

    def compile_into(folder: Path) -> None:
        made.append(compile_plan(planned, job.sources, folder, store, caller, say))

    sign(store, log=f"{work_path(store, plan)}/{LOG}")
    entry = publish(store, plan.fingerprint, compile_into)
    say(f"kernels are in {entry.folder}")
    clean_builds(store, time.time() - BUILDS_ARE_KEPT, Cleaning())
    return entry, bool(made)


def _look(store: Store, fingerprint: str, say: Say) -> Artifact | None:
    """The entry, if the Store has an intact one. An unusable read-only Store is reported and skipped."""
    try:
        return intact_entry(store, fingerprint, lambda place, error: say(f"{_in_a_line(error)}: moved to {place}"))
    except (StoreError, IncompatibleArtifactError) as error:
        if store.own:
            raise
        say(f"skipping {store.folder}: {_in_a_line(error)}")
        return None


def _in_a_line(error: KernelWheelError) -> str:
    return f"{error.problem} ({'; '.join(error.found.splitlines())})"
