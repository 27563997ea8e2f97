"""What a call, or `cache build`, does: load an Artifact at hand, compile one, or fail. The one place that decides.

A pure function of what is there. `finding` and `provide` carry the decision out, `foresight` tells people of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from ..core.errors import IncompatibleArtifactError, KernelWheelError
from ..core.host import Host
from ..core.verdict import Mismatch, Wanted, capability_mismatch, check
from ..store.artifact import Artifact
from .refusal import always_compiled, incompatible, no_artifact, no_gpu

if TYPE_CHECKING:
    from ..core.architectures import ArchList


class Request(NamedTuple):
    """What is asked for.

    Attributes:
        device: `cpu` or `cuda`.
        capability: the compute capability of the GPU that a call is for; None: that of every GPU of the Host.
        build: whether it is `cache build`, which loads nothing and may be for GPUs that are not here.
        targets: the architectures that a build must serve, if any are named.
    """

    device: str
    capability: tuple[int, int] | None = None
    build: bool = False
    targets: ArchList | None = None


class Terms(Protocol):
    """What decides beside the Artifacts at hand. Each is asked for only if it matters: settings take time to read."""

    @property
    def package(self) -> str:
        """The package's name."""

    @property
    def folder(self) -> Path:
        """Where its own Artifact is, or would be."""

    @property
    def artifact(self) -> Artifact | None:
        """Its own, out of its wheel; None: it has none."""

    @property
    def damage(self) -> IncompatibleArtifactError | None:
        """What is wrong with that one; nothing else is tried then."""

    @property
    def wanted(self) -> Wanted:
        """What every Artifact is held against."""

    @property
    def jit(self) -> str:
        """The setting `jit`."""

    @property
    def jit_origin(self) -> str:
        """Where that was set."""

    @property
    def cuda_off(self) -> str:
        """Where the setting `cuda` was set to off; empty: it is not off."""

    @property
    def has_sources(self) -> bool:
        """Whether there is anything to compile from."""


class Decision(NamedTuple):
    """What comes of a request.

    Attributes:
        device: `cpu` or `cuda`.
        outcome: `load` (of a build: there is nothing to compile), `compile` or `fail`.
        because: why, in one or a few lines.
        artifact: what is loaded.
        error: what a call ends in, where it fails.
    """

    device: str
    outcome: Literal["load", "compile", "fail"]
    because: str
    artifact: Artifact | None = None
    error: KernelWheelError | None = None


def decide(request: Request, host: Host, candidates: Iterable[Artifact], terms: Terms) -> Decision:
    """Load the first candidate that fits, compile, or fail.

    Args:
        request: what is asked for.
        host: the machine, with its GPUs where the request is for CUDA.
        candidates: the Artifacts at hand, in the order in which they are tried; read no further than needed.
        terms: whether anything is compiled where none fits.

    Raises:
        KernelWheelError: of the candidates, where there is no way past it: a store that is not safe.
    """
    if terms.damage:
        return failed(request.device, terms.damage)
    if request.device == "cuda" and not request.build and not host.capabilities:
        missing = no_gpu(host)
        error = incompatible(terms.package, "cuda", [missing, *against_own(request, host, terms)])
        return Decision(request.device, "fail", missing.found, error=error)
    fitting = _first_that_fits(request, host, candidates, terms)
    if fitting:
        where = "in the store" if fitting.store else "of the wheel"
        return Decision(request.device, "load", f"the kernels {where} fit", fitting)
    return _where_none_fits(request, host, terms)


def failed(device: str, error: KernelWheelError, before: str = "") -> Decision:
    """A request that ends in an error; `before` says what led there."""
    return Decision(device, "fail", f"{before}{error.problem} (found: {error.found})", error=error)


def against(artifact: Artifact, request: Request, host: Host, wanted: Wanted) -> tuple[Mismatch, ...]:
    """What stands against an Artifact as the answer to a request; nothing: it fits."""
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
    # Other GPUs that this process sees may be of another generation.
    found = tuple(mismatch for mismatch in found if mismatch.dimension != "capability")
    reason = None if found else capability_mismatch(artifact.manifest, request.capability, host.driver)
    return (reason,) if reason else found


def against_own(request: Request, host: Host, terms: Terms) -> tuple[Mismatch, ...]:
    """What stands against the package's own Artifact, or that there is none."""
    if terms.artifact is None:
        return (no_artifact(terms.package, terms.folder),)
    return against(terms.artifact, request, host, terms.wanted)


def _first_that_fits(request: Request, host: Host, candidates: Iterable[Artifact], terms: Terms) -> Artifact | None:
    """One that serves all GPUs goes before one for the GPU of the call: a process loads one library of CUDA kernels."""
    for_one = None
    try:
        for artifact in candidates:
            if artifact.store is None and terms.jit == "always":
                continue
            if not against(artifact, request._replace(capability=None), host, terms.wanted):
                return artifact
            if for_one is None and request.capability and not against(artifact, request, host, terms.wanted):
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
    """Why nothing is compiled, as far as no compiler is needed to know; empty: it is.

    Whoever asks for a build by name is stopped neither by `never` nor by `off`.
    """
    if request.device == "cuda" and not request.build and terms.cuda_off:
        return f"cuda is off ({terms.cuda_off})"
    if terms.jit == "never" and not request.build:
        return f"jit is never ({terms.jit_origin})"
    if not terms.has_sources:
        return "no sources are installed to compile from"
    if terms.jit != "always" and not all(mismatch.compile_cures for mismatch in own):
        return "no compile cures that"
    return ""
