"""Make the Artifact that this machine lacks: the same Plan and the same compile as for a wheel, kept in the Store."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from . import caretaking, resources, toolchain
from . import plan as plans
from .errors import BuildError
from .plan import Plan
from .settings import Settings
from .source import Source
from .store import Entry, Store
from .toolchain import Toolchain

# What a compile needs of Python packages, beside the compilers: (import name, name on PyPI).
NEEDED = (("scikit_build_core", "scikit-build-core"), ("elftools", "pyelftools"), ("packaging", "packaging"))


def draw(
    source: Source, version: str, settings: Settings, cuda: bool, capabilities: Sequence[tuple[int, int]]
) -> tuple[Plan, Toolchain]:
    """Draw up the Plan for this machine.

    Args:
        source: what to compile.
        version: the package's version.
        settings: the effective options; where they name no architectures, the GPUs' are taken.
        cuda: CUDA and CPU kernels, or CPU kernels alone.
        capabilities: of the GPUs that this process sees; none gives the default list of a wheel.

    Raises:
        BuildError: this machine cannot compile it; says what is missing and what brings it.
    """
    require_tools(source.facts.import_name)
    origins = {**settings.origins, "cuda": "what this call needs"}
    if not settings.archs and capabilities:
        settings = replace(settings, archs=";".join("{}.{}".format(*c) for c in capabilities))
        origins["archs"] = "the GPUs of this process"
    settings = replace(settings, cuda="on" if cuda else "off", origins=origins)
    tools = toolchain.find(settings, os.environ)
    return plans.draw(source.facts, version, source.folder, settings, tools), tools


def make(plan: Plan, tools: Toolchain, source: Source, store: Store, jobs: int, say: Callable[[str], None]) -> Entry:
    """The Store's entry for a Plan, compiled now unless it is there. Call it inside `store.making`."""
    from .compile import compile_plan, work_path  # after `draw`, which says what is missing for it

    kept = [each.manifest for each in caretaking.survey(store).kept if each.manifest]
    peak_mb = resources.known_peak(kept, plan.cuda is not None)

    def compile_into(folder: Path) -> None:
        compile_plan(plan, tools, source.folder, folder, jobs=jobs, say=say, known_peak_mb=peak_mb)

    store.sign(log=f"{work_path(plan)}/build.log")
    entry = store.publish(plan.fingerprint, compile_into)
    say(f"kernels are in {entry.folder}")
    return entry


def require_tools(package: str) -> None:
    """Refuse to start where a Python package is missing that the compile needs."""
    missing = [name for module, name in NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        raise BuildError(
            "the kernels cannot be compiled here",
            required=", ".join(name for _, name in NEEDED),
            found="missing: " + ", ".join(missing),
            remedies=[f"pip install '{package}[jit]'", "or install a wheel that was built for this machine"],
        )
