"""The decision to load an available Artifact, compile one, or fail, for a call or `cache build`.

This is the only place that decides, and a pure function of what exists. `finding` and `provide` carry the decision out;
`foresight` reports it to people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from ..core.compatible import Mismatch, Wanted, capability_mismatch, check
from ..core.errors import KernelWheelError
from ..core.host import Host
from ..core.record import Record
from ..core.variables import own_variable
from ..store.artifact import Artifact
from .refusal import always_compiled, incompatible, no_artifact, no_gpu

if TYPE_CHECKING:
    from ..core.architectures import ArchList
    from .terms import Terms


class Request(Record):
    """A request for kernels.

    Attributes:
        device: `cpu` or `cuda`.
        capability: the compute capability of the GPU that a call runs on; None for all GPUs of the Host.
        build: whether this is `cache build`, which loads nothing and may target GPUs of other machines.
        targets: the architectures that a build must serve, if any are named.
    """

    device: str
    capability: tuple[int, int] | None = None
    build: bool = False
    targets: ArchList | None = None


class Decision(Record):
    """The outcome of a request.

    Attributes:
        device: `cpu` or `cuda`.
        outcome: `load` (for a build: nothing to compile), `compile` or `fail`.
        because: why, in one or a few lines.
        artifact: what is loaded.
        error: the error to raise if the outcome is `fail`.
    """

    device: str
    outcome: Literal["load", "compile", "fail"]
    because: str
    artifact: Artifact | None = None
    error: KernelWheelError | None = None


def decide(request: Request, host: Host, candidates: Iterable[Artifact], terms: Terms) -> Decision:
    """Load the first candidate that fits, compile, or fail.

    Args:
        request: the kernels requested.
        host: the machine, including its GPUs if the request is for CUDA.
        candidates: the available Artifacts, in the order to try them; read no further than needed.
        terms: what else decides, in particular whether to compile if none fits.

    Raises:
        KernelWheelError: reading the candidates failed for good, as for an unsafe store.
    """
    if terms.damage:
        return failed(request.device, terms.damage)
    if request.device == "cuda" and not request.build and not host.capabilities:
        missing = no_gpu(host)
        error = incompatible(terms.package, "cuda", [missing, *against_own(request, host, terms)])
        return Decision(request.device, "fail", missing.found, error=error)
    fitting = _first_that_fits(request, host, candidates, terms)
    if fitting:
        where = "in the store" if fitting.store else "in the wheel"
        return Decision(request.device, "load", f"the kernels {where} fit", fitting)
    return _where_none_fits(request, host, terms)


def failed(device: str, error: KernelWheelError, before: str = "") -> Decision:
    """A request that ends in an error; `before` is put in front of it, to say what led there."""
    return Decision(device, "fail", f"{before}{error.problem} (found: {error.found})", error=error)


def against(artifact: Artifact, request: Request, host: Host, wanted: Wanted) -> tuple[Mismatch, ...]:
    """The mismatches that rule an Artifact out for a request; empty if it fits."""
    if request.targets:
        host = host._replace(capabilities=())
    found = check(artifact.manifest, host, wanted).against(request.device)
    if request.device != "cuda":
        return found
    if request.build and not found:
        from .coverage import shortfall

        return shortfall(artifact, host, request.targets)
    if request.capability is None:
        return found
    # The other visible GPUs may be of a different generation.
    found = tuple(mismatch for mismatch in found if mismatch.dimension != "capability")
    reason = None if found else capability_mismatch(artifact.manifest, request.capability, host.driver)
    return (reason,) if reason else found


def against_own(request: Request, host: Host, terms: Terms) -> tuple[Mismatch, ...]:
    """The mismatches that rule out the package's own Artifact, or the one saying that it has none."""
    if terms.artifact is None:
        return (no_artifact(terms.package, terms.folder),)
    return against(terms.artifact, request, host, terms.wanted_of(terms.artifact))


def own_cpu_kernels(host: Host, terms: Terms) -> Artifact | None:
    """The package's own Artifact, if its CPU kernels are loaded here, and need not be compiled with those for CUDA."""
    return None if terms.jit == "always" or against_own(Request("cpu"), host, terms) else terms.artifact


def _first_that_fits(request: Request, host: Host, candidates: Iterable[Artifact], terms: Terms) -> Artifact | None:
    """Prefer an Artifact for all GPUs to one for the call's GPU: a process loads only one library of CUDA kernels."""
    for_one = None
    try:
        for artifact in candidates:
            if artifact.store is None and terms.jit == "always":
                continue
            wanted = terms.wanted_of(artifact)
            if not against(artifact, request._replace(capability=None), host, wanted):
                return artifact
            if for_one is None and request.capability and not against(artifact, request, host, wanted):
                for_one = artifact
    except KernelWheelError:
        if for_one is None:
            raise
    return for_one


def _where_none_fits(request: Request, host: Host, terms: Terms) -> Decision:
    own = against_own(request, host, terms)
    because = "; ".join(f"{m.dimension}: required {m.required}, found {m.found}" for m in own)
    if terms.artifact is None:
        because = "no kernels are installed with the package, as in an editable install"
    elif not own:
        because = f"jit is always ({terms.jit_origin})"
        own = (always_compiled(terms.package, terms.jit_origin),)
    if obstacle := _obstacle_to_compile(request, own, terms):
        error = incompatible(terms.package, request.device, own, obstacle)
        return Decision(request.device, "fail", f"{because}; {obstacle}", error=error)
    return Decision(request.device, "compile", because)


def _obstacle_to_compile(request: Request, own: Iterable[Mismatch], terms: Terms) -> str:
    """Why nothing can be compiled, as far as that is known without a compiler; empty if nothing prevents it.

    An explicit `cache build` is not stopped by `never` or `off`.
    """
    if request.device == "cuda" and not request.build and terms.cuda_off:
        return f"cuda is off ({terms.cuda_off})"
    if terms.jit == "never" and not request.build:
        return f"jit is never ({terms.jit_origin})"
    if not terms.has_sources:
        return "no sources are installed to compile from"
    if request.device == "cpu" and not request.build and terms.needs_cuda and terms.untargeted:
        variable = own_variable(terms.package, "cuda")
        return f"without a GPU, it is compiled only on request: {variable}=on, for TORCH_CUDA_ARCH_LIST or all GPUs"
    if terms.jit != "always" and not all(mismatch.compile_cures for mismatch in own):
        return "compiling would not fix that"
    return ""
