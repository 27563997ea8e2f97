"""Requests for kernels ahead of a call, and perhaps for other machines' GPUs."""

from __future__ import annotations

from ..project.arch_choice import ArchList
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.compatible import Mismatch
from ..runtime.decision.decision import Request
from ..runtime.decision.snapshot import Snapshot
from ..runtime.errors import command
from ..runtime.machine.gpus import Arch
from ..runtime.settings import DEFAULT


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
