"""Drawing up a Plan at run time: the same as for a wheel, but for this machine's GPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..core.content import without_cuda
from ..core.errors import BuildError
from ..core.host import Host
from ..core.kernel_source import Source
from ..core.manifest import Manifest
from ..core.options import NATIVE
from ..core.platforms import platform_name, require_supported
from ..core.requirements import TO_COMPILE, install, missing
from ..core.settings import Origin, Settings
from ..store.artifact import Artifact
from . import plan as plans
from .plan import Plan
from .toolchain import toolchain
from .toolchain.nvcc import NvccCandidate, NvccLimits
from .toolchain.toolchain import Toolchain

INSTALLED = "installed"
# Installs the packages that a compile needs, and the programs they run. It does not install the package's own extra
# `jit`, because on an index the package's name may belong to somebody else.
INSTALL_TOOLS = install([*(name for _, name in TO_COMPILE), "cmake", "ninja"])


def draw_plan_here(
    source: Source,
    version: str,
    settings: Settings,
    cuda: bool,
    host: Host,
    nvccs: Sequence[NvccCandidate] | None = None,
    wheel: Artifact | None = None,
) -> tuple[Plan, Toolchain]:
    """Draw up the Plan for this machine.

    Args:
        source: what to compile.
        version: the package's version.
        settings: the effective options; if they name no architectures, the GPUs' are used.
        cuda: CUDA and CPU kernels, or only CPU kernels.
        host: the machine. CUDA kernels are for its driver, and for its visible GPUs; without any, for a wheel's default
            list.
        nvccs: the result of `look_for_nvcc`, if the search has already been done.
        wheel: the package's own Artifact, if that has CPU kernels that fit: with CUDA kernels, they are taken from it.

    Raises:
        BuildError: this machine cannot compile it; the message says what is missing and how to install it.
    """
    require_supported()
    require_tools()
    settings = settings.changed("platform", NATIVE, Origin("kernels that are compiled at run time"))
    if not settings.archs and cuda and host.capabilities:
        gpus = ";".join("{}.{}".format(*capability) for capability in host.capabilities)
        settings = settings.changed("archs", gpus, Origin("the GPUs of this process"))
    cuda = cuda and source.facts.can_use_cuda
    settings = settings.changed("cuda", "on" if cuda else "off", Origin("what this call needs"))
    tools = toolchain.find_toolchain(settings, os.environ, nvccs, nvcc_limits(source, host))
    taken = takes(wheel.manifest, settings) if wheel and tools.cuda.nvcc else {}
    return plans.draw_plan(source.facts, version, source.folder, settings, tools, taken), tools


def takes(wheel: Manifest, settings: Settings) -> dict[str, str]:
    """The digests of a wheel's libraries that need not be compiled again, by their files: operators for the CPU.

    Empty if they are bound to one Python or torch, or made of extensions, which may be one file for both devices; or if
    they were compiled with other options, or for another platform.
    """
    content, target = without_cuda(wheel.content), wheel.plan["target"]
    now = {**content, "options": settings.content(cuda=False)}
    if target["binding"] or content["extensions"] or content != now or target["platform"] != platform_name():
        return {}
    return {library.file: library.sha256 for library in wheel.libraries_for("cpu")}


def nvcc_limits(source: Source | None, host: Host) -> NvccLimits:
    """Which nvcc will do for a compile on this machine, whose driver must run the kernels."""
    return NvccLimits(any_major=source is not None and not source.facts.binds_cuda, driver=host.driver)


def find_tools() -> dict[str, str]:
    """Look for the Python packages and programs that a compile needs; maps their PyPI names to what was found.

    If all packages are installed, programs are searched as the driver does. Otherwise they are left out.
    """
    absent = missing(TO_COMPILE)
    found = {name: "missing" if name in absent else INSTALLED for _, name in TO_COMPILE}
    if absent:
        return found
    from packaging.specifiers import SpecifierSet
    from scikit_build_core.program_search import best_program, get_cmake_programs, get_ninja_programs

    from .cmake_driver import CMAKE_VERSION, NINJA_VERSION

    for name, wanted, programs in (
        ("cmake", CMAKE_VERSION, get_cmake_programs()),
        ("ninja", NINJA_VERSION, get_ninja_programs()),
    ):
        program = best_program(programs, version=SpecifierSet(wanted))
        found[name] = f"{program.path}: {program.version}" if program else f"missing: {wanted}"
    return found


def require_tools() -> None:
    """Raise an error if a Python package or program that the compile needs is missing."""
    found = find_tools()
    absent = [f"{name} {state}" for name, state in found.items() if state.startswith("missing")]
    if absent:
        raise BuildError(
            "the kernels cannot be compiled here",
            required=", ".join([*(name for _, name in TO_COMPILE), "cmake", "ninja"]),
            found="; ".join(absent),
            remedies=[INSTALL_TOOLS, "or install a wheel that was built for this machine"],
        )
