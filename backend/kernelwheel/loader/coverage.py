"""The check that CUDA kernels cover the architectures requested from `cache build`, with or without a GPU."""

from __future__ import annotations

from ..core.architectures import Arch, ArchList
from ..core.compatible import Mismatch
from ..core.errors import command
from ..core.host import Host
from ..core.manifest import Library, Manifest
from ..core.settings import DEFAULT
from ..store.artifact import Artifact


def shortfall(artifact: Artifact, host: Host, targets: ArchList | None) -> tuple[Mismatch, ...]:
    """The requested CUDA kernels that a fitting Artifact lacks; empty if it has them all.

    Args:
        artifact: fits the machine, and its GPUs too if `targets` is None.
        host: the machine, including its visible GPUs.
        targets: the architectures; None for those of the GPUs, or else a wheel's default list.
    """
    libraries = artifact.manifest.kernels
    # Without a GPU to check against, assume that the wheel has what its builder intended. A store's entry may have been
    # compiled for a single GPU, unless it has the default architectures.
    for_all = artifact.store is None or _has_default_list(artifact.manifest)
    if host.cuda is not None and artifact.manifest.libraries_for("cuda"):
        if targets is None and (for_all or host.capabilities):
            return ()
        if targets is not None and all(_covers(library, targets) for library in libraries):
            return ()
    sass = sorted({Arch.from_string(arch) for library in libraries for arch in library.sass})
    ptx = sorted({Arch.from_string(arch) for library in libraries for arch in library.ptx})
    mismatch = Mismatch(
        dimension="archs",
        required=f"CUDA kernels for {targets or 'the default architectures of a wheel, because no GPU is visible'}",
        found=f"SASS for {', '.join(map(str, sass)) or 'none'}; PTX for {', '.join(map(str, ptx)) or 'none'}",
        remedy=f"{command(artifact.manifest.package)} cache build" + (f" --archs '{targets}'" if targets else ""),
        device="cuda",
        compile_cures=True,
    )
    return (mismatch,)


def _has_default_list(manifest: Manifest) -> bool:
    settings = manifest.built_with.get("settings", {})
    return bool(settings.get("archs", {}).get("origin") == str(DEFAULT))


def _covers(library: Library, targets: ArchList) -> bool:
    """Whether a library has SASS that runs on every SASS target, and PTX for every PTX target."""
    sass, ptx = (tuple(map(Arch.from_string, made)) for made in (library.sass, library.ptx))
    for arch in targets.sass:
        if arch not in sass and (arch.suffix or not any(made.sass_runs_on((arch.major, arch.minor)) for made in sass)):
            return False
    for arch in targets.ptx:
        if arch not in ptx and (arch.suffix or not any(made.ptx_runs_on((arch.major, arch.minor)) for made in ptx)):
            return False
    return True
