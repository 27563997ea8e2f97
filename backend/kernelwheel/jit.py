"""Draw up the Plan of the Artifact that this machine lacks: the same Plan as for a wheel, for the GPUs at hand."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from . import plan as plans
from . import toolchain
from .errors import BuildError
from .plan import Plan
from .settings import Settings
from .source import Source
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
        settings = settings._replace(archs=";".join("{}.{}".format(*c) for c in capabilities))
        origins["archs"] = "the GPUs of this process"
    settings = settings._replace(cuda="on" if cuda else "off", origins=origins)
    tools = toolchain.find(settings, os.environ)
    return plans.draw(source.facts, version, source.folder, settings, tools), tools


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
