"""What `cache build` does: find the Artifact that serves, kernels for some architectures, GPU or not, or make it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import architectures as archs
from ..core.architectures import Arch, ArchList
from ..core.host import Host
from ..core.manifest import Library, Manifest
from ..core.settings import DEFAULT, Origin, Settings
from ..core.verdict import Mismatch, Wanted, check
from ..store.artifact import Artifact
from . import making

if TYPE_CHECKING:
    from .kernels import Kernels


def build(kernels: Kernels, cuda: bool, archs: str, say: Callable[[str], None]) -> Artifact:
    """The Artifact at hand that serves, or one that is compiled now. Loads nothing and needs no GPU.

    Args:
        kernels: the package's.
        cuda: CUDA and CPU kernels, or CPU kernels alone.
        archs: what the CUDA kernels must serve, in the grammar of TORCH_CUDA_ARCH_LIST; empty: the setting
            `archs`, else the GPUs that this process sees, else a wheel's default list.
        say: receives one line of progress at a time.

    Raises:
        IncompatibleArtifactError: the wheel's Artifact is damaged.
        BuildError: one had to be compiled, and that failed.
    """
    found = find(kernels, cuda, archs)
    if found:
        return found
    device = "cuda" if cuda else "cpu"
    # Who asks for a compile in so many words is not stopped by `never`.
    allowed = "auto" if kernels.jit == "never" else kernels.jit
    source = making.source_for(kernels, device, making.against_wheel(kernels, device, None), allowed)
    *_, store = kernels.stores()
    with store.making(lambda maker: say(f"waiting for {maker}")):
        found = find(kernels, cuda, archs)  # somebody may have made it while we waited
        return found or making.compile_now(kernels, source, store, settings_for(kernels, archs), device, say)


def find(kernels: Kernels, cuda: bool, archs: str) -> Artifact | None:
    """The first whole Artifact at hand that serves; what `build` takes before it compiles. Arguments as there."""
    if damage := kernels.damage:
        raise damage
    if cuda and kernels.host.capabilities is None:
        kernels.probe_gpus()
    targets = targets_of(settings_for(kernels, archs))

    def fits(found: Artifact) -> bool:
        return not against(found, kernels.host, kernels.wanted, "cuda" if cuda else "cpu", targets)

    return kernels.first(fits, Artifact.verify)


def wants_cuda(kernels: Kernels) -> bool:
    """Whether CUDA kernels are built where nobody says: as torch has CUDA, unless the setting is off."""
    return kernels.host.cuda is not None and kernels.settings.cuda != "off"


def settings_for(kernels: Kernels, archs: str) -> Settings:
    """The effective settings, with the architectures that a command line names, if it names any."""
    return kernels.settings.changed("archs", archs, Origin("--archs")) if archs else kernels.settings


def targets_of(settings: Settings) -> ArchList | None:
    """The architectures that the settings name, if they name any."""
    return archs.parse(settings.archs, str(settings.origin("archs"))) if settings.archs else None


def against(found: Artifact, host: Host, wanted: Wanted, device: str, targets: ArchList | None) -> tuple[Mismatch, ...]:
    """What stands against an Artifact at hand as what `build` is asked for, on a machine with the GPUs that it sees."""
    host = host._replace(capabilities=()) if targets else host
    mismatches = check(found.manifest, host, wanted).against(device)
    if mismatches or device != "cuda":
        return mismatches
    lacks = shortfall(found.manifest, host, targets, found.store is None or is_for_all(found.manifest))
    return (lacks,) if lacks else ()


def is_for_all(manifest: Manifest) -> bool:
    """Whether nobody chose the architectures of an Artifact: it has the default list, as a wheel has."""
    settings = manifest.built_with.get("settings", {})
    return bool(settings.get("archs", {}).get("origin") == str(DEFAULT))


def shortfall(manifest: Manifest, host: Host, targets: ArchList | None, for_all: bool) -> Mismatch | None:
    """What an Artifact lacks that fits this machine, of the CUDA kernels that are asked for; None: nothing.

    Args:
        manifest: an Artifact's that fits the machine, its GPUs included where `targets` is None.
        host: the machine, with the GPUs that it sees.
        targets: the architectures; None: those of the GPUs, else the default list of a wheel.
        for_all: whether it is the wheel's, or has the default list: without a GPU to ask, it is what its builder meant
            it to be. Another entry of a store may have been made for any one GPU.
    """
    libraries = manifest.libraries_for("cuda")
    if host.cuda is not None and libraries:
        if targets is None and (for_all or host.capabilities):
            return None
        if targets is not None and all(covers(library, targets) for library in libraries):
            return None
    sass = sorted({Arch.from_string(arch) for library in libraries for arch in library.sass})
    ptx = sorted({Arch.from_string(arch) for library in libraries for arch in library.ptx})
    return Mismatch(
        dimension="archs",
        required=f"CUDA kernels for {targets or 'the default list of a wheel, as no GPU is seen'}",
        found=f"SASS for {', '.join(map(str, sass)) or 'none'}; PTX for {', '.join(map(str, ptx)) or 'none'}",
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
