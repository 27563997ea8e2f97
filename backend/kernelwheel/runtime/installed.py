"""An installed package: its own Artifact, its settings, its sources and its stores.

Read-only. Whatever an import does not need is read on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from . import manifest as manifests
from . import variables
from .artifact import Artifact
from .compatible import Mismatch, Wanted, check
from .errors import IncompatibleArtifactError, UnreadableArtifactError
from .files import json_sha256
from .host import Host
from .manifest import Manifest
from .no_kernels import changed_sources, unusable_artifact
from .platforms import can_compile
from .record import remembered

if TYPE_CHECKING:  # at import, load only what a fitting wheel needs
    from .content import Content
    from .settings import Settings
    from .sources import Sources
    from .store import Store

    OnDamage = Callable[[Store, Path, IncompatibleArtifactError], None]


class InstalledPackage:
    """An installed package: what a selection depends on."""

    def __init__(self, package: str, version: str, folder: Path, environ: Mapping[str, str]) -> None:
        self.package = package
        self.version = version
        self.folder = folder
        self.manifest: Manifest | None = None
        self.in_use = False  # whether its kernels are loaded in this process
        self.environ = environ
        self.damage: IncompatibleArtifactError | None = None  # what is wrong with the wheel's Artifact
        self._read()

    def _read(self) -> None:
        """Read the wheel's manifest."""
        try:
            self.manifest, self.damage = manifests.read(self.folder, self.package), None
        except IncompatibleArtifactError as error:
            self.damage = error

    def read_again(self) -> None:
        """Read a manifest again that could not be read: too many files were open, or a network disk did not answer."""
        if isinstance(self.damage, UnreadableArtifactError):
            self._read()
            if self.manifest is not None:
                for name in ("settings", "source", "wanted"):  # computed without the manifest
                    self.__dict__.pop(name, None)

    @property
    def artifact(self) -> Artifact | None:
        """The wheel's Artifact; None if the package was installed without one, or it cannot be read."""
        return Artifact(self.folder, self.manifest) if self.manifest is not None else None

    @remembered
    def settings(self) -> Settings:
        """The effective settings of this process."""
        from . import settings

        if self.manifest is not None:  # not from `source`, which takes longer to find than an entry of a store
            texts = settings.recorded(self.manifest.built_with["settings"])
        else:
            texts = self.source.options if self.source else {}
        return settings.Settings.resolve(self.package, texts, self.environ)

    @property
    def jit(self) -> str:
        """The value of the option `jit`; for a wheel with the default, without the cost and errors of the others."""
        jit = variables.get_variable(self.environ, variables.own_variable(self.package, "jit")).lower()
        return "auto" if self.manifest is not None and jit in ("", "auto") else self.settings.jit

    @remembered
    def source(self) -> Sources | None:
        """The sources to compile from: next to the Artifact in a wheel, or in the checkout; None if there are none."""
        from .sources import find_sources

        return find_sources(self.package, self.version, self.folder, self.manifest)

    @property
    def content(self) -> Content | None:
        """What is compiled, with the options of the package's own table; None if nothing says."""
        return self.manifest.content if self.manifest else self.source.content if self.source else None

    @remembered
    def wanted(self) -> Wanted:
        """What an entry of a store is checked against: what would be compiled now.

        Of a wheel's sources, or of a checkout's as they were when first read, with the options of this process.
        """
        content = self.content
        return Wanted(self.version, {**content, "options": self.settings.content(cuda=True)} if content else None)

    def wanted_of(self, artifact: Artifact) -> Wanted:
        """What an Artifact is checked against. The wheel's own was installed to be used, whatever options are set."""
        return self.wanted if artifact.guard else Wanted(self.version)

    def read_sources_again(self) -> None:
        """Accept sources of a checkout that were edited since they were first read; the compiler checks a wheel's."""
        before = self.source
        if self.manifest is not None or before is None:
            return
        del self.__dict__["source"]
        if self.source is None:
            return
        old, new = (json_sha256(each.content["sources"]) for each in (before, self.source))
        if new != old and self.in_use:
            self.__dict__["source"] = before
            raise changed_sources(self.package, self.folder, old, new, editable=True)
        self.__dict__.pop("wanted", None)

    def stores(self) -> Iterator[Store]:
        """The stores in search order; the last one is the user's own. None where no kernels are compiled."""
        from . import places

        return places.stores(self.settings, self.package, self.version) if can_compile() else iter(())

    def own_store(self) -> Store:
        """The user's own store."""
        *_, store = self.stores()
        return store

    def candidates(self, damaged: OnDamage | None = None) -> Iterator[Artifact]:
        """The available Artifacts, in the order to try them: the wheel's, then those in the stores."""
        if self.artifact:
            yield self.artifact
        for store in self.stores():
            passed_over = (lambda *_: None) if store.own else None
            yield from store.entries(partial(damaged, store) if damaged else passed_over)

    def mismatches(self, host: Host) -> tuple[Mismatch, ...]:
        """The mismatches of the wheel's Artifact; if it is missing or damaged, that is the only one."""
        if damage := self.damage:
            return (unusable_artifact(damage),)
        if self.manifest is None:
            return (self.no_artifact(),)
        return check(self.manifest, host.asked_for(self.manifest.cpu), Wanted(self.version))

    def no_artifact(self) -> Mismatch:
        """The mismatch of a package that was installed without an Artifact."""
        found = "no kernels are installed with the package, as in an editable install"
        remedy = f"install a wheel of {self.package} (pip install . in the checkout builds one)"
        return Mismatch("artifact", f"compiled kernels in {self.folder}", found, remedy)
