"""Predictions of what the next call and the next `cache build` will do, for `doctor` and `cache explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..compiler import run_time
from ..compiler.plan import Plan
from ..compiler.toolchain.cuda import look_for_nvcc
from ..compiler.toolchain.nvcc import NvccCandidate
from ..compiler.toolchain.torch_files import find_torch
from ..core.errors import KernelWheelError
from ..core.host import Host
from ..core.settings import Settings
from ..loader import cache_build
from ..loader.find import foresee
from ..loader.installed import InstalledPackage
from ..loader.loading import needed_for
from ..loader.refusal import no_sources
from ..loader.selection import Decision, Request, failed, own_cpu_kernels
from ..store.artifact import Artifact
from ..store.inventory import UNREADABLE


class NextCall(NamedTuple):
    """What the next call on a device type will do, for GPUs of one compute capability if there are any."""

    decision: Decision
    capability: str | None


def next_calls(package: InstalledPackage, host: Host, nvccs: Sequence[NvccCandidate] | None) -> Iterator[NextCall]:
    """Predict the next call on the CPU, and on each compute capability among the visible GPUs.

    Args:
        package: the package whose kernels are called.
        host: the machine, including its GPUs.
        nvccs: from `list_nvccs`.
    """
    requests = [Request("cpu"), *(Request("cuda", capability) for capability in host.capabilities or (None,))]
    for request in requests:
        decision = foresee(package, host, request, _verify_loaded(request.device))
        if decision.outcome == "compile":
            _, no_plan = plan_for(package, host, package.settings, request.device, nvccs)
            decision = _without_tools(decision, no_plan) if no_plan else decision
        yield NextCall(decision, "{}.{}".format(*request.capability) if request.capability else None)


def next_build(
    package: InstalledPackage,
    host: Host,
    nvccs: Sequence[NvccCandidate] | None,
    cuda: bool | None = None,
    archs: str = "",
) -> Decision:
    """Predict `cache build`. Takes the arguments of `cache_build.build`; `cuda` defaults as in the command."""
    device = "cpu"
    try:
        device = "cuda" if (cache_build.wants_cuda(package, host) if cuda is None else cuda) else "cpu"
        request = cache_build.request_for(package, device == "cuda", archs)
        settings = cache_build.settings_for(package, archs)
    except KernelWheelError as error:
        return failed(device, error)
    decision = foresee(package, host, request, Artifact.verify)
    if decision.outcome != "compile":
        return decision
    plan, no_plan = plan_for(package, host, settings, device, nvccs)
    if plan is None:
        return _without_tools(decision, no_plan) if no_plan else decision
    return _of_the_very_plan(package, plan, device) or decision


def plan_for(
    package: InstalledPackage, host: Host, settings: Settings, device: str, nvccs: Sequence[NvccCandidate] | None
) -> tuple[Plan, None] | tuple[None, KernelWheelError]:
    """The Plan that would be compiled for a machine's GPUs, or the error that prevents it."""
    if package.source is None:
        return None, no_sources(package.package)
    try:
        cuda = device == "cuda"
        wheel = own_cpu_kernels(host, package) if cuda else None
        plan, _ = run_time.draw_plan_here(package.source, package.version, settings, cuda, host, nvccs, wheel)
    except KernelWheelError as error:
        return None, error
    return plan, None


def list_nvccs(
    package: InstalledPackage, host: Host, environ: Mapping[str, str], path: Sequence[str]
) -> tuple[NvccCandidate, ...] | None:
    """Every place where nvcc may be, searched once for all predictions; None if not needed or not possible."""
    try:
        torch = find_torch()
        if torch.cuda is None or package.settings.cuda == "off":
            return None
        limits = run_time.nvcc_limits(package.source, host)
        return tuple(look_for_nvcc(package.settings, torch, environ, path, limits))
    except KernelWheelError:  # whoever needs nvcc will get the same error
        return None


def _of_the_very_plan(package: InstalledPackage, plan: Plan, device: str) -> Decision | None:
    """The entry of exactly this Plan, if it exists: only the Plan knows the default architectures."""
    *_, store = package.stores()
    try:
        artifact = store.read(store.root / plan.fingerprint)
        artifact.verify()
    except UNREADABLE as error:
        return failed(device, error)
    except KernelWheelError:  # missing, or damaged: then a build quarantines it
        return None
    return Decision(device, "load", "the store already has what would be compiled", artifact)


def _without_tools(expected: Decision, error: KernelWheelError) -> Decision:
    """Turn a decision to compile into one to fail, if this machine cannot compile."""
    return failed(expected.device, error, before=f"{expected.because}; compiling would fail: ")


def _verify_loaded(device: str) -> Callable[[Artifact], None]:
    """Verify only what a call on a device type loads."""

    def verify(artifact: Artifact) -> None:
        for name in needed_for(device):
            for library in artifact.manifest.libraries_for(name):
                artifact.verify_library(library)

    return verify
