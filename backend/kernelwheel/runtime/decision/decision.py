"""The decision: which Artifact is loaded for a call or found by `cache build`, or that one is compiled, or the error.

This is the only place that decides: pure functions of a Snapshot and a Request. `find` carries a Decision out;
`doctor` and `cache explain` show it to people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ..artifact.artifact import Artifact, Damaged
from ..artifact.compatible import Mismatch, capability_mismatch, check
from ..artifact.content import needs_cuda, only
from ..errors import KernelWheelError
from ..machine.platforms import SUPPORTED
from ..record import Record
from ..variables import own_variable
from .no_kernels import always_compiled, because_of, incompatible, never_compiled, no_gpu, none_made
from .snapshot import Snapshot


class Request(Record):
    """A request for kernels: that of a call. Those of `cache build` and its kind are in store/build_ahead.py."""

    device: str  # `cpu` or `cuda`
    # the compute capability of the GPU that a call runs on; None for all GPUs of the Host
    capability: tuple[int, int] | None = None
    part: str = ""  # the part of the package that has them; empty: all of it

    build = False  # whether it is explicit: not stopped by `never` or `off`

    @property
    def for_all_gpus(self) -> bool:
        """Whether CUDA kernels must fit every GPU of the Host; the others may be of a different generation."""
        return self.capability is None

    def lacking(self, snapshot: Snapshot, artifact: Artifact) -> tuple[Mismatch, ...]:
        """What CUDA kernels lack for it that fit this machine."""
        if self.capability is None:
            return ()
        reason = capability_mismatch(artifact.manifest, self.capability, snapshot.host.driver)
        return (reason,) if reason else ()


class Decision(Record):
    """The outcome of a request."""

    request: Request
    outcome: Literal["load", "compile", "fail"]  # `load` (for a build: nothing to compile), `compile` or `fail`
    because: str  # why, in one or a few lines
    artifact: Artifact | None = None  # what is loaded
    error: KernelWheelError | None = None  # the error to raise if the outcome is `fail`
    damaged: tuple[Damaged, ...] = ()  # entries that were passed over, to be put away
    own: tuple[Mismatch, ...] = ()  # what rules out the package's own Artifact, if nothing fits


def decide_on_wheel(snapshot: Snapshot, request: Request) -> Decision | None:
    """What the wheel alone decides, for which nothing else needs to have been read; None: the rest counts too."""
    if snapshot.damage:
        return failed(request, snapshot.damage)
    if request.device == "cuda" and not request.build and not snapshot.host.capabilities:
        missing = no_gpu(snapshot.host)
        error = incompatible(snapshot.package, "cuda", [missing, *against_own(snapshot, request)])
        return Decision(request, "fail", missing.found, error=error)
    own = snapshot.artifact
    if own and snapshot.jit not in ("", "always") and not against(snapshot, request._replace(capability=None), own):
        return _fitting(request, own)
    return None


def decide(snapshot: Snapshot, request: Request) -> Decision:
    """Load the first candidate that fits, compile, or fail."""
    if decided := decide_on_wheel(snapshot, request):
        return decided
    for_one = None  # for the call's GPU alone: one for all GPUs is better, as a process loads one library for CUDA
    damaged: tuple[Damaged, ...] = ()
    for each in snapshot.entries if snapshot.jit in ("", "always") else snapshot.candidates:
        if isinstance(each, Damaged):
            damaged = (*damaged, each)
        elif not against(snapshot, request._replace(capability=None), each):
            return _fitting(request, each, damaged)
        elif for_one is None and request.capability and not against(snapshot, request, each):
            for_one = _fitting(request, each, damaged)
    if for_one:
        return for_one
    if error := snapshot.error:
        own = against_own(snapshot, request)
        return failed(request, none_made(snapshot.package, request.device, own, error))._replace(damaged=damaged)
    return _where_none_fits(snapshot, request)._replace(damaged=damaged)


def failed(request: Request, error: KernelWheelError, before: str = "") -> Decision:
    """A request that ends in an error; `before` is put in front of it, to say what led there."""
    return Decision(request, "fail", f"{before}{error.problem} (found: {error.found})", error=error)


def against(snapshot: Snapshot, request: Request, artifact: Artifact) -> tuple[Mismatch, ...]:
    """The mismatches that rule an Artifact out for a request; empty if it fits."""
    artifact = artifact.only(request.part)
    parts = artifact.manifest.content["parts"]
    if lacking := {*filter(None, [request.part] if request.part else snapshot.parts)}.difference(parts):
        required, has = f"the kernels of {min(lacking)}", f"those of {', '.join(parts) or 'no part'}"
        return (Mismatch("part", required, has, f"rebuild {snapshot.package}"),)
    if request.device == "cpu" and not artifact.manifest.plan["target"]["cpu_kernels"]:
        return (Mismatch("part", "kernels for the CPU", "kernels for CUDA alone", f"rebuild {snapshot.package}"),)
    every = check(artifact.manifest, snapshot.host, snapshot.wanted_of(artifact))
    found = tuple(mismatch for mismatch in every if mismatch.device in ("cpu", request.device))
    if request.device != "cuda":
        return found
    if not request.for_all_gpus:
        found = tuple(mismatch for mismatch in found if mismatch.dimension != "capability")
    return found or request.lacking(snapshot, artifact)


def against_own(snapshot: Snapshot, request: Request) -> tuple[Mismatch, ...]:
    """The mismatches that rule out the package's own Artifact, or the one saying that it has none."""
    if snapshot.artifact is None:
        return (snapshot.missing,) if snapshot.missing else ()
    return against(snapshot, request, snapshot.artifact)


