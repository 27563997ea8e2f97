"""Kernels of a package made ahead of the first call: for `cache build`, `kernelwheel.prepare` and their kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..project import arch_choice
from ..project.arch_choice import ArchList
from ..runtime import compiler_process
from ..runtime.architectures import Arch
from ..runtime.artifact import Artifact
from ..runtime.compatible import Mismatch
from ..runtime.compile_into_store import compile_into_store
from ..runtime.errors import command
from ..runtime.find import find
from ..runtime.host import Host
from ..runtime.installed import InstalledPackage
from ..runtime.kernels import Kernels
from ..runtime.manifest import Library
from ..runtime.request import CompileRequest
from ..runtime.selection import Request
from ..runtime.settings import DEFAULT, Origin, Settings


def build(
    package: InstalledPackage, host: Host, cuda: bool, archs: str, say: Callable[[str], None]
) -> tuple[Artifact, bool]:
    """Return an available Artifact that fits or was compiled just now, and whether it was. Loads nothing, needs no GPU.

    With `cuda`, the Host must know its GPUs, and the Artifact serves `archs`, in the syntax of TORCH_CUDA_ARCH_LIST; if
    that is empty, the option `archs`, or else the GPUs visible to this process, or else a wheel's default list.

    Raises:
        KernelWheelError: the wheel's Artifact is damaged, or one had to be compiled and that failed.
    """
    request = build_request(package, host, cuda, archs)
    selection = find(package, host, request, Artifact.verify)
    if selection.error:
        raise selection.error
    if selection.artifact:
        return selection.artifact, False
    return compile_into_store(package, host, request, build_settings(package, archs), say)


def build_request(package: InstalledPackage, host: Host, cuda: bool, archs: str) -> Request:
    """The Request that `build` makes. Takes the same arguments."""
    settings = build_settings(package, archs)
    origin = str(settings.origin("archs"))
    targets = arch_choice.parse(settings.archs, origin) if settings.archs else None
    return Request("cuda" if cuda else "cpu", build=partial(lacking, host, targets))


def lacking(
    host: Host, targets: ArchList | None, artifact: Artifact, found: tuple[Mismatch, ...]
) -> tuple[Mismatch, ...]:
    """What rules CUDA kernels out for a build: all that was found, or the architectures that they are not for.

    Where architectures are named, the GPUs of this machine do not count. Where neither says what is wanted, a wheel has
    what its builder intended; a store's entry may have been compiled for a single GPU, unless it has the default list.
    """
    manifest = artifact.manifest
    if targets:
        found = tuple(each for each in found if each.dimension != "capability")
    if found:
        return found
    libraries = manifest.kernels
    if host.cuda is not None and manifest.libraries_for("cuda"):
        if targets and all(_covers(each, targets) for each in libraries):
            return ()
        origin = manifest.built_with.get("settings", {}).get("archs", {}).get("origin")
        if not targets and (host.capabilities or artifact.guard is None or origin == str(DEFAULT)):
            return ()
    sass = sorted({Arch.from_string(arch) for each in libraries for arch in each.sass})
    ptx = sorted({Arch.from_string(arch) for each in libraries for arch in each.ptx})
    return (
        Mismatch(
            dimension="archs",
            required=f"CUDA kernels for {targets or 'the default architectures of a wheel, because no GPU is visible'}",
            found=f"SASS for {', '.join(map(str, sass)) or 'none'}; PTX for {', '.join(map(str, ptx)) or 'none'}",
            remedy=command(manifest.package, "cache build" + (f" --archs '{targets}'" if targets else "")),
            device="cuda",
        ),
    )


def _covers(library: Library, targets: ArchList) -> bool:
    """Whether a library has SASS that runs on every SASS target, and PTX for every PTX target."""
    sass, ptx = (tuple(map(Arch.from_string, made)) for made in (library.sass, library.ptx))
    return all(
        arch in sass or (not arch.suffix and any(each.sass_runs_on(arch[:2]) for each in sass)) for arch in targets.sass
    ) and all(
        arch in ptx or (not arch.suffix and any(each.ptx_runs_on(arch[:2]) for each in ptx)) for arch in targets.ptx
    )


def build_settings(package: InstalledPackage, archs: str) -> Settings:
    """The effective settings, with the architectures of the command line, if any, in place of their own."""
    return package.settings.changed("archs", archs, Origin("--archs")) if archs else package.settings


def preview(
    requests: Sequence[CompileRequest], machine: CompileRequest | None, environ: Mapping[str, str]
) -> dict[str, Any]:
    """What would be compiled for these requests, and with what, as the compiler says.

    `plans`, for each request `{"plan": …}` or `{"error": …}`, and `toolchain`, what is found for `machine`.
    """
    question = {"requests": [each.to_json() for each in requests], "machine": machine and machine.to_json()}
    answer: dict[str, Any] = compiler_process.send({"dry-run": question}, lambda line: None, environ)
    return answer


def wants_cuda(kernels: Kernels, choice: str | None) -> bool:
    """Whether CUDA kernels are built: by choice `on` or `off`, else if torch has CUDA and the option `cuda` allows it.

    If so, the GPUs are probed.
    """
    allowed = kernels.host.cuda is not None and kernels.installed.settings.cuda != "off"
    wanted = allowed if choice is None else choice == "on"
    if wanted and kernels.host.capabilities is None:
        kernels.probe_gpus()
    return wanted
