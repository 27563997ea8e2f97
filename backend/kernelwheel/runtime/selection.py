"""The selection: which Artifact is loaded for a call or found by `cache build`, or that one is compiled, or the error.

This is the only place that decides, and a pure function of what exists. `find` and `obtain` carry it out; `prediction`
shows it to people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from . import compatible
from .artifact import Artifact
from .compatible import Mismatch, Wanted, capability_mismatch, check
from .errors import KernelWheelError
from .host import Host
from .no_kernels import always_compiled, incompatible, no_artifact, no_gpu
from .record import Record
from .variables import own_variable

if TYPE_CHECKING:
    from .architectures import ArchList
    from .installed import InstalledPackage


class Request(Record):
    """A request for kernels."""

    device: str  # `cpu` or `cuda`
    # the compute capability of the GPU that a call runs on; None for all GPUs of the Host
    capability: tuple[int, int] | None = None
    build: bool = False  # whether this is `cache build`, which loads nothing and may target GPUs of other machines
    targets: ArchList | None = None  # the architectures that a build must serve, if any are named


class Selection(Record):
    """The outcome of a request."""

    device: str  # `cpu` or `cuda`
    outcome: Literal["load", "compile", "fail"]  # `load` (for a build: nothing to compile), `compile` or `fail`
    because: str  # why, in one or a few lines
    artifact: Artifact | None = None  # what is loaded
    error: KernelWheelError | None = None  # the error to raise if the outcome is `fail`


def select(request: Request, host: Host, candidates: Iterable[Artifact], installed: InstalledPackage) -> Selection:
    """Load the first candidate that fits, compile, or fail."""
    if installed.damage:
        return failed(request.device, installed.damage)
    if request.device == "cuda" and not request.build and not host.capabilities:
        missing = no_gpu(host)
        error = incompatible(installed.package, "cuda", [missing, *against_own(request, host, installed)])
        return Selection(request.device, "fail", missing.found, error=error)
    for_one = None  # for the call's GPU alone: one for all GPUs is better, as a process loads one library for CUDA
    try:
        for artifact in candidates:
            if artifact.store is None and installed.jit == "always":
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


def failed(device: str, error: KernelWheelError, before: str = "") -> Selection:
    """A request that ends in an error; `before` is put in front of it, to say what led there."""
    return Selection(device, "fail", f"{before}{error.problem} (found: {error.found})", error=error)


def against(artifact: Artifact, request: Request, host: Host, wanted: Wanted) -> tuple[Mismatch, ...]:
    """The mismatches that rule an Artifact out for a request; empty if it fits."""
    if request.targets:
        host = host._replace(capabilities=())
    found = compatible.for_device(check(artifact.manifest, host, wanted), request.device)
    if request.device != "cuda":
        return found
    if request.build and not found:
        return compatible.shortfall(artifact.manifest, host, request.targets, in_store=artifact.store is not None)
    if request.capability is None:
        return found
    # The other visible GPUs may be of a different generation.
    found = tuple(mismatch for mismatch in found if mismatch.dimension != "capability")
    reason = None if found else capability_mismatch(artifact.manifest, request.capability, host.driver)
    return (reason,) if reason else found


def against_own(request: Request, host: Host, installed: InstalledPackage) -> tuple[Mismatch, ...]:
    """The mismatches that rule out the package's own Artifact, or the one saying that it has none."""
    if installed.artifact is None:
        return (no_artifact(installed.package, installed.folder),)
    return against(installed.artifact, request, host, installed.wanted_of(installed.artifact))


def own_cpu_kernels(host: Host, installed: InstalledPackage) -> Artifact | None:
    """The package's own Artifact, if its CPU kernels are loaded here, and need not be compiled with those for CUDA."""
    fits = installed.jit != "always" and not against_own(Request("cpu"), host, installed)
    return installed.artifact if fits else None


def compiles_cuda(option: str, device: str, whole: bool = False, needed: bool = False) -> bool:
    """Whether what is compiled at run time has CUDA kernels: what the option `cuda` means there, and only here.

    Args:
        option: its value. off: never. auto: for a GPU, and where nothing can be built without CUDA. on: also for a call
            on the CPU, if one library serves both.
        device: what kernels are requested for, `cpu` or `cuda`.
        whole: whether one library serves CPU and GPU, as modules and extensions do.
        needed: whether something in the package cannot be built without CUDA.
    """
    return option != "off" and (device == "cuda" or (whole and (needed or option == "on")))


def _fitting(request: Request, artifact: Artifact) -> Selection:
    where = "in the store" if artifact.store else "in the wheel"
    return Selection(request.device, "load", f"the kernels {where} fit", artifact)


def _where_none_fits(request: Request, host: Host, installed: InstalledPackage) -> Selection:
    own = against_own(request, host, installed)
    because = "; ".join(f"{m.dimension}: required {m.required}, found {m.found}" for m in own)
    if installed.artifact is None:
        because = "no kernels are installed with the package, as in an editable install"
    elif not own:
        because = f"jit is always ({installed.jit_origin})"
        own = (always_compiled(installed.package, installed.jit_origin),)
    if obstacle := _obstacle_to_compile(request, own, installed):
        error = incompatible(installed.package, request.device, own, obstacle)
        return Selection(request.device, "fail", f"{because}; {obstacle}", error=error)
    return Selection(request.device, "compile", because)


def _obstacle_to_compile(request: Request, own: Iterable[Mismatch], installed: InstalledPackage) -> str:
    """Why nothing can be compiled, as far as that is known without a compiler; empty if nothing prevents it.

    An explicit `cache build` is not stopped by `never` or `off`.
    """
    if request.device == "cuda" and not request.build and not compiles_cuda(installed.cuda, "cuda"):
        return f"cuda is off ({installed.cuda_origin})"
    if installed.jit == "never" and not request.build:
        return f"jit is never ({installed.jit_origin})"
    if not installed.has_sources:
        return "no sources are installed to compile from"
    if request.device == "cpu" and not request.build and installed.needs_cuda and installed.untargeted:
        variable = own_variable(installed.package, "cuda")
        return f"without a GPU, it is compiled only on request: {variable}=on, for TORCH_CUDA_ARCH_LIST or all GPUs"
    if installed.jit != "always" and not all(mismatch.compile_cures for mismatch in own):
        return "compiling would not fix that"
    return ""
