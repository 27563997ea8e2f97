"""Kernels of a package made ahead of the first call, maybe for other GPUs: `cache build`, `kernelwheel.prepare`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..project import arch_choice
from ..project.arch_choice import ArchList
from ..runtime import compiler_process
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.compatible import Mismatch
from ..runtime.artifact.content import needed_for
from ..runtime.compiler_process import CompileRequest
from ..runtime.decision.carry_out import compile_into_store, find
from ..runtime.decision.decision import Request
from ..runtime.decision.snapshot import InstalledPackage, Snapshot
from ..runtime.errors import command
from ..runtime.kernels import Kernels
from ..runtime.machine.host import Arch, Host
from ..runtime.settings import DEFAULT, Origin, Settings


class BuildRequest(Request):
    """A request of `cache build` and its kind."""

    # the architectures that it names, and then the GPUs of this process do not count; None: none
    archs: ArchList | None = None

    build = True

    @property
    def for_all_gpus(self) -> bool:
        """Whether CUDA kernels must fit every GPU of the Host."""
        return self.archs is None

    def lacking(self, snapshot: Snapshot, artifact: Artifact) -> tuple[Mismatch, ...]:
        """What CUDA kernels lack for the architectures that are named, or for none.

        Where neither they nor a GPU say what is wanted, a wheel has what its builder intended; a store's entry may have
        been compiled for a single GPU, unless it has the default list.
        """
        manifest, host, archs = artifact.manifest, snapshot.host, self.archs
        made = [[tuple(map(Arch.from_string, each)) for each in (lib.sass, lib.ptx)] for lib in manifest.kernels]
        if host.cuda is not None and manifest.libraries_for("cuda"):
            if archs and all(archs.covered_by(*each) for each in made):
                return ()
            chosen = manifest.built_with.get("settings", {}).get("archs", {})
            by_default = host.capabilities or artifact.guard is None or chosen.get("origin") == str(DEFAULT)
            if by_default and not archs:
                return ()
        sass, ptx = (", ".join(map(str, sorted({arch for each in made for arch in each[i]}))) or "none" for i in (0, 1))
        required = f"CUDA kernels for {archs or 'the default architectures of a wheel, because no GPU is visible'}"
        remedy = command(manifest.package, "cache build" + (f" --archs '{archs}'" if archs else ""))
        return (Mismatch("archs", required, f"SASS for {sass}; PTX for {ptx}", remedy, "cuda"),)


def build(package: InstalledPackage, host: Host, request: BuildRequest, archs: str) -> tuple[Artifact, bool]:
    """Return an available Artifact that fits or was compiled just now, and whether it was. Loads nothing, needs no GPU.

    `request` and `archs` are those of `build_request`. For CUDA, the Host must know its GPUs.

    Raises:
        KernelWheelError: the wheel's Artifact is damaged, or one had to be compiled and that failed.
    """
    decision = find(package, host, request, Artifact.verify)
    if decision.artifact:
        return decision.artifact, False
    return compile_into_store(package, host, request, build_settings(package, archs))


def build_request(package: InstalledPackage, cuda: bool, archs: str, part: str = "") -> BuildRequest:
    """The Request for the kernels of one part of the package, or all of them.

    With `cuda`, they serve `archs`, in the syntax of TORCH_CUDA_ARCH_LIST; if that is empty, the option `archs`, or
    else the GPUs visible to this process, or else a wheel's default list.
    """
    settings = build_settings(package, archs)
    origin = str(settings.origin("archs"))
    targets = arch_choice.parse(settings.archs, origin) if settings.archs else None
    return BuildRequest("cuda" if cuda else "cpu", archs=targets, part=part)


def build_requests(
    package: InstalledPackage, snapshot: Snapshot, cuda: bool, archs: str, parts: Iterable[str]
) -> list[BuildRequest]:
    """The Requests for parts: where the libraries for one device do without the other's, one for each device."""
    content = snapshot.wanted.content
    apart = cuda and content is not None and "cpu" not in needed_for("cuda", content)
    devices = (False, True) if apart else (cuda,)
    return [build_request(package, each, archs, part) for part in parts for each in devices]


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
