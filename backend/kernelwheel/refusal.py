"""Why kernels are not loaded and none are compiled: the one error for it, and what stands against both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .compat import Mismatch
from .errors import IncompatibleArtifactError
from .host import Host


def obstacle_to_compile(against: Sequence[Mismatch], jit: str, jit_origin: str, sources: bool) -> str:
    """Why nothing is compiled where no Artifact fits, as far as no Toolchain is needed to know; empty: it is.

    Args:
        against: what stands against the wheel's Artifact; that there is none, in an editable install.
        jit: the setting.
        jit_origin: where that came from.
        sources: whether there is something to compile from.
    """
    if jit == "never":
        return f"jit is never ({jit_origin})"
    if not sources:
        return "no sources are installed to compile from"
    if jit != "always" and not all(mismatch.compile_cures for mismatch in against):
        return "no compile cures that"
    return ""


def incompatible(
    package: str, device: str, mismatches: Sequence[Mismatch], no_compile: str = ""
) -> IncompatibleArtifactError:
    """The error for kernels that may not be loaded: every mismatch, and why none is compiled (`no_compile`)."""
    return IncompatibleArtifactError(
        f"{package} has no {device.upper()} kernels for this machine",
        required="\n".join(f"{m.required} ({m.dimension})" for m in mismatches),
        found="\n".join([*(m.found for m in mismatches), *([no_compile] if no_compile else [])]),
        remedies=[mismatch.remedy for mismatch in mismatches],
    )


def no_gpu(host: Host) -> Mismatch:
    """What stands against CUDA kernels where torch sees no GPU; no compile cures it."""
    found = f"torch {host.torch}, which has no CUDA" if host.cuda is None else "torch sees none"
    return Mismatch(
        dimension="gpu",
        required="an NVIDIA GPU, its driver, and a torch with CUDA",
        found=found,
        remedy="use CPU tensors, or run where torch.cuda.is_available()",
        device="cuda",
        compile_cures=False,
    )


def no_artifact(package: str, folder: Path) -> Mismatch:
    """What stands against kernels where the package was installed without an Artifact."""
    return Mismatch(
        dimension="artifact",
        required=f"compiled kernels in {folder}",
        found="none, as in an editable install",
        remedy=f"install a wheel of {package} (pip install . in the checkout makes one)",
        device="cpu",
        compile_cures=True,
    )
