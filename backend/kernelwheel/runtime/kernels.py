"""Find the Artifact that fits this machine and load its kernels: CPU at import, CUDA at the first CUDA call.

The first whose verdict is empty is taken: the wheel's, those of read-only caches, those of the user's. Only where none
is, and where a compile cures it, one is made.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..core import host as hosts
from ..core import manifest as manifests
from ..core import variables
from ..core.errors import BuildError, IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError, way_out
from ..core.manifest import Manifest
from ..core.remembered import remembered
from ..core.verdict import Mismatch, Verdict, Wanted, capability_mismatch, check
from ..store.artifact import Artifact
from .loading import import_module, load_operators, needed_for, verify_modules
from .refusal import changed_sources, incompatible, no_artifact, no_gpu, other_gpu, unusable_artifact

if TYPE_CHECKING:  # at import, only what a fitting wheel needs is loaded
    from ..core.settings import Settings
    from ..store.entries import Store
    from .source import Source


class Kernels:
    """The compiled kernels of one package in this process.

    Making one reads the manifest and checks it against what can be known without initialising CUDA; nothing raises
    before kernels are asked for by `require`.

    Args:
        package: the package's import name.
        version: its version.
        folder: where its Artifact is, `<package>/_native`.
        environ: the process environment, for the settings.
    """

    def __init__(self, package: str, version: str, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.package = package
        self.version = version
        self.folder = folder
        self.host = hosts.probe()
        self.manifest: Manifest | None = None
        self._damage: IncompatibleArtifactError | None = None
        self._environ = environ
        self._loaded: dict[str, Artifact] = {}
        self._modules: dict[str, ModuleType] = {}
        self._modules_of: Artifact | None = None
        self._checked_gpus: set[int] = set()
        self.lock = threading.RLock()
        os.register_at_fork(after_in_child=self._renew_lock)
        self._look()

    def _look(self) -> None:
        """Read the wheel's manifest."""
        try:
            self.manifest, self._damage = manifests.read(self.folder, self.package), None
        except IncompatibleArtifactError as error:
            self._damage = error

    @property
    def damage(self) -> IncompatibleArtifactError | None:
        """What is wrong with the wheel's Artifact; a manifest that could not be read is looked at again."""
        if isinstance(self._damage, UnreadableArtifactError):
            self._look()
            if self.manifest is not None:
                for name in ("settings", "source", "wanted"):  # as they were without it
                    self.__dict__.pop(name, None)
        return self._damage

    def _renew_lock(self) -> None:
        """A child of fork must not wait for a thread that exists only in its parent."""
        self.lock = threading.RLock()

    @remembered
    def settings(self) -> Settings:
        """The effective settings of this process."""
        from ..core import settings

        source = self.source
        return settings.resolve(self.package, source.options if source else {}, self._environ)

    @remembered
    def source(self) -> Source | None:
        """Where the kernels can be compiled from: beside the Artifact in a wheel, or the checkout; None: nowhere."""
        from .source import find_source

        return find_source(self.package, self.folder, self.manifest)

    @remembered
    def wanted(self) -> Wanted:
        """What every Artifact is held against: a wheel's sources, or a checkout's as they were at the first look."""
        if self.manifest is not None:
            return Wanted(self.version, self.manifest.sources)
        if self.source is None:
            return Wanted(self.version)
        from ..build.package import source_digests
        from ..core.digests import json_sha256

        digest = json_sha256(source_digests(self.source.folder))
        return Wanted(self.version, digest, self.settings.flags())

    def stores(self) -> Iterator[Store]:
        """The stores in the order in which they are looked in; the last is the user's own."""
        from ..store import places

        return places.stores(self.settings, self.package, self.version)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the wheel's Artifact; without one that can be used, the one mismatch that says why."""
        if damage := self.damage:
            return Verdict((unusable_artifact(damage),))
        if self.manifest is None:
            return Verdict((no_artifact(self.package, self.folder),))
        return check(self.manifest, self.host, self.wanted)

    def require(self, device: str, index: int | None = None) -> None:
        """Make the kernels of a device type available, loading their library the first time.

        Args:
            device: `cpu` or `cuda`.
            index: the GPU that is about to be used; its compute capability is checked once.

        Raises:
            IncompatibleArtifactError: no Artifact fits this machine, or the wheel's is damaged.
            BuildError: one had to be compiled, and that failed.
        """
        if device in self._loaded and (device == "cpu" or index in self._checked_gpus):
            return
        with self.lock, self._asked():
            if device not in self._loaded:
                self._use(device, index, partial(self.load, device=device))
            elif index is not None:
                self._check_loaded(index)
            if index is not None:
                self._checked_gpus.add(index)

    def module(self, name: str) -> ModuleType:
        """Import one of the modules that kernelwheel_add_pybind11_module makes; later calls return the same.

        Ask at first use, not at import: a module is one file for CPU and GPU, so it must fit the GPUs that this process
        sees, and to look at them initialises CUDA. Where the setting `cuda` is off it is for the CPU, and nobody looks.

        Args:
            name: the module's.

        Raises:
            IncompatibleArtifactError: no Artifact fits this machine, the wheel's is damaged, or it has no such module.
            BuildError: one had to be compiled, and that failed.
        """
        with self.lock:
            if self._modules_of is None:  # all of one Artifact: modules of a package may know each other's types
                with self._asked():
                    if damage := self.damage:  # before the settings, which are not known without the manifest
                        raise damage
                    device = "cuda" if self.host.cuda and self.settings.cuda != "off" and self._gpus() else "cpu"
                    self._modules_of = self._use(device, None, partial(self._import, name))
            if name not in self._modules:
                self._modules[name] = import_module(self.package, name, self._modules_of)
            return self._modules[name]

    def _import(self, name: str, found: Artifact) -> None:
        """Import the first module that is asked for; the search goes on where the loader refuses it."""
        verify_modules(found)
        if name in found.manifest.modules:
            self._modules[name] = import_module(self.package, name, found)

    def load_if_usable(self) -> None:
        """Load CPU kernels that are there already; what stands against it is raised by `require`."""
        with self.lock, suppress(KernelWheelError), self._asked():
            if not self.damage:
                self.first(self.fits("cpu", None), partial(self.load, device="cpu"))

    def mismatches(self, manifest: Manifest, device: str, index: int | None) -> tuple[Mismatch, ...]:
        """What stands against an Artifact for a device type, and for one GPU where `index` names it."""
        import torch

        found = check(manifest, self.host, self.wanted).against(device)
        if device != "cuda" or index is None:
            return found
        # Other GPUs that this process sees may be of another generation.
        found = tuple(mismatch for mismatch in found if mismatch.dimension != "capability")
        capability = torch.cuda.get_device_capability(index)
        reason = None if found else capability_mismatch(manifest, capability, self.host.driver)
        return (reason,) if reason else found

    def candidates(self) -> Iterator[Artifact]:
        """The Artifacts at hand, in the order in which they are tried."""
        if self.manifest is not None and self.jit != "always":
            yield Artifact(self.folder, self.manifest, None)
        for store in self.stores():
            yield from store.entries(partial(self._quarantine, store))

    @property
    def jit(self) -> str:
        """The setting `jit`; of a wheel without the cost of all the others, and their errors, where nobody set it."""
        said = variables.said(self._environ, variables.own_variable(self.package, "jit")).lower()
        return "auto" if self.manifest is not None and said in ("", "auto") else self.settings.jit

    def _use(self, device: str, index: int | None, use: Callable[[Artifact], object]) -> Artifact:
        """Find or make the Artifact for a device type and one GPU, and use it; what stands against that is raised."""
        if damage := self.damage:
            raise damage
        if device == "cuda":
            self._require_gpu()
        found = self._first_for_all(device, use) if index is not None else None
        found = found or self.first(self.fits(device, index), use)
        if found is None:
            from . import making

            found = making.make(self, device, index, use)
        return found

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """What the system refuses on the way to kernels, whatever file it is about, is one of the family of errors.

        So are too many open files where a module of ours is imported. The dynamic loader's errors have no number.
        """
        try:
            yield
        except OSError as error:
            if error.errno is None:
                raise
            raise UnreadableArtifactError(
                f"the kernels of {self.package} cannot be looked for now",
                required=f"a file that this user can read: {error.filename or self.folder}",
                found=f"{type(error).__name__}: {error}",
                remedies=[way_out(error)],
            ) from error

    def _first_for_all(self, device: str, use: Callable[[Artifact], object]) -> Artifact | None:
        """What serves all GPUs goes first: a process loads one library of CUDA kernels."""
        try:
            return self.first(self.fits(device, None), use)
        except BuildError:  # of a store: what comes before the stores may serve the one GPU, and else it comes up again
            return None

    def _check_loaded(self, index: int) -> None:
        """Whether the CUDA kernels that were loaded for one GPU serve another one."""
        loaded = self._loaded["cuda"]
        if against := self.mismatches(loaded.manifest, "cuda", index):
            raise other_gpu(self.package, loaded.folder, against)

    def fits(self, device: str, index: int | None) -> Callable[[Artifact], bool]:
        """Whether nothing stands against an Artifact, as `mismatches` sees it."""
        return lambda found: not self.mismatches(found.manifest, device, index)

    def first(self, fits: Callable[[Artifact], bool], use: Callable[[Artifact], object]) -> Artifact | None:
        """The first Artifact at hand that fits and that `use` finds whole; the user's own damaged ones are put away."""
        for found in self.candidates():
            if fits(found):
                try:
                    use(found)
                except UnreadableArtifactError:
                    raise  # it may be whole: nothing is put away
                except IncompatibleArtifactError as error:
                    if found.store is None:
                        self._damage = error
                        raise
                    self._quarantine(found.store, found.folder, error)
                    continue
                return found
        return None

    def load(self, found: Artifact, device: str) -> None:
        """Load an Artifact's operators for a device type, each verified against the manifest first; a second call does
        nothing. Whether the Artifact fits is the caller's question.
        """
        for name in needed_for(device):  # the CPU library is the same for all Artifacts of these sources
            if name in self._loaded:
                continue
            load_operators(found, name)
            self._loaded[name] = found

    def _quarantine(self, store: Store, folder: Path, error: IncompatibleArtifactError) -> None:
        from ..build import progress

        place = store.quarantine(folder, error)
        with progress.shown(self.package) as say:
            say(f"{error.found}; the entry is now in {place} and is not used")

    def look_again(self, sources: str) -> None:
        """The sources were edited since the first look: good, as long as nothing made of the old ones is in use."""
        if self.manifest is not None or self._loaded or self._modules_of:
            raise changed_sources(self.package, self.folder, str(self.wanted.sources), sources, self.manifest is None)
        del self.__dict__["wanted"]

    def _gpus(self) -> tuple[tuple[int, int], ...]:
        """The compute capabilities of the GPUs that this process sees; asks for them the first time."""
        if self.host.capabilities is None:
            self.probe_gpus()
        return self.host.capabilities or ()

    def _require_gpu(self) -> None:
        if not self._gpus():
            raise incompatible(self.package, "cuda", [no_gpu(self.host), *self.verdict.against("cuda")])

    def info(self) -> dict[str, Any]:
        """What was built and what it is worth here, as plain JSON values."""
        damage = self.damage  # first: it may look again
        values = {
            "package": self.package,
            "version": self.version,
            "artifact": str(self.folder),
            "manifest": self.manifest.to_json() if self.manifest else None,
            "damage": str(damage) if damage else None,
            "host": self.host._asdict(),
            "verdict": [mismatch._asdict() for mismatch in self.verdict.mismatches],
            "loaded": {device: str(found.folder) for device, found in self._loaded.items()},
        }
        return dict(json.loads(json.dumps(values)))

    def probe_gpus(self) -> None:
        """Let the verdict cover the driver and the GPUs too; initialises CUDA where there is a GPU."""
        self.host = hosts.with_gpus(self.host)
