"""The work of `cache build`: find an Artifact for the requested device and architectures, or compile one."""

from __future__ import annotations

from collections.abc import Callable

from ..core import architectures
from ..core.host import Host
from ..core.settings import Origin, Settings
from ..store.artifact import Artifact
from .find import find
from .installed import InstalledPackage
from .obtain import Provided, provide
from .selection import Request


def build(package: InstalledPackage, host: Host, cuda: bool, archs: str, say: Callable[[str], None]) -> Provided:
    """Return an available Artifact that fits, or compile one. Loads nothing and needs no GPU.

    Args:
        package: the package that needs kernels.
        host: the machine, including its visible GPUs if `cuda` is set.
        cuda: CUDA and CPU kernels, or only CPU kernels.
        archs: the architectures to serve, in the syntax of TORCH_CUDA_ARCH_LIST; if empty, the option `archs`, or else
            the GPUs visible to this process, or else a wheel's default list.
        say: receives progress, one line per call.

    Raises:
        KernelWheelError: the wheel's Artifact is damaged, or one had to be compiled and that failed.
    """
    request = request_for(package, cuda, archs)
    decision = find(package, host, request, Artifact.verify)
    if decision.error:
        raise decision.error
    if decision.artifact:
        return Provided(decision.artifact, False)
    return provide(package, host, request, settings_for(package, archs), say)


def request_for(package: InstalledPackage, cuda: bool, archs: str) -> Request:
    """The Request that `build` makes. Takes the same arguments."""
    settings = settings_for(package, archs)
    origin = str(settings.origin("archs"))
    targets = architectures.parse(settings.archs, origin) if settings.archs else None
    return Request("cuda" if cuda else "cpu", build=True, targets=targets)


def settings_for(package: InstalledPackage, archs: str) -> Settings:
    """The effective settings, with the architectures of the command line, if any, in place of their own."""
    return package.settings.changed("archs", archs, Origin("--archs")) if archs else package.settings


def wants_cuda(package: InstalledPackage, host: Host) -> bool:
    """Whether CUDA kernels are built by default: if torch has CUDA and the option `cuda` is not off."""
    return host.cuda is not None and package.settings.cuda != "off"
