"""What `cache build` does: find the Artifact that serves, kernels for some architectures, GPU or not, or compile it."""

from __future__ import annotations

from collections.abc import Callable

from ..core import architectures
from ..core.host import Host
from ..core.settings import Origin, Settings
from ..store.artifact import Artifact
from .decision import Request
from .finding import find
from .installed import InstalledPackage
from .provide import Provided, provide


def build(package: InstalledPackage, host: Host, cuda: bool, archs: str, say: Callable[[str], None]) -> Provided:
    """The Artifact at hand that serves, or one that is compiled now. Loads nothing and needs no GPU.

    Args:
        package: whose kernels are wanted.
        host: the machine, with the GPUs that it sees where `cuda` is set.
        cuda: CUDA and CPU kernels, or CPU kernels alone.
        archs: what the CUDA kernels must serve, in the grammar of TORCH_CUDA_ARCH_LIST; empty: the setting
            `archs`, else the GPUs that this process sees, else a wheel's default list.
        say: receives one line of progress at a time.

    Raises:
        KernelWheelError: the wheel's Artifact is damaged; or one had to be compiled, and that failed.
    """
    request = request_for(package, cuda, archs)
    decision = find(package, host, request, Artifact.verify)
    if decision.error:
        raise decision.error
    if decision.artifact:
        return Provided(decision.artifact, False)
    return provide(package, host, request, settings_for(package, archs), say)


def request_for(package: InstalledPackage, cuda: bool, archs: str) -> Request:
    """What `build` asks for. Arguments as there."""
    settings = settings_for(package, archs)
    origin = str(settings.origin("archs"))
    targets = architectures.parse(settings.archs, origin) if settings.archs else None
    return Request("cuda" if cuda else "cpu", build=True, targets=targets)


def settings_for(package: InstalledPackage, archs: str) -> Settings:
    """The effective settings, with the architectures that a command line names, if it names any."""
    return package.settings.changed("archs", archs, Origin("--archs")) if archs else package.settings


def wants_cuda(package: InstalledPackage, host: Host) -> bool:
    """Whether CUDA kernels are built where nobody says: as torch has CUDA, unless the setting is off."""
    return host.cuda is not None and package.settings.cuda != "off"
