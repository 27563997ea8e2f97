"""What the next call, or the next `cache build`, will do and why: load kernels, compile them, or fail.

As `runtime` and `serving` decide, without doing it. A function of what is there; `foresight` looks what that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.architectures import ArchList
from ..core.errors import KernelWheelError, UnreadableArtifactError
from ..core.host import Host
from ..core.verdict import Mismatch, Wanted, check
from ..store.artifact import Artifact
from . import serving
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
    """

    wanted: Wanted
    artifacts: Sequence[Artifact]
    damage: KernelWheelError | None
    blocked: KernelWheelError | None
    jit: str
    jit_origin: str
    cuda_off: str
    sources: bool


@dataclass(frozen=True)
class Task:
    """What is to be done: a call on a device type of a machine, or `cache build` for it.

    Attributes:
        device: `cpu` or `cuda`.
        host: the machine, with the GPU that a call is for, or those that a build is for.
        build: whether it is `cache build`.
        targets: the architectures that a build must serve, where the settings name any.
    """

    device: str
    host: Host
    build: bool = False
    targets: ArchList | None = None


@dataclass(frozen=True)
class Forecast:
    """What comes of a task.

    Attributes:
        device: `cpu` or `cuda`.
        outcome: `load` (of a build: there is nothing to compile), `compile` or `fail`.
        because: why, in one or a few lines.
        artifact: the folder of what is loaded.
        remedies: what helps, where it fails.
        capability: of the GPU that a call is for.
    """

    device: str
    outcome: str
    because: str
    artifact: str | None = None
    remedies: tuple[str, ...] = ()
    capability: str | None = None


def forecast(
    task: Task, at: Circumstances, fault: Callable[[Artifact], KernelWheelError | None] = lambda found: None
) -> Forecast:
    """What comes of a task where a compile, if it comes to that, succeeds.

    Args:
        task: what is to be done.
        at: the circumstances.
        fault: what is wrong with the files of an Artifact that the task would use; asked of those alone that fit.
    """
    device, host = task.device, task.host
    if at.damage:
        return failure(device, at.damage)
    if device == "cuda" and not task.build and not host.capabilities:
        because = f"torch {host.torch} has no CUDA" if host.cuda is None else "torch sees no GPU"
        return Forecast(device, "fail", because, remedies=("use CPU tensors, or run where torch sees a GPU",))
    against: tuple[Mismatch, ...] | None = None  # of the wheel's Artifact
    for found in at.artifacts:
        mismatches = _against(task, at.wanted, found)
        if found.store is None:
            against = mismatches
            if at.jit == "always":
                continue
        if mismatches:
            continue
        error = fault(found)
        if error is None:
            where = "in the store" if found.store else "of the wheel"
            return Forecast(device, "load", f"the kernels {where} fit", str(found.folder))
        if isinstance(error, UnreadableArtifactError) or found.store is None or not found.store.own:
            return failure(device, error)
        # A damaged entry of the user's own store is put away, and the next is tried.
    if at.blocked:
        return failure(device, at.blocked)
    return _without(task, against, at)


def _against(task: Task, wanted: Wanted, found: Artifact) -> tuple[Mismatch, ...]:
    if task.build:
        return serving.against(found, task.host, wanted, task.device, task.targets)
    return check(found.manifest, task.host, wanted).against(task.device)


def _without(task: Task, against: tuple[Mismatch, ...] | None, at: Circumstances) -> Forecast:
    """The forecast where nothing at hand fits."""
    device = task.device
    because = "; ".join(f"{m.dimension}: required {m.required}, found {m.found}" for m in against or ())
    if against is None:
        because = "no kernels are installed with the package"
    elif not against:
        because = f"jit is always ({at.jit_origin})"
    remedies = tuple(mismatch.remedy for mismatch in against or ())
    remedies = remedies or ("install a wheel that was built for this machine (pip install . in a checkout makes one)",)
    # Who asks for a build in so many words is stopped neither by `never` nor by `off`.
    jit = "auto" if task.build and at.jit == "never" else at.jit
    off = at.cuda_off if device == "cuda" and not task.build else ""
    if obstacle := obstacle_to_compile(against or (), jit, at.jit_origin, at.sources, off):
        return Forecast(device, "fail", f"{because}; {obstacle}", remedies=remedies)
    return Forecast(device, "compile", because)


def without_tools(expected: Forecast, error: KernelWheelError) -> Forecast:
    """The same, where this machine turns out to be unable to compile."""
    failed = failure(expected.device, error)
    because = f"{expected.because}; a compile would start: {failed.because}"
    return Forecast(expected.device, "fail", because, remedies=failed.remedies)


def failure(device: str, error: KernelWheelError) -> Forecast:
    """A task that ends in an error."""
    return Forecast(device, "fail", f"{error.problem} (found: {error.found})", remedies=error.remedies)
