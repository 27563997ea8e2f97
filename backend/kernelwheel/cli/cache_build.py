"""The work of `cache build`: kernels of a package ahead of the first call."""

from __future__ import annotations

from collections.abc import Callable

from ..project import arch_choice
from ..runtime.artifact import Artifact
from ..runtime.compile_into_store import compile_into_store
from ..runtime.find import find
from ..runtime.host import Host
from ..runtime.installed import InstalledPackage
from ..runtime.kernels import Kernels
from ..runtime.selection import Request, compiles_cuda
from ..runtime.settings import Origin, Settings


def build(
    package: InstalledPackage, host: Host, cuda: bool, archs: str, say: Callable[[str], None]
) -> tuple[Artifact, bool]:
    """Return an available Artifact that fits or was compiled just now, and whether it was. Loads nothing, needs no GPU.

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
    request = build_request(package, cuda, archs)
    selection = find(package, host, request, Artifact.verify)
    if selection.error:
        raise selection.error
    if selection.artifact:
        return selection.artifact, False
    return compile_into_store(package, host, request, build_settings(package, archs), say)


def build_request(package: InstalledPackage, cuda: bool, archs: str) -> Request:
    """The Request that `build` makes. Takes the same arguments."""
    settings = build_settings(package, archs)
    origin = str(settings.origin("archs"))
    targets = arch_choice.parse(settings.archs, origin) if settings.archs else None
    return Request("cuda" if cuda else "cpu", build=True, targets=targets)


def build_settings(package: InstalledPackage, archs: str) -> Settings:
    """The effective settings, with the architectures of the command line, if any, in place of their own."""
    return package.settings.changed("archs", archs, Origin("--archs")) if archs else package.settings


def wants_cuda(kernels: Kernels, choice: str | None) -> bool:
    """Whether CUDA kernels are built: by choice `on` or `off`, else if torch has CUDA and the option `cuda` allows it.

    If so, the GPUs are probed.
    """
    allowed = kernels.host.cuda is not None and compiles_cuda(kernels.installed.cuda, "cuda")
    wanted = allowed if choice is None else choice == "on"
    if wanted and kernels.host.capabilities is None:
        kernels.probe_gpus()
    return wanted
