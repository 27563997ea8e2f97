"""The errors for kernels that are neither loaded nor compiled, and mismatches that are no matter of a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core.errors import REINSTALL, IncompatibleArtifactError
from ..core.host import Host
from ..core.verdict import Mismatch


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


def other_gpu(package: str, loaded: Path, mismatches: Sequence[Mismatch]) -> IncompatibleArtifactError:
    """The error for a GPU that the CUDA kernels in this process do not serve, which were loaded for another one."""
    remedy = f"python -m {package} cache build compiles for all GPUs that are seen; then start the program again"
    in_use = f"{loaded} is in use, and a process loads one library of CUDA kernels"
    return incompatible(package, "cuda", [mismatch._replace(remedy=remedy) for mismatch in mismatches], in_use)


def changed_sources(package: str, native: Path, wanted: str, found: str, editable: bool) -> IncompatibleArtifactError:
    """The error for sources that were changed under a wheel, or under a process that uses kernels of the old ones."""
    return IncompatibleArtifactError(
        f"the native sources of {package} were changed",
        required=f"sources {wanted[:12]}, which the kernels {'in this process' if editable else 'beside them'} are of",
        found=f"sources {found[:12]}" if editable else f"sources {found[:12]} in {native / 'src'}",
        remedies=["start the program again" if editable else REINSTALL],
    )


def no_sources(package: str) -> IncompatibleArtifactError:
    """The error for a package that was installed without what its kernels can be compiled from."""
    return IncompatibleArtifactError(
        "no sources are installed to compile from",
        required=f"the native sources of {package}, which its wheels carry",
        found="none",
        remedies=[REINSTALL],
    )


def no_gpu(host: Host) -> Mismatch:
    """What stands against CUDA kernels where torch sees no GPU; no compile cures it."""
    found = f"torch {host.torch} has no CUDA" if host.cuda is None else "torch sees no GPU"
    return Mismatch(
        dimension="gpu",
        required="an NVIDIA GPU, its driver, and a torch with CUDA",
        found=found,
        remedy="use CPU tensors, or run where torch.cuda.is_available()",
        device="cuda",
        compile_cures=False,
    )


def unusable_artifact(damage: IncompatibleArtifactError) -> Mismatch:
    """What stands against kernels where the wheel's Artifact is damaged, or cannot be read now; no compile cures it."""
    return Mismatch("artifact", damage.required, damage.found, "; ".join(damage.remedies), "cpu", False)


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


def always_compiled(package: str, origin: str) -> Mismatch:
    """What stands against a wheel's Artifact that fits, where the setting `jit` is always."""
    return Mismatch(
        dimension="jit",
        required=f"kernels that were compiled on this machine: jit is always ({origin})",
        found="those of the wheel",
        remedy=f"let the kernels of the wheel be used (jit: auto), or install a wheel of {package} with its sources",
        device="cpu",
        compile_cures=True,
    )
