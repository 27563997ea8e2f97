"""The errors for kernels that cannot be provided, and the mismatches that involve no manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..artifact.compatible import Mismatch
from ..errors import REINSTALL, IncompatibleArtifactError, KernelWheelError, LeftOutError, command
from ..machine.host import Host
from ..machine.platforms import SUPPORTED


def incompatible(
    package: str, device: str, mismatches: Sequence[Mismatch], no_compile: str = ""
) -> IncompatibleArtifactError:
    """The error for kernels that must not be loaded: every mismatch, and why none are compiled (`no_compile`)."""
    return IncompatibleArtifactError(
        f"{package} has no {device.upper()} kernels for this machine",
        required="\n".join(f"{m.required} ({m.dimension})" for m in mismatches),
        found="\n".join([*(m.found for m in mismatches), *([no_compile] if no_compile else [])]),
        remedies=[mismatch.remedy for mismatch in mismatches],
    )


def none_made(package: str, device: str, own: Sequence[Mismatch], error: KernelWheelError) -> KernelWheelError:
    """The error that kept kernels from being compiled, after what rules out the wheel's own, if it has some."""
    if not own or own[0].dimension in ("artifact", "jit"):
        return error
    problem = f"{package} has no {device.upper()} kernels for this machine ({because_of(own)}), and {error.problem}"
    remedies = [*(mismatch.remedy for mismatch in own), *error.remedies]
    return type(error)(problem, required=error.required, found=error.found, remedies=remedies)


def because_of(mismatches: Sequence[Mismatch]) -> str:
    """The mismatches in one line."""
    return "; ".join(f"{m.dimension}: required {m.required}, found {m.found}" for m in mismatches)


def left_out(name: str, found: str) -> LeftOutError:
    """The error for an extension that a build without CUDA leaves out, as the package declares."""
    return LeftOutError(
        f"{name} is not there: only builds with CUDA have it",
        required="a GPU, a torch with CUDA, and kernels that were built with one",
        found=found,
        remedies=["build the package again where torch has CUDA, and install that", "or do without it"],
    )


def other_gpu(package: str, loaded: Path, mismatch: Mismatch) -> IncompatibleArtifactError:
    """The error for a GPU that does not fit the CUDA kernels this process has loaded for another one."""
    remedy = f"compile for all visible GPUs ({command(package, 'cache build')}), then restart the program"
    in_use = f"{loaded} is in use, and a process can load only one library of CUDA kernels"
    return incompatible(package, "cuda", [mismatch._replace(remedy=remedy)], in_use)


def changed_sources(package: str, native: Path, wanted: str, found: str, editable: bool) -> IncompatibleArtifactError:
    """The error for sources that changed in an installed wheel, or while a process uses kernels of the old ones."""
    return IncompatibleArtifactError(
        f"the native sources of {package} have changed",
        required=f"sources {wanted[:12]}, used for the kernels {'in this process' if editable else 'next to them'}",
        found=f"sources {found[:12]}" if editable else f"sources {found[:12]} in {native / 'src'}",
        remedies=["restart the program" if editable else REINSTALL],
    )


def no_sources(package: str) -> IncompatibleArtifactError:
    """The error for a package that was installed without its native sources."""
    return IncompatibleArtifactError(
        "no sources are installed to compile from",
        required=f"the native sources of {package}, which its wheels include",
        found="none",
        remedies=[REINSTALL],
    )


def no_gpu(host: Host) -> Mismatch:
    """The mismatch of CUDA kernels if torch sees no GPU; compiling does not fix it."""
    required = "an NVIDIA GPU with its driver, and a torch built with CUDA"
    found = f"torch {host.torch} has no CUDA" if host.cuda is None else "torch sees no GPU"
    remedy = "use CPU tensors, or run on a machine where torch.cuda.is_available()"
    return Mismatch("gpu", required, found, remedy, "cuda", compile_cures=False)


def no_wheel(package: str, folder: Path) -> Mismatch:
    """The mismatch of a package that was installed without an Artifact."""
    found = "no kernels are installed with the package, as in an editable install"
    remedy = f"install a wheel of {package} (pip install . in the checkout builds one)"
    return Mismatch("artifact", f"compiled kernels in {folder}", found, remedy)


def unknown_sources(package: str) -> Mismatch:
    """The mismatch of an entry of a store if nothing says what the package's kernels are compiled from."""
    required = f"kernels built from the sources of {package}"
    found = "no manifest and no sources are installed with it, which say what these are"
    return Mismatch("sources", required, found, f"install a wheel of {package}", compile_cures=False)


def always_compiled(package: str, origin: str) -> Mismatch:
    """The mismatch of a wheel's Artifact that fits, if the option `jit` is always."""
    required = f"kernels compiled on this machine: jit is always ({origin})"
    remedy = f"set jit to auto to use the wheel's kernels, or install a wheel of {package} that includes its sources"
    return Mismatch("jit", required, "the wheel's kernels", remedy)


def never_compiled(platform: str) -> Mismatch:
    """The mismatch of a machine on which nothing is compiled at run time, and nothing kept that was."""
    required = f"a platform on which kernels are compiled, and kept in a cache: {', '.join(SUPPORTED)}"
    remedy = "use Linux" + (", for example in WSL" if platform.startswith("windows-") else "")
    return Mismatch("compiler", required, f"{platform}, on which no kernels are compiled", remedy, compile_cures=False)
