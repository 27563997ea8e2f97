"""The kernels of a package in this process, loaded at import for the CPU and at the first call for CUDA.

A call that needs kernels reads downwards in `Kernels._obtain`: `find` reads what is there (the wheel's Artifact; if
that does not fit, those in read-only caches and in the user's own), decides, and verifies and loads the first that
fits. Only if there is none, and compiling would help, one is compiled, checked, verified and loaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from .artifact.artifact import Artifact
from .artifact.compatible import capability_mismatch
from .artifact.content import can_use_cuda
from .decision.decision import Request, against, verdict
from .decision.find import find, look
from .decision.no_kernels import incompatible, left_out, no_gpu, none_made, other_gpu
from .decision.snapshot import InstalledPackage
from .errors import KernelWheelError, LeftOutError, UnreadableArtifactError, way_out
from .loading import library_of, load_module, load_operators, needed_for
from .machine import host as hosts
from .machine.fork import ThreadLock
from .machine.host import Host


class Kernels:
    """The compiled kernels of one package in this process.

    The constructor reads the manifest and checks it against what is known without initialising CUDA. Nothing raises
    until kernels are requested with `require`.

    Args:
        package: the package's import name.
        version: its version.
        folder: the folder of its Artifact, `<package>/_native`.
        environ: the process environment, for the settings.

    Attributes:
        constructed: the latest ones of each package in this process, for the command line.
    """

    constructed: ClassVar[dict[str, Kernels]] = {}

    def __init__(self, package: str, version: str, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.constructed[package] = self
        self.installed = InstalledPackage(package, version, folder, environ)
        self.host = hosts.probe()
        self.lock = ThreadLock()
        self._loaded: dict[str, Artifact] = {}
        self._modules: dict[str, ModuleType | None] = {}  # and extensions of operators, which are none
        self._whole_of: Artifact | None = None
        self._checked_gpus: set[int] = set()

    def require(self, device: str, index: int | None = None) -> None:
        """Make the kernels of a device type available, loading their library the first time.

        Args:
            device: `cpu` or `cuda`.
            index: the GPU about to be used; its compute capability is checked once.

        Raises:
            IncompatibleArtifactError: no Artifact fits this machine, or the wheel's is damaged.
            BuildError: one had to be compiled and that failed.
            StoreError: the user's cache cannot be used.
        """
        if device in self._loaded and (device == "cpu" or index in self._checked_gpus):
            return
        with self.lock, os_errors(self.installed):
            self.installed = self.installed.read_again()
            if device not in self._loaded:
                self._obtain(self._request(device, index), partial(self._load, device))
            elif index is not None:
                self._check_loaded(index)
            if index is not None:
                self._checked_gpus.add(index)

    def module(self, name: str) -> ModuleType:
        """Import a module added by kernelwheel_add_pybind11_module; later calls return the same module.

        Call this on first use rather than at import: a module is one file for CPU and GPU, so it must fit the visible
        GPUs, and if none fits, one is compiled. Looking for GPUs initialises CUDA only where NVIDIA's management
        library cannot tell. If the option `cuda` is off, the module is for the CPU only and no GPU is checked.

        Args:
            name: the module's name.

        Raises:
            IncompatibleArtifactError: no Artifact fits this machine, the wheel's is damaged, it has no such module, or
                the module is for other GPUs.
            BuildError: one had to be compiled and that failed.
            StoreError: the user's cache cannot be used.
        """
        module = self.extension(name)
        if module is None:
            raise ImportError(f"{name} is an extension of operators, which are in torch.ops")
        return module

    def extension(self, name: str) -> ModuleType | None:
        """Load the library of an extension, as declared in a table; later calls return the same.

        Args:
            name: the extension's name.

        Returns:
            The module; None for operators.

        Raises:
            KernelWheelError: as `module`.
        """
        if error := self.left_out(name):
            raise error
        with self.lock:
            if self._whole_of is None:
                with os_errors(self.installed):
                    self.installed = self.installed.read_again()
                    if self.installed.damage:  # before the settings, which need the manifest
                        raise self.installed.damage
                    self._whole_of = self._obtain(self._whole_request(), partial(self._load_first, name))
            if name not in self._modules:
                refuse_other_family(self.installed.package, self.host, name, self._whole_of)
                self._modules[name] = load_module(self.installed.package, name, self._whole_of)
            return self._modules[name]

    def extension_if_usable(self, name: str) -> bool:
        """Load the library of an extension if that takes no compile; errors are left for `extension` to raise."""
        with self.lock, suppress(KernelWheelError), os_errors(self.installed):
            self.installed = self.installed.read_again()
            if self._whole_of is None and not self.installed.damage:
                request = self._whole_request()
                self._whole_of = find(self.installed, self.host, request, partial(self._load_first, name)).artifact
            if self._whole_of:
                self.extension(name)
        return name in self._modules

    def left_out(self, name: str) -> LeftOutError | None:
        """The error for an extension that only builds with CUDA have, if a call gets kernels without it here."""
        with self.lock, suppress(KernelWheelError), os_errors(self.installed):
            self.installed = package = self.installed.read_again()
            extensions = package.content["extensions"] if package.content and name not in self._modules else ()
            if any(each["name"] == name and each["cuda"] == "only" for each in extensions):
                request = self._whole_request()
                _, decision = look(package, self.host, request)
                artifact = self._whole_of or decision.artifact
                if artifact and name in artifact.manifest.left_out:
                    because = artifact.manifest.built_with["cuda"]["because"]
                    return left_out(name, f"{artifact.folder}: built without CUDA, because {because}")
                if not artifact and decision.own and request.device == "cpu" and package.settings.cuda != "on":
                    off = f"cuda is off ({package.settings.origin('cuda')})"
                    return left_out(name, off if package.settings.cuda == "off" else no_gpu(self.host).found)
        return None

    def load_if_usable(self) -> None:
        """Load CPU kernels if usable ones exist; errors are left for `require` to raise."""
        with self.lock, suppress(KernelWheelError), os_errors(self.installed):
            self.installed = self.installed.read_again()
            find(self.installed, self.host, Request("cpu"), partial(self._load, "cpu"))

    def info(self) -> dict[str, Any]:
        """What was built and whether it fits this machine, as plain JSON values."""
        self.installed = package = self.installed.read_again()
        values = {
            "package": package.package,
            "version": package.version,
            "artifact": str(package.folder),
            "manifest": package.manifest.to_json() if package.manifest else None,
            "damage": str(package.damage) if package.damage else None,
            "host": self.host._asdict(),
            "verdict": [mismatch._asdict() for mismatch in verdict(package.read_wheel(self.host))],
            "loaded": {device: str(artifact.folder) for device, artifact in self._loaded.items()},
        }
        return dict(json.loads(json.dumps(values)))

    def probe_gpus(self) -> None:
        """Add the driver and the GPUs to the Host, so that checks cover them; initialises CUDA if there is a GPU."""
        self.host = hosts.with_gpus(self.host)

    def _obtain(self, request: Request, load: Callable[[Artifact], object]) -> Artifact:
        """Find the first Artifact that fits, or have one compiled; verify and load it. Raises if none can be had."""
        package = self.installed
        if request.device == "cuda":
            self._gpus()
        decision = find(package, self.host, request, load)
        if decision.artifact:
            return decision.artifact
        from . import progress
        from .decision.compile_into_store import compile_into_store

        say = progress.printer(package.package)
        try:
            artifact, _ = compile_into_store(package, self.host, request, package.settings, say)
        except KernelWheelError as error:
            raise none_made(package.package, request.device, decision.own, error) from error.__cause__
        if unfit := against(package.read(self.host), request, artifact):
            just_made = "these kernels were just compiled here with the current settings"
            raise incompatible(package.package, request.device, unfit, just_made)
        load(artifact)  # outside the store's lock, so that others need not wait
        return artifact

    def _request(self, device: str, index: int | None) -> Request:
        """The Request of a call, for one GPU if `index` names it."""
        capability = None
        if device == "cuda" and index is not None and self._gpus():
            import torch

            capability = torch.cuda.get_device_capability(index)
        return Request(device, capability)

    def _whole_request(self) -> Request:
        """The Request for the one Artifact of all modules and extensions, as they may share types: each is one file for
        CPU and GPU, and for the GPUs, where there are any.
        """
        content = self.installed.content
        on = self.host.cuda and self.installed.settings.cuda != "off" and (content is None or can_use_cuda(content))
        return Request("cuda" if on and self._gpus(hosts.with_listed_gpus) else "cpu")

    def _load(self, device: str, artifact: Artifact) -> None:
        """Verify and load an Artifact's operators for a device type; a second call does nothing."""
        for name in needed_for(device):  # all Artifacts of these sources have the same CPU library
            if name not in self._loaded:
                load_operators(artifact, name)
                self._loaded[name] = artifact
                self.installed.in_use = True

    def _load_first(self, name: str, artifact: Artifact) -> None:
        """Load the first module or extension requested; if it, or another one, is not intact, the search goes on."""
        first = library_of(name, artifact)
        for library in artifact.manifest.libraries:
            if library != first:
                artifact.verify_library(library)
        if first and not artifact.manifest.is_of_a_family(first):
            self._modules[name] = load_module(self.installed.package, name, artifact)
        self.installed.in_use = True

    def _check_loaded(self, index: int) -> None:
        """Raise an error if the CUDA kernels that were loaded for one GPU do not fit another one."""
        loaded = self._loaded["cuda"]
        capability = self._request("cuda", index).capability
        if capability and (mismatch := capability_mismatch(loaded.manifest, capability, self.host.driver)):
            raise other_gpu(self.installed.package, loaded.folder, [mismatch])

    def _gpus(self, look: Callable[[Host], Host] | None = None) -> tuple[tuple[int, int], ...]:
        """The compute capabilities of the visible GPUs, which are probed on first use, by default with CUDA."""
        if self.host.capabilities is None:
            self.host = (look or hosts.with_gpus)(self.host)
        return self.host.capabilities or ()


def refuse_other_family(package: str, host: Host, name: str, artifact: Artifact) -> None:
    """Raise an error if the kernels of an extension are for one family of GPUs, and these are others."""
    library = library_of(name, artifact)
    if library and artifact.manifest.is_of_a_family(library):
        host = hosts.with_gpus(host) if host.capabilities is None else host
        gpus = host.capabilities or ()
        found = (capability_mismatch(artifact.manifest, each, host.driver, [library]) for each in gpus)
        if mismatches := [mismatch for mismatch in found if mismatch]:
            raise incompatible(package, "cuda", mismatches, f"{name} is for {', '.join(library.sass)} alone")


@contextmanager
def os_errors(package: InstalledPackage) -> Iterator[None]:
    """Turn an OSError on the way to the kernels, for whatever file, into a KernelWheelError.

    That includes too many open files while a module of ours is imported. The dynamic loader's errors have no errno and
    are passed on.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise UnreadableArtifactError(
            f"the kernels of {package.package} cannot be accessed right now",
            required=f"a file that this user can read: {error.filename or package.folder}",
            found=f"{type(error).__name__}: {error}",
            remedies=[way_out(error)],
        ) from error
