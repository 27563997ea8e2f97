"""Having an Artifact compiled into the user's store, once, while other processes wait."""

from __future__ import annotations

from collections.abc import Callable

from ..artifact.artifact import Artifact
from ..artifact.content import can_use_cuda, needs_cuda, only, serves_both
from ..compiling import compiler_process
from ..compiling.compile_request import CompileRequest
from ..machine.host import Host
from ..machine.platforms import require_supported
from ..settings import Origin, Settings
from ..store.store_lock import making
from .decision import Request, against_own
from .find import find
from .no_kernels import no_sources
from .snapshot import InstalledPackage, Snapshot


def compile_into_store(
    package: InstalledPackage, host: Host, request: Request, settings: Settings, say: Callable[[str], None]
) -> tuple[Artifact, bool]:
    """Have the Artifact for a request compiled into the user's own store, unless another process has done so.

    Loads nothing.
    """
    require_supported()  # before a store is touched
    store = package.own_store()
    with making(store, lambda maker: say(f"waiting for {maker}")) as lock:
        decision = find(package, host, request, Artifact.verify)  # another process may have compiled it meanwhile
        if decision.artifact:
            return decision.artifact, False
        package.read_sources_again()
        asked = compile_request(package.read(host), request, settings)._replace(lock=lock)
        if not request.build:
            kernels = " ".join(filter(None, (request.part, request.device.upper(), "kernels for this machine")))
            say(f"no {kernels} ({decision.because}): compiling them now")
        answer = compiler_process.ask(asked, say, package.environ)
        return store.read(answer.folder), answer.compiled


def compile_request(snapshot: Snapshot, request: Request, settings: Settings) -> CompileRequest:
    """What the compiler is asked, here: kernels for this machine's driver, and for its GPUs by default."""
    source, content, host = snapshot.sources, snapshot.wanted.content, snapshot.host
    if source is None or content is None:
        raise snapshot.error or no_sources(snapshot.package)
    content = only(content, request.part)
    cuda = request.device == "cuda"
    if not cuda and not request.build and serves_both(content):  # without a GPU, CUDA kernels only on request
        cuda = settings.cuda == "on" or (settings.cuda == "auto" and needs_cuda(content))
    # The wheel's CPU kernels, if they are loaded here, need not be compiled with those for CUDA.
    on_cpu = Request("cpu", part=request.part)
    wheel = cuda and snapshot.manifest and snapshot.jit != "always" and not against_own(snapshot, on_cpu)
    if not settings.archs and cuda and host.capabilities:
        gpus = ";".join("{}.{}".format(*capability) for capability in host.capabilities)
        settings = settings.changed("archs", gpus, Origin("the GPUs of this process"))
    settings = settings.changed(
        "cuda", "on" if cuda and can_use_cuda(content) else "off", Origin("what this call needs")
    )
    taken_from = snapshot.folder if wheel else None
    return CompileRequest(content, source.folder, settings, source.options, host.driver, taken_from)
