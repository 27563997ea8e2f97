"""Whether an Artifact serves what `cache build` is asked for: kernels for these architectures, GPU or not."""

from __future__ import annotations

from . import archs
from .archs import Arch, ArchList
from .compat import Mismatch
from .host import Host
from .manifest import Library, Manifest
from .settings import Settings


def targets_of(settings: Settings) -> ArchList | None:
    """The architectures that the settings name, if they name any."""
    return archs.parse(settings.archs, settings.origin("archs")) if settings.archs else None


def shortfall(manifest: Manifest, host: Host, targets: ArchList | None, wheel: bool) -> Mismatch | None:
    """What an Artifact lacks that fits this machine, of the CUDA kernels that are asked for; None: nothing.

    Args:
        manifest: an Artifact's that fits the machine, its GPUs included where `targets` is None.
        host: the machine, with the GPUs that it sees.
        targets: the architectures; None: those of the GPUs, else the default list of a wheel.
        wheel: whether it is the wheel's, which without a GPU to ask is what its builder meant it to be; an entry of a
            store may have been made for any one GPU.
    """
    libraries = manifest.libraries_for("cuda")
    if host.cuda is not None and libraries:
        if targets is None and (wheel or host.capabilities):
            return None
        if targets is not None and all(covers(library, targets) for library in libraries):
            return None
    sass = sorted({arch for library in libraries for arch in library.sass})
    ptx = sorted({arch for library in libraries for arch in library.ptx})
    return Mismatch(
        dimension="archs",
        required=f"CUDA kernels for {targets or 'the default list of a wheel, as no GPU is seen'}",
        found=f"SASS for {', '.join(sass) or 'none'}; PTX for {', '.join(ptx) or 'none'}",
        remedy=f"python -m {manifest.package} cache build" + (f" --archs '{targets}'" if targets else ""),
        device="cuda",
        compile_cures=True,
    )


def covers(library: Library, wanted: ArchList) -> bool:
    """Whether a library has SASS that runs on all that is wanted as SASS, and PTX for all that is wanted as PTX."""
    sass, ptx = (tuple(map(Arch.from_string, made)) for made in (library.sass, library.ptx))
    for arch in wanted.sass:
        if arch not in sass and (arch.suffix or not any(made.sass_runs_on((arch.major, arch.minor)) for made in sass)):
            return False
    for arch in wanted.ptx:
        if arch not in ptx and (arch.suffix or not any(made.ptx_runs_on((arch.major, arch.minor)) for made in ptx)):
            return False
    return True
