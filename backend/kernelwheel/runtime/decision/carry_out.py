"""Carrying out a Decision: read, decide, and use what was decided on, or have it compiled; or only predict that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..artifact.artifact import Artifact
from ..artifact.content import can_use_cuda, needed_for, needs_cuda, only, serves_both
from ..errors import IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError
from ..machine.host import Host
from .decision import Decision, Request, against_own, decide, decide_on_wheel, failed
from .no_kernels import no_sources
from .snapshot import InstalledPackage, Snapshot

if TYPE_CHECKING:  # at import, load only what a fitting wheel needs
    from ..compiler_process import CompileRequest
    from ..settings import Settings

Use = Callable[[Artifact], object]  # verifies an Artifact, and loads it if wanted; raises if it is damaged


def look(package: InstalledPackage, host: Host, request: Request) -> tuple[Snapshot, Decision]:
    """Read as much as it takes, and decide on it. Changes nothing."""
    snapshot = package.read_wheel(host)
    if decision := decide_on_wheel(snapshot, request):
        return snapshot, decision
    snapshot = package.read(host)
    return snapshot, decide(snapshot, request)


def find(package: InstalledPackage, host: Host, request: Request, use: Use) -> Decision:
    """Use the first available Artifact that fits and is intact; quarantine damaged ones in the user's own store.

    If the Decision is to load, `use` has succeeded; if it is to compile, nothing was used.

    Raises:
        KernelWheelError: that of a Decision to fail; the wheel's Artifact or one in a read-only store is damaged.
        UnreadableArtifactError: an Artifact cannot be read at the moment.
    """
    while True:
        snapshot, decision = look(package, host, request)
        for damaged in decision.damaged:
            _put_away(snapshot, damaged.folder, damaged.error)
        if decision.error:
            raise decision.error
        artifact = decision.artifact
        if artifact is None:
            return decision
        try:
            use(artifact)
        except UnreadableArtifactError:
            raise  # it may be intact: do not quarantine it
        except IncompatibleArtifactError as error:
            if artifact.guard is None:
                package.damage = error
                raise
            _put_away(snapshot, artifact.folder, error)  # raises for a read-only store
        else:
            return decision


def predict(snapshot: Snapshot, request: Request, verify: Use) -> Decision:
    """Predict what `find` would decide. Changes nothing and raises nothing: an error becomes a Decision to fail."""
    decision = decide(snapshot, request)
    while artifact := decision.artifact:
        try:
            verify(artifact)
            break
        except KernelWheelError as error:
            passing = isinstance(error, UnreadableArtifactError) or not isinstance(error, IncompatibleArtifactError)
            if passing or artifact.guard is None or not snapshot.store_of(artifact.folder).own:
                return failed(request, error)
        snapshot = snapshot._replace(entries=tuple(each for each in snapshot.entries if each.folder != artifact.folder))
        decision = decide(snapshot, request)
    return decision


def compile_into_store(
    package: InstalledPackage, host: Host, request: Request, settings: Settings
) -> tuple[Artifact, bool]:
    """Have the Artifact for a request compiled into the user's own store, unless another process has done so."""
    from .. import compiler_process, progress
    from ..store.store_lock import making

    compiler_process.program()  # there must be one before others wait for it
    store = package.own_store()._replace(part=request.part)
    say = progress.printer(package.package)
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
        return store.read(Path(answer["folder"])), answer["compiled"]


def compile_request(snapshot: Snapshot, request: Request, settings: Settings) -> CompileRequest:
    """What the compiler is asked, here: kernels for this machine's driver, and for its GPUs by default."""
    from ..compiler_process import CompileRequest
    from ..settings import Origin

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
    cpu_kernels = "cpu" in needed_for("cuda" if cuda else "cpu", content)
    return CompileRequest(content, source.folder, settings, source.options, host.driver, taken_from, cpu_kernels)


def _put_away(snapshot: Snapshot, folder: Path, error: IncompatibleArtifactError) -> None:
    from .. import progress

    place = snapshot.store_of(folder).quarantine(folder, error)
    progress.printer(snapshot.package)(f"{error.found}; the entry was moved to {place} and is not used")
