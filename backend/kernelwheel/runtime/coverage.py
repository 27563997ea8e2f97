"""Whether CUDA kernels serve a list of architectures, GPU or not: what `cache build` asks."""

from __future__ import annotations

from ..core.architectures import Arch, ArchList
from ..core.host import Host
from ..core.manifest import Library, Manifest
from ..core.settings import DEFAULT
from ..core.verdict import Mismatch
from ..store.artifact import Artifact


def shortfall(artifact: Artifact, host: Host, targets: ArchList | None) -> tuple[Mismatch, ...]:
    """What an Artifact that fits this machine lacks of the CUDA kernels that are asked for; empty: nothing.

    Args:
        artifact: fits the machine, its GPUs included where `targets` is None.
        host: the machine, with the GPUs that it sees.
        targets: the architectures; None: those of the GPUs, else the default list of a wheel.
    """
    libraries = artifact.manifest.libraries_for("cuda")
    # Without a GPU to ask, the wheel's is what its builder meant it to be. An entry of a store may have been made for
    # any one GPU, unless nobody chose its architectures.
    for_all = artifact.store is None or _has_default_list(artifact.manifest)
    if host.cuda is not None and libraries:
        if targets is None and (for_all or host.capabilities):
            return ()
        if targets is not None and all(_covers(library, targets) for library in libraries):
            return ()
    sass = sorted({Arch.from_string(arch) for library in libraries for arch in library.sass})
    ptx = sorted({Arch.from_string(arch) for library in libraries for arch in library.ptx})
    mismatch = Mismatch(
        dimension="archs",
        required=f"CUDA kernels for {targets or 'the default list of a wheel, as no GPU is seen'}",
        found=f"SASS for {', '.join(map(str, sass)) or 'none'}; PTX for {', '.join(map(str, ptx)) or 'none'}",
        remedy=f"python -m {artifact.manifest.package} cache build" + (f" --archs '{targets}'" if targets else ""),
        device="cuda",
        compile_cures=True,
    )
    return (mismatch,)


def _has_default_list(manifest: Manifest) -> bool:
    settings = manifest.built_with.get("settings", {})
    return bool(settings.get("archs", {}).get("origin") == str(DEFAULT))


def _covers(library: Library, targets: ArchList) -> bool:
    """Whether a library has SASS that runs on all targets of SASS, and PTX for all targets of PTX."""
    sass, ptx = (tuple(map(Arch.from_string, made)) for made in (library.sass, library.ptx))
    for arch in targets.sass:
        if arch not in sass and (arch.suffix or not any(made.sass_runs_on((arch.major, arch.minor)) for made in sass)):
            return False
    for arch in targets.ptx:
        if arch not in ptx and (arch.suffix or not any(made.ptx_runs_on((arch.major, arch.minor)) for made in ptx)):
            return False
    return True