def verdict(snapshot: Snapshot) -> tuple[Mismatch, ...]:
    """All mismatches of the wheel's Artifact; if it is missing or damaged, that is the only one."""
    if damage := snapshot.damage:
        remedy = "; ".join(damage.remedies)
        return (Mismatch("artifact", damage.required, damage.found, remedy, compile_cures=False),)
    if snapshot.artifact is None:
        return against_own(snapshot, Request("cpu"))
    return check(snapshot.artifact.manifest, snapshot.host, snapshot.wanted_of(snapshot.artifact))


def _fitting(request: Request, artifact: Artifact, damaged: tuple[Damaged, ...] = ()) -> Decision:
    where = "in the store" if artifact.guard else "in the wheel"
    return Decision(request, "load", f"the kernels {where} fit", artifact.only(request.part), damaged=damaged)


def _where_none_fits(snapshot: Snapshot, request: Request) -> Decision:
    own = against_own(snapshot, request)
    because = because_of(own)
    if snapshot.missing:
        because = snapshot.missing.found
    elif not own:
        assert snapshot.settings
        origin = str(snapshot.settings.origin("jit"))
        because, own = f"jit is always ({origin})", (always_compiled(snapshot.package, origin),)
    if snapshot.host.platform not in SUPPORTED:
        own = (*own, never := never_compiled(snapshot.host.platform))
        obstacle, error = never.found, incompatible(snapshot.package, request.device, own)
    elif obstacle := _obstacle_to_compile(snapshot, request, own):
        error = incompatible(snapshot.package, request.device, own, obstacle)
    else:
        return Decision(request, "compile", because, own=own)
    return Decision(request, "fail", f"{because}; {obstacle}", error=error, own=own)


def _obstacle_to_compile(snapshot: Snapshot, request: Request, own: Iterable[Mismatch]) -> str:
    """Why nothing can be compiled, as far as that is known without a compiler; empty if nothing prevents it."""
    settings, content = snapshot.settings, snapshot.wanted.content
    assert settings
    if request.device == "cuda" and not request.build and settings.cuda == "off":
        return f"cuda is off ({settings.origin('cuda')})"
    if snapshot.jit == "never" and not request.build:
        return f"jit is never ({settings.origin('jit')})"
    if not snapshot.sources or not content:
        return "no sources are installed to compile from"
    if request.part and request.part not in content["parts"]:
        return f"no part {request.part} is declared: {', '.join(content['parts']) or 'there are none'}"
    content = only(content, request.part)
    targeted = settings.cuda == "on" or settings.archs  # if not, kernels are for the GPUs of this process alone
    if request.device == "cpu" and not request.build and needs_cuda(content) and not targeted:
        variable = own_variable(snapshot.package, "cuda")
        return f"without a GPU, it is compiled only on request: {variable}=on, for TORCH_CUDA_ARCH_LIST or all GPUs"
    if snapshot.jit != "always" and not all(mismatch.compile_cures for mismatch in own):
        return "compiling would not fix that"
    return ""
