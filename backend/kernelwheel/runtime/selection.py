"""The selection: which Artifact is loaded for a call or found by `cache build`, or that one is compiled, or the error.

This is the only place that decides, and a pure function of what exists. `find` and `obtain` carry it out; `doctor`
shows it to people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from . import compatible
from .artifact import Artifact
from .compatible import Mismatch, Wanted, capability_mismatch, check
from .content import needs_cuda
from .errors import KernelWheelError
from .host import Host
from .no_kernels import always_compiled, incompatible, never_compiled, no_gpu
from .platforms import SUPPORTED
from .record import Record
from .variables import own_variable

if TYPE_CHECKING:
    from .installed import InstalledPackage


class Request(Record):
    """A request for kernels."""

    device: str  # `cpu` or `cuda`
    # the compute capability of the GPU that a call runs on; None for all GPUs of the Host
    capability: tuple[int, int] | None = None
    # of `cache build`, which loads nothing and may be for GPUs of other machines: what rules CUDA kernels out, of what
    # rules them out here
    build: Callable[[Artifact, tuple[Mismatch, ...]], tuple[Mismatch, ...]] | None = None


class Selection(Record):
    """The outcome of a request."""

    request: Request
    outcome: Literal["load", "compile", "fail"]  # `load` (for a build: nothing to compile), `compile` or `fail`
    because: str  # why, in one or a few lines
    artifact: Artifact | None = None  # what is loaded
    error: KernelWheelError | None = None  # the error to raise if the outcome is `fail`


def select(request: Request, host: Host, candidates: Iterable[Artifact], installed: InstalledPackage) -> Selection:
    """Load the first candidate that fits, compile, or fail."""
    if installed.damage:
        return failed(request, installed.damage)
    if request.device == "cuda" and not request.build and not host.capabilities:
        missing = no_gpu(host)
        error = incompatible(installed.package, "cuda", [missing, *against_own(request, host, installed)])
        return Selection(request, "fail", missing.found, error=error)
    for_one = None  # for the call's GPU alone: one for all GPUs is better, as a process loads one library for CUDA
    try:
        for artifact in candidates:
            if artifact.guard is None and installed.jit == "always":
                continue
            wanted = installed.wanted_of(artifact)
            if not against(artifact, request._replace(capability=None), host, wanted):
                return _fitting(request, artifact)
            if for_one is None and request.capability and not against(artifact, request, host, wanted):
                for_one = artifact
    except KernelWheelError:
        if for_one is None:
            raise
    return _fitting(request, for_one) if for_one else _where_none_fits(request, host, installed)


def failed(request: Request, error: KernelWheelError, before: str = "") -> Selection:
    """A request that ends in an error; `before` is put in front of it, to say what led there."""
    return Selection(request, "fail", f"{before}{error.problem} (found: {error.found})", error=error)


def against(artifact: Artifact, request: Request, host: Host, wanted: Wanted) -> tuple[Mismatch, ...]:
    """The mismatches that rule an Artifact out for a request; empty if it fits."""
    found = compatible.for_device(
        check(artifact.manifest, host.asked_for(artifact.manifest.cpu), wanted), request.device
    )
    if request.device != "cuda":
        return found
    if request.build:
        return request.build(artifact, found)
    if request.capability is None:
        return found
    # The other visible GPUs may be of a different generation.
    found = tuple(mismatch for mismatch in found if mismatch.dimension != "capability")
    reason = None if found else capability_mismatch(artifact.manifest, request.capability, host.driver)
    return (reason,) if reason else found


def against_own(request: Request, host: Host, installed: InstalledPackage) -> tuple[Mismatch, ...]:
    """The mismatches that rule out the package's own Artifact, or the one saying that it has none."""
    if installed.artifact is None:
        return (installed.no_artifact(),)
    return against(installed.artifact, request, host, installed.wanted_of(installed.artifact))


def own_cpu_kernels(host: Host, installed: InstalledPackage) -> Artifact | None:
    """The package's own Artifact, if its CPU kernels are loaded here, and need not be compiled with those for CUDA."""
    fits = installed.jit != "always" and not against_own(Request("cpu"), host, installed)
    return installed.artifact if fits else None


def _fitting(request: Request, artifact: Artifact) -> Selection:
    where = "in the store" if artifact.guard else "in the wheel"
    return Selection(request, "load", f"the kernels {where} fit", artifact)


def _where_none_fits(request: Request, host: Host, installed: InstalledPackage) -> Selection:
    own = against_own(request, host, installed)
    because = "; ".join(f"{m.dimension}: required {m.required}, found {m.found}" for m in own)
    if installed.artifact is None:
        because = installed.no_artifact().found
    elif not own:
        origin = str(installed.settings.origin("jit"))
        because, own = f"jit is always ({origin})", (always_compiled(installed.package, origin),)
    if host.platform not in SUPPORTED:
        own = (*own, never := never_compiled(host.platform))
        error = incompatible(installed.package, request.device, own)
        return Selection(request, "fail", f"{because}; {never.found}", error=error)
    if obstacle := _obstacle_to_compile(request, own, installed):
        error = incompatible(installed.package, request.device, own, obstacle)
        return Selection(request, "fail", f"{because}; {obstacle}", error=error)
    return Selection(request, "compile", because)


def _obstacle_to_compile(request: Request, own: Iterable[Mismatch], installed: InstalledPackage) -> str:
    """Why nothing can be compiled, as far as that is known without a compiler; empty if nothing prevents it.

    An explicit `cache build` is not stopped by `never` or `off`.
    """
    settings, content = installed.settings, installed.content
    if request.device == "cuda" and not request.build and settings.cuda == "off":
        return f"cuda is off ({settings.origin('cuda')})"
    if installed.jit == "never" and not request.build:
        return f"jit is never ({settings.origin('jit')})"
    if not installed.source or not content:
        return "no sources are installed to compile from"
    targeted = settings.cuda == "on" or settings.archs  # if not, kernels are for the GPUs of this process alone
    if request.device == "cpu" and not request.build and needs_cuda(content) and not targeted:
        variable = own_variable(installed.package, "cuda")
        return f"without a GPU, it is compiled only on request: {variable}=on, for TORCH_CUDA_ARCH_LIST or all GPUs"
    if installed.jit != "always" and not all(mismatch.compile_cures for mismatch in own):
        return "compiling would not fix that"
    return ""
