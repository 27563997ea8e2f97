"""What the next call will do, and why: load kernels, compile them, or fail. As `runtime` decides, without doing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .compat import Mismatch, Wanted, check
from .errors import KernelWheelError
from .found import Found
from .host import Host
from .refusal import obstacle_to_compile


@dataclass(frozen=True)
class Circumstances:
    """All that decides what a call does, beside the Host.

    Attributes:
        wanted: what Artifacts are held against.
        artifacts: those at hand, in the order in which they are tried; the wheel's has no store.
        damage: what is wrong with the wheel's Artifact; nothing else is tried then.
        blocked: why no more stores were looked into: one that is not safe, or settings that cannot be read.
        jit: the setting.
        jit_origin: where that came from.
        cuda_off: where it was said that the setting `cuda` is off; empty: it is not.
        sources: whether there is something to compile from.
        no_tools: why this machine cannot compile; None where it can, or where it was not asked.
    """

    wanted: Wanted
    artifacts: Sequence[Found]
    damage: KernelWheelError | None
    blocked: KernelWheelError | None
    jit: str
    jit_origin: str
    cuda_off: str
    sources: bool
    no_tools: KernelWheelError | None


@dataclass(frozen=True)
class Forecast:
    """What the next call on a device type does.

    Attributes:
        device: `cpu` or `cuda`.
        outcome: `load`, `compile` or `fail`.
        because: why, in one or a few lines.
        artifact: the folder of what is loaded.
        remedies: what helps, where it fails.
        capability: of the GPU that the call is for.
    """

    device: str
    outcome: str
    because: str
    artifact: str | None = None
    remedies: tuple[str, ...] = ()
    capability: str | None = None


def forecast(device: str, host: Host, at: Circumstances) -> Forecast:
    """What the next call does on a device type of a machine; `host` has the GPU that the call is for."""
    if at.damage:
        return _failure(device, at.damage)
    if device == "cuda" and not host.capabilities:
        because = f"torch {host.torch} has no CUDA" if host.cuda is None else "torch sees no GPU"
        return Forecast(device, "fail", because, remedies=("use CPU tensors, or run where torch sees a GPU",))
    against: tuple[Mismatch, ...] | None = None  # of the wheel's Artifact
    for found in at.artifacts:
        mismatches = check(found.manifest, host, at.wanted).against(device)
        if found.store is None:
            against = mismatches
            if at.jit == "always":
                continue
        if not mismatches:
            where = "in the store" if found.store else "of the wheel"
            return Forecast(device, "load", f"the kernels {where} fit", str(found.folder))
    if at.blocked:
        return _failure(device, at.blocked)
    return _without(device, against, at)


def _without(device: str, against: tuple[Mismatch, ...] | None, at: Circumstances) -> Forecast:
    """The forecast where nothing at hand fits."""
    because = "; ".join(f"{m.dimension}: required {m.required}, found {m.found}" for m in against or ())
    if against is None:
        because = "no kernels are installed with the package"
    elif not against:
        because = f"jit is always ({at.jit_origin})"
    remedies = tuple(mismatch.remedy for mismatch in against or ())
    remedies = remedies or ("install a wheel that was built for this machine (pip install . in a checkout makes one)",)
    off = at.cuda_off if device == "cuda" else ""
    if obstacle := obstacle_to_compile(against or (), at.jit, at.jit_origin, at.sources, off):
        return Forecast(device, "fail", f"{because}; {obstacle}", remedies=remedies)
    if at.no_tools:
        failure = _failure(device, at.no_tools)
        return Forecast(device, "fail", f"{because}; a compile would start: {failure.because}", None, failure.remedies)
    return Forecast(device, "compile", because)


def _failure(device: str, error: KernelWheelError) -> Forecast:
    return Forecast(device, "fail", f"{error.problem} (found: {error.found})", remedies=error.remedies)
