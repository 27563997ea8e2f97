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
from .artifact.content import MAIN, can_use_cuda, needed_for, only, part_of
from .artifact.manifest import unreadable
from .decision.carry_out import compile_into_store, find, look
from .decision.decision import Request, against, verdict
from .decision.no_kernels import incompatible, left_out, no_gpu, none_made, other_gpu
from .decision.snapshot import InstalledPackage
from .errors import KernelWheelError, LeftOutError
from .loading import load_module, load_operators
from .machine import host as hosts
from .machine.fork_safe_locks import ThreadLock
from .machine.host import Host
from .record import remembered


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
        self.lock = ThreadLock()
        self._loaded: dict[tuple[str, str], Artifact] = {}  # by part and device type
        self._modules: dict[str, ModuleType | None] = {}  # and extensions of operators, which are none
        self._extensions_of: dict[str, Artifact] = {}  # by part
        self._checked_gpus: set[tuple[str, int | None]] = set()

    @remembered
    def host(self) -> Host:
        """What this machine is. It is asked for at first need, as that imports torch: `cache path` does without."""
        return hosts.probe()

    def require(self, device: str, index: int | None = None, part: str = "") -> None:
        """Make the kernels of a device type available, loading their library the first time.

        Args:
            device: `cpu` or `cuda`.
            index: the GPU about to be used; its compute capability is checked once.
            part: the part of the package that has them, where its kernels are declared in parts; empty: all of it.

        Raises:
            IncompatibleArtifactError: no Artifact fits this machine, or the wheel's is damaged.
            BuildError: one had to be compiled and that failed.
            StoreError: the user's cache cannot be used.
        """
        if (part, device) in self._loaded and (device == "cpu" or (part, index) in self._checked_gpus):
            return
        with self._locked() as package:
            capability = None
            if device == "cuda" and index is not None and self._gpus():
                import torch

                capability = torch.cuda.get_device_capability(index)
            request = Request(device, capability, part)
            if (part, device) not in self._loaded:
                self._obtain(request, partial(self._load, request))
            elif capability:
                loaded = self._loaded[part, device]
                if mismatch := capability_mismatch(loaded.manifest, capability, self.host.driver):
                    raise other_gpu(package.package, loaded.folder, mismatch)
            if index is not None:
                self._checked_gpus.add((part, index))

    def module(self, name: str) -> ModuleType:
        """Import a module added by kernelwheel_add_pybind11_module, by its name; later calls return the same one.

        Call this on first use rather than at import: a module is one file for CPU and GPU, so it must fit the visible
        GPUs, and if none fits, one is compiled. Looking for GPUs initialises CUDA only where NVIDIA's management
        library cannot tell. If the option `cuda` is off, the module is for the CPU only and no GPU is checked.

        Raises:
            IncompatibleArtifactError: as `require`; or there is no such module, or it is for other GPUs.
            BuildError, StoreError: as `require`.
        """
        module = self.extension(name)
        if module is None:
            raise ImportError(f"{name} is an extension of operators, which are in torch.ops")
        return module

    def extension(self, name: str) -> ModuleType | None:
        """Load the library of an extension, by its name in a table; later calls return the same. Raises as `module`.

        Returns the module, or None for operators.
        """
        if error := self.left_out(name):
            raise error
        with self._locked() as package:
            if name in self._modules:
                return self._modules[name]
            if package.damage:  # before the settings, which need the manifest
                raise package.damage
            request = self._request_for(name)
            if request.part not in self._extensions_of:
                self._obtain(request, partial(self._load_first, request, name))
            if name not in self._modules:
                artifact = self._extensions_of[request.part]
                refuse_other_family(package.package, self.host, name, artifact)
                self._modules[name] = load_module(package.package, name, artifact)
            return self._modules[name]

    def extension_if_usable(self, name: str) -> bool:
        """Load the library of an extension if that takes no compile; errors are left for `extension` to raise."""
        with suppress(KernelWheelError), self._locked() as package:
            if name not in self._modules and not package.damage:
                request = self._request_for(name)
                load = partial(self._load_first, request, name)
                if request.part in self._extensions_of or find(package, self.host, request, load).artifact:
                    self.extension(name)
        return name in self._modules

    def left_out(self, name: str) -> LeftOutError | None:
        """The error for an extension that only builds with CUDA have, if a call gets kernels without it here."""
        with suppress(KernelWheelError), self._locked() as package:
            extensions = package.content["extensions"] if package.content and name not in self._modules else ()
            if any(each["name"] == name and each["cuda"] == "only" for each in extensions):
                request = self._request_for(name)
                _, decision = look(package, self.host, request)
                artifact = self._extensions_of.get(request.part) or decision.artifact
                if artifact and name in artifact.manifest.left_out:
                    because = artifact.manifest.built_with["cuda"]["because"]
                    return left_out(name, f"{artifact.folder}: built without CUDA, because {because}")
                if not artifact and decision.own and request.device == "cpu" and package.settings.cuda != "on":
                    off = f"cuda is off ({package.settings.origin('cuda')})"
                    return left_out(name, off if package.settings.cuda == "off" else no_gpu(self.host).found)
        return None

    def load_if_usable(self, part: str = "") -> None:
        """Load CPU kernels if usable ones exist, of a part as in `require`; errors are left for that to raise."""
        with suppress(KernelWheelError), self._locked() as package:
            request = Request("cpu", part=part)
            find(package, self.host, request, partial(self._load, request))

    def info(self) -> dict[str, Any]:
        """What was built and whether it fits this machine, as plain JSON values."""
        self.installed = package = self.installed.read_again()
        with os_errors(package):
            unfit = [mismatch._asdict() for mismatch in verdict(package.read_wheel(self.host))]
        values = {
            "package": package.package,
            "version": package.version,
            "artifact": str(package.folder),
            "manifest": package.manifest.to_json() if package.manifest else None,
            "damage": str(package.damage) if package.damage else None,
            "host": self.host._asdict(),
            "verdict": unfit,
            "loaded": {
                device if part in ("", MAIN) else f"{part} {device}": str(artifact.folder)
                for (part, device), artifact in self._loaded.items()
            },
        }
        return dict(json.loads(json.dumps(values)))

    def probe_gpus(self) -> None:
        """Add the driver and the GPUs to the Host, so that checks cover them; initialises CUDA if there is a GPU."""
        self.host = hosts.with_gpus(self.host)

    @contextmanager
    def _locked(self) -> Iterator[InstalledPackage]:
        """The package, for one thread at a time; errors of the system become ours."""
        with self.lock, os_errors(self.installed):
            self.installed = self.installed.read_again()
            yield self.installed

    def _obtain(self, request: Request, load: Callable[[Artifact], object]) -> None:
        """Find the first Artifact that fits, or have one compiled; verify and load it. Raises if none can be had."""
        package = self.installed
        if request.device == "cuda":
            self._gpus()
        decision = find(package, self.host, request, load)
        if decision.artifact:
            return
        try:
            artifact, _ = compile_into_store(package, self.host, request, package.settings)
        except KernelWheelError as error:
            raise none_made(package.package, request.device, decision.own, error) from error.__cause__
        if unfit := against(package.read(self.host), request, artifact):
            just_made = "these kernels were just compiled here with the current settings"
            raise incompatible(package.package, request.device, unfit, just_made)
        load(artifact)  # outside the store's lock, so that others need not wait

    def _request_for(self, extension: str) -> Request:
        """The Request for the one Artifact of all modules and extensions that are not apart, as they may share types:
        each is one file for CPU and GPU, and for the GPUs, where there are any.
        """
        content = self.installed.content
        part = part_of(extension, content) if content else ""
        on = self.host.cuda and self.installed.settings.cuda != "off"
        on = on and (content is None or can_use_cuda(only(content, part)))
        return Request("cuda" if on and self._gpus(hosts.with_listed_gpus) else "cpu", part=part)

    def _load(self, request: Request, artifact: Artifact) -> None:
        """Verify and load an Artifact's operators for a device type; a second call does nothing."""
        for device in needed_for(request.device, artifact.manifest.content):  # all have the same CPU library
            if (request.part, device) not in self._loaded:
                load_operators(artifact, device)
                self._loaded[request.part, device] = artifact
                self.installed.in_use = True

    def _load_first(self, request: Request, name: str, artifact: Artifact) -> None:
        """Load the first module or extension requested; if it, or another one, is not intact, the search goes on."""
        first = artifact.manifest.find_library(name)
        for library in artifact.manifest.libraries:
            if library != first:
                artifact.verify_library(library)
        if first and not artifact.manifest.is_of_a_family(first):
            self._modules[name] = load_module(self.installed.package, name, artifact)
        self._extensions_of[request.part] = artifact
        self.installed.in_use = True

    def _gpus(self, look: Callable[[Host], Host] | None = None) -> tuple[tuple[int, int], ...]:
        """The compute capabilities of the visible GPUs, which are probed on first use, by default with CUDA."""
        if self.host.capabilities is None:
            self.host = (look or hosts.with_gpus)(self.host)
        return self.host.capabilities or ()


def refuse_other_family(package: str, host: Host, name: str, artifact: Artifact) -> None:
    """Raise an error if the kernels of an extension are for one family of GPUs, and these are others."""
    library = artifact.manifest.find_library(name)
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
        raise unreadable(error.filename or package.folder, error) from error
