"""Draw up the Plan of the Artifact that this machine lacks: the same Plan as for a wheel, for the GPUs at hand."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from ..build import plan as plans
from ..build.plan import Plan
from ..core.errors import BuildError
from ..core.settings import Origin, Settings
from ..toolchain import toolchain
from ..toolchain.nvcc import NvccCandidate
from ..toolchain.toolchain import Toolchain
from .source import Source

# What a compile needs of Python packages, beside the compilers: (import name, name on PyPI).
NEEDED = (("scikit_build_core", "scikit-build-core"), ("elftools", "pyelftools"), ("packaging", "packaging"))
INSTALLED = "installed"
# Brings those, and the programs that they run. It does not name the package itself, for the sake of its extra `jit`: on
# an index, that name may be another package's.
INSTALL_TOOLS = f"pip install {' '.join(name for _, name in NEEDED)} cmake ninja"


def draw_plan_here(
    source: Source,
    version: str,
    settings: Settings,
    cuda: bool,
    capabilities: Sequence[tuple[int, int]],
    nvccs: Sequence[NvccCandidate] | None = None,
) -> tuple[Plan, Toolchain]:
    """Draw up the Plan for this machine.

    Args:
        source: what to compile.
        version: the package's version.
        settings: the effective options; where they name no architectures, the GPUs' are taken.
        cuda: CUDA and CPU kernels, or CPU kernels alone.
        capabilities: of the GPUs that this process sees; none gives the default list of a wheel.
        nvccs: what `look_for_nvcc` found, if somebody has looked before.

    Raises:
        BuildError: this machine cannot compile it; says what is missing and what brings it.
    """
    require_tools()
    if not settings.archs and capabilities:
        gpus = ";".join("{}.{}".format(*capability) for capability in capabilities)
        settings = settings.changed("archs", gpus, Origin("the GPUs of this process"))
    settings = settings.changed("cuda", "on" if cuda else "off", Origin("what this call needs"))
    tools = toolchain.find_toolchain(settings, os.environ, nvccs)
    return plans.draw_plan(source.facts, version, source.folder, settings, tools), tools


def find_tools() -> dict[str, str]:
    """The Python packages and the programs that a compile needs, by their names on PyPI: where they are, or that they
    are missing. The programs are looked for as the driver does, by the packages, where these are there.
    """
    found = {name: INSTALLED if importlib.util.find_spec(module) else "missing" for module, name in NEEDED}
    if "missing" in found.values():
        return found
    from packaging.specifiers import SpecifierSet
    from scikit_build_core.program_search import best_program, get_cmake_programs, get_ninja_programs

    from ..build.cmake_driver import CMAKE_VERSION, NINJA_VERSION

    for name, wanted, programs in (
        ("cmake", CMAKE_VERSION, get_cmake_programs()),
        ("ninja", NINJA_VERSION, get_ninja_programs()),
    ):
        program = best_program(programs, version=SpecifierSet(wanted))
        found[name] = f"{program.path}: {program.version}" if program else f"missing: {wanted}"
    return found


def require_tools() -> None:
    """Refuse to start where a Python package or a program is missing that the compile needs."""
    found = find_tools()
    missing = [f"{name} {state}" for name, state in found.items() if state.startswith("missing")]
    if missing:
        raise BuildError(
            "the kernels cannot be compiled here",
            required=", ".join([*(name for _, name in NEEDED), "cmake", "ninja"]),
            found="; ".join(missing),
            remedies=[INSTALL_TOOLS, "or install a wheel that was built for this machine"],
        )
