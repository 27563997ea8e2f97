"""Having an Artifact compiled that is not available, once, while others wait; and the work of `cache build`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..core import architectures
from ..core.compile_request import CompileRequest
from ..core.host import Host
from ..core.options import NATIVE
from ..core.platforms import require_supported
from ..core.settings import Origin, Settings
from ..store.artifact import Artifact
from ..store.entries import Store
from ..store.publishing import making, require_writable
from . import compiler_process
from .find import find
from .installed import InstalledPackage
from .no_kernels import no_sources
from .selection import Request, compiles_cuda, own_cpu_kernels


class Obtained(NamedTuple):
    """An Artifact for a request, and whether it was compiled just now."""

    artifact: Artifact
    compiled: bool


def build(package: InstalledPackage, host: Host, cuda: bool, archs: str, say: Callable[[str], None]) -> Obtained:
    """Return an available Artifact that fits, or have one compiled. Loads nothing and needs no GPU.

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
        return Obtained(selection.artifact, False)
    return have_compiled(package, host, request, build_settings(package, archs), say)


def build_request(package: InstalledPackage, cuda: bool, archs: str) -> Request:
    """The Request that `build` makes. Takes the same arguments."""
    settings = build_settings(package, archs)
    origin = str(settings.origin("archs"))
    targets = architectures.parse(settings.archs, origin) if settings.archs else None
    return Request("cuda" if cuda else "cpu", build=True, targets=targets)


def build_settings(package: InstalledPackage, archs: str) -> Settings:
    """The effective settings, with the architectures of the command line, if any, in place of their own."""
    return package.settings.changed("archs", archs, Origin("--archs")) if archs else package.settings


def wants_cuda(package: InstalledPackage, host: Host) -> bool:
    """Whether CUDA kernels are built by default: if torch has CUDA and the option `cuda` allows it."""
    return host.cuda is not None and compiles_cuda(package.cuda, "cuda")


def have_compiled(
    package: InstalledPackage, host: Host, request: Request, settings: Settings, say: Callable[[str], None]
) -> Obtained:
    """Have the Artifact for a request compiled into the user's own store, unless another process has done so.

    Loads nothing.

    Args:
        package: the package that needs kernels.
        host: the machine.
        request: the kernels requested, which `select` has found must be compiled.
        settings: the effective options.
        say: receives progress, one line per call.

    Raises:
        KernelWheelError: nothing can be built on this platform; or as `find`; or there are no sources, it does not
            compile, or it cannot be stored.
    """
    store = writable_store(package)
    with making(store, lambda maker: say(f"waiting for {maker}")) as lock:
        selection = find(package, host, request, Artifact.verify)  # another process may have compiled it meanwhile
        if selection.error:
            raise selection.error
        if selection.artifact:
            return Obtained(selection.artifact, False)
        asked = compile_request(package, host, request, settings)._replace(lock=lock)
        package.read_sources_again()
        if not request.build:
            kernels = f"{request.device.upper()} kernels for this machine"
            say(f"no {kernels} ({selection.because}): compiling them now")
        answer = compiler_process.ask(asked, say)
        return Obtained(store.read(answer.folder), answer.compiled)


def writable_store(package: InstalledPackage) -> Store:
    """The user's own store, into which kernels are compiled. Nothing is made.

    Raises:
        KernelWheelError: nothing can be built on this platform, there is no such store, or it cannot be written.
    """
    require_supported()  # before a store is touched
    *_, store = package.stores()
    require_writable(store)
    return store


def compile_request(package: InstalledPackage, host: Host, request: Request, settings: Settings) -> CompileRequest:
    """What the compiler is asked for a request, on this machine: kernels for its driver, and for its GPUs by default.

    Raises:
        IncompatibleArtifactError: there are no sources.
    """
    source = package.source
    if source is None:
        raise no_sources(package.package)
    whole, needed = source.facts.whole, bool(source.facts.needs_cuda)
    # `cache build` says for which device; without a GPU, one library for both is compiled with CUDA only on request.
    cuda = request.device == "cuda" if request.build else compiles_cuda(settings.cuda, request.device, whole, needed)
    wheel = own_cpu_kernels(host, package) if cuda else None
    if not settings.archs and cuda and host.capabilities:
        gpus = ";".join("{}.{}".format(*capability) for capability in host.capabilities)
        settings = settings.changed("archs", gpus, Origin("the GPUs of this process"))
    enabled = "on" if cuda and source.facts.can_use_cuda else "off"
    settings = settings.changed("cuda", enabled, Origin("what this call needs"))
    settings = settings.changed("platform", NATIVE, Origin("kernels that are compiled at run time"))
    settings = settings.changed("drivers", "", Origin("kernels for this machine's driver"))
    taken_from = wheel.folder if wheel else None
    return CompileRequest(source.facts, package.version, source.folder, settings, host.driver, taken_from)
