"""The search for everything that this machine compiles with, once in each process that compiles.

Everything is read from files and `--version` output. torch is not imported, and GPUs are never queried: the hardware of
the build machine says nothing about where the wheel will run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..project.build_platforms import Platform, WindowsBuild
from ..project.build_settings import BuildSettings
from ..requirements import FOR_WINDOWS, RELEASES, missing
from ..runtime.errors import BuildError
from ..runtime.machine.platforms import platform_name
from ..runtime.settings import Origin
from .compile_job import CompileJob
from .cross.target_platform import cross_platform, for_target, refuse_libraries_on_all_of_torch
from .cross.windows.zig import find_zig
from .toolchain.cuda import decide_cuda, parts_for_clang
from .toolchain.cxx import Cxx, find_cxx
from .toolchain.launchers import Launchers, find_launchers
from .toolchain.nvcc import LIKE_TORCH, NvccLimits, NvccSearch, find_cuobjdump
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit import Nvcc
from .toolchain.torch_files import find_torch


def find_toolchain(
    settings: BuildSettings, environ: Mapping[str, str], limits: NvccLimits = LIKE_TORCH, *, binds_torch: bool = False
) -> Toolchain:
    """Find everything that the settings require; with `binds_torch`, for more than torch's stable ABI.

    Raises:
        BuildError: something is missing or does not fit; lists the places searched and the remedies.
    """
    target = cross_platform(settings)
    if target and binds_torch:
        raise refuse_libraries_on_all_of_torch(target)
    torch = find_torch()
    cuda = decide_cuda(NvccSearch(_without_auto(settings, target), torch, environ, sys.path, limits))
    if target and cuda.nvcc:
        cuda = replace(cuda, nvcc=for_target(cuda.nvcc, settings, target))
    cuobjdump = find_cuobjdump(cuda.nvcc, torch.root.parent, environ) if cuda.nvcc else None
    cxx, launchers = find_compiler(settings, environ, cuda.nvcc, target)
    return Toolchain(torch, cxx, cuda, cuobjdump, launchers, settings, target)


def find_compiler(
    settings: BuildSettings, environ: Mapping[str, str], nvcc: Nvcc | None, target: Platform | None
) -> tuple[Cxx, Launchers]:
    """The C++ compiler, and what starts the compilers; raises as `find_toolchain`."""
    if isinstance(target, WindowsBuild):
        return find_zig(settings, environ, target), Launchers()
    launchers = find_launchers(settings, environ, nvcc is not None and not nvcc.clang)
    return find_cxx(settings, environ, nvcc, target), launchers


def describe_compiler(cxx: Cxx, launchers: Launchers) -> list[str]:
    """What was looked at and what was taken, one line each."""
    words = [*launchers.cxx, str(cxx.path)]
    return [*cxx.passed_over, f"{' '.join(words)}: {cxx.kind} {cxx.version}"]


def toolchain_for(job: CompileJob, environ: Mapping[str, str]) -> Toolchain:
    """What a job is compiled with; raises as `find_toolchain`."""
    return find_toolchain(job.settings, environ, nvcc_limits(job), binds_torch=job.facts.binds_torch)


def nvcc_limits(job: CompileJob) -> NvccLimits:
    """Which nvcc will do: for kernels that must run here, one that serves the driver; for others, `drivers` says."""
    oldest = tuple(map(int, job.settings.drivers.split("."))) if job.settings.drivers else None
    return NvccLimits(not job.facts.binds_cuda, job.driver, oldest)


def describe_toolchain(tools: Toolchain) -> Iterator[str]:
    """What was looked at and what was taken, one line each, for the log of a wheel's build."""
    for candidate in tools.cuda.candidates:
        yield f"nvcc: {candidate.origin}: {candidate.place}: {candidate.outcome}"
    yield from (f"c++: {line}" for line in describe_compiler(tools.cxx, tools.launchers))
    if tools.target:
        yield f"platform: {tools.platform}, on {platform_name()} ({tools.settings.origin('platform')})"
    yield f"CUDA kernels: {'yes' if tools.cuda.nvcc else 'no'}, because {tools.cuda.reason}"


def parts_to_install(job: CompileJob, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What pip must install besides the build requirements: zig for Windows; parts of CUDA 12, if only clang will do.

    Without torch there are none of these; the build itself says that it is missing.
    """
    target = cross_platform(job.settings)
    zig = missing(FOR_WINDOWS) if isinstance(target, WindowsBuild) else []
    needed = tuple(name + RELEASES.get(name, "") for name in zig)
    try:
        torch = find_torch()
    except BuildError:
        return needed
    settings = _without_auto(job.settings, target)
    return needed + parts_for_clang(NvccSearch(settings, torch, environ, sys.path, nvcc_limits(job)))


def _without_auto(settings: BuildSettings, target: Platform | None) -> BuildSettings:
    """For Windows, CUDA kernels are built if they are asked for: by clang, with parts that pip brings to no build."""
    if isinstance(target, WindowsBuild) and settings.cuda == "auto":
        return settings.changed("cuda", "off", Origin(f"the default for {target.name}"))
    return settings
