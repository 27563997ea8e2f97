"""Compiling an Artifact that is not available yet, once, while other processes wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..compiler import cached_build, run_time
from ..core.host import Host
from ..core.platforms import require_supported
from ..core.settings import Settings
from ..store.artifact import Artifact
from ..store.publishing import making
from .find import find
from .installed import InstalledPackage
from .refusal import no_sources
from .selection import Request, own_cpu_kernels


class Provided(NamedTuple):
    """An Artifact for a request, and whether it was compiled just now."""

    artifact: Artifact
    compiled: bool


def provide(
    package: InstalledPackage, host: Host, request: Request, settings: Settings, say: Callable[[str], None]
) -> Provided:
    """Compile the Artifact for a request into the user's own store, unless another process has done so. Loads nothing.

    Args:
        package: the package that needs kernels.
        host: the machine.
        request: the kernels requested, which `decide` has found must be compiled.
        settings: the effective options.
        say: receives progress, one line per call.

    Raises:
        KernelWheelError: nothing can be built on this platform; or as `find`; or there are no sources, it does not
            compile, or it cannot be stored.
    """
    require_supported()  # before a store is touched
    *_, store = package.stores()
    with making(store, lambda maker: say(f"waiting for {maker}")):
        decision = find(package, host, request, Artifact.verify)  # another process may have compiled it while we waited
        if decision.error:
            raise decision.error
        if decision.artifact:
            return Provided(decision.artifact, False)
        if package.source is None:
            raise no_sources(package.package)
        if not request.build:
            kernels = f"{request.device.upper()} kernels for this machine"
            say(f"no {kernels} ({decision.because}): compiling them now")
        cuda = request.device == "cuda"
        if package.source.facts.whole and not request.build:  # one file for both; without a GPU, on request
            cuda = cuda or package.needs_cuda or settings.cuda == "on"
        wheel = own_cpu_kernels(host, package) if cuda else None
        plan, tools = run_time.draw_plan_here(package.source, package.version, settings, cuda, host, wheel=wheel)
        if plan.sources_digest != package.wanted_sources:
            package.look_again(plan.sources_digest)
        folder = package.source.folder
        return Provided(*cached_build.compile_once(plan, tools, folder, store, settings.jobs, say, wheel))
