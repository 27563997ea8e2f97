"""Find the Artifact that fits this machine and load its kernels: CPU at import, CUDA at the first CUDA call."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import host as hosts
from . import manifest as manifests
from .compat import Mismatch, Verdict, capability_mismatch, check
from .errors import IncompatibleArtifactError
from .host import Host
from .manifest import Manifest


class Kernels:
    """The compiled kernels of one package in this process.

    Making one reads the manifest and checks it against what can be known without initialising CUDA; nothing raises
    before kernels are asked for by `require`, and nothing compiles.

    Args:
        package: the package's import name.
        version: its version.
        folder: where its Artifact is, `<package>/_native`.
    """

    def __init__(self, package: str, version: str, folder: Path) -> None:
        self.package = package
        self.version = version
        self.folder = folder
        self.host = hosts.probe()
        self.manifest: Manifest | None = None
        self.damage: IncompatibleArtifactError | None = None
        self._loaded: set[str] = set()
        self._checked_gpus: set[int] = set()
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._renew_lock)
        try:
            self.manifest = manifests.read(folder)
        except IncompatibleArtifactError as error:
            self.damage = error

    def _renew_lock(self) -> None:
        """A child of fork must not wait for a thread that exists only in its parent."""
        self._lock = threading.RLock()

    @property
    def verdict(self) -> Verdict:
        """The verdict on this process's Host; without an Artifact, the one mismatch that says so."""
        if self.manifest is None:
            return Verdict((_no_artifact(self.package, self.folder),))
        return check(self.manifest, self.host, self.version)

    def require(self, device: str, index: int | None = None) -> None:
        """Make the kernels of a device type available, loading their library the first time.

        Args:
            device: `cpu` or `cuda`.
            index: the GPU that is about to be used; its compute capability is checked once.

        Raises:
            IncompatibleArtifactError: the Artifact is missing, damaged, or does not fit this machine.
        """
        if device in self._loaded and (device == "cpu" or index in self._checked_gpus):
            return
        with self._lock:
            if self.damage:
                raise self.damage
            mismatches = self.verdict.against(device)
            if device == "cuda" and not mismatches and self.manifest:
                mismatches = self._check_gpu(self.manifest, index or 0)
            if mismatches or self.manifest is None:
                raise incompatible(self.package, device, mismatches)
            if device == "cuda":
                self._load(self.manifest, "cpu")  # it defines the operators
            self._load(self.manifest, device)
            if index is not None:
                self._checked_gpus.add(index)

    def load_if_usable(self) -> None:
        """Load the CPU kernels where the verdict allows it; what stands against it is raised by `require`."""
        if not self.damage and not self.verdict.against("cpu"):
            try:
                self.require("cpu")
            except IncompatibleArtifactError as error:
                self.damage = error

    def _check_gpu(self, manifest: Manifest, index: int) -> tuple[Mismatch, ...]:
        """What stands against this one GPU; others that this process sees may be of another generation."""
        import torch

        if self.host.capabilities is None:
            self.probe_gpus()
        if not self.host.capabilities:
            return (_no_gpu(self.host),)
        mismatches = tuple(m for m in self.verdict.against("cuda") if m.dimension != "capability")
        if mismatches:
            return mismatches
        mismatch = capability_mismatch(manifest, torch.cuda.get_device_capability(index), self.host.driver)
        return (mismatch,) if mismatch else ()

    def _load(self, manifest: Manifest, device: str) -> None:
        if device in self._loaded:
            return
        import torch

        for library in manifest.libraries_for(device):
            path = manifests.verify(self.folder, library)
            torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
        self._loaded.add(device)

    def info(self) -> dict[str, Any]:
        """What was built and what it is worth here, as plain JSON values."""
        return {
            "package": self.package,
            "version": self.version,
            "artifact": str(self.folder),
            "manifest": self.manifest.to_json() if self.manifest else None,
            "damage": str(self.damage) if self.damage else None,
            "host": asdict(self.host),
            "verdict": [asdict(mismatch) for mismatch in self.verdict.mismatches],
            "loaded": sorted(self._loaded),
        }

    def probe_gpus(self) -> None:
        """Let the verdict cover the driver and the GPUs too; initialises CUDA where there is a GPU."""
        self.host = hosts.with_gpus(self.host)


def incompatible(package: str, device: str, mismatches: Sequence[Mismatch]) -> IncompatibleArtifactError:
    """The error for kernels that may not be loaded, with every mismatch that stands in the way."""
    remedies = [mismatch.remedy for mismatch in mismatches]
    curable = [mismatch.dimension for mismatch in mismatches if mismatch.compile_cures]
    if curable and len(curable) == len(mismatches):
        remedies.append(
            f"a compile on this machine would cure it ({', '.join(curable)}); this version of {package} does not "
            "compile at run time"
        )
    return IncompatibleArtifactError(
        f"{package} has no {device.upper()} kernels for this machine",
        required="\n".join(f"{m.required} ({m.dimension})" for m in mismatches),
        found="\n".join(m.found for m in mismatches),
        remedies=remedies,
    )


def _no_gpu(host: Host) -> Mismatch:
    found = f"torch {host.torch}, which has no CUDA" if host.cuda is None else "torch sees none"
    return Mismatch(
        dimension="gpu",
        required="an NVIDIA GPU, its driver, and a torch with CUDA",
        found=found,
        remedy="use CPU tensors, or run where torch.cuda.is_available()",
        device="cuda",
        compile_cures=False,
    )


def _no_artifact(package: str, folder: Path) -> Mismatch:
    return Mismatch(
        dimension="artifact",
        required=f"compiled kernels in {folder}",
        found="none: this is an editable install or a source tree",
        remedy=f"install a wheel of {package} (pip install . in the checkout makes one)",
        device="cpu",
        compile_cures=True,
    )
