"""The Snapshot: what a decision depends on, as it was read; and the installed package, which reads it.

There are two depths. The wheel alone is all that a call reads if the wheel's own Artifact fits. The rest (settings,
sources, the entries of the stores) is read only if it does not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .. import variables
from ..artifact import manifest as manifests
from ..artifact.artifact import Artifact, Damaged
from ..artifact.compatible import ANYTHING, Mismatch, Wanted
from ..artifact.content import MAIN, Content
from ..artifact.manifest import Manifest
from ..errors import IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError
from ..machine.files import is_file, is_folder, json_sha256
from ..machine.host import Host
from ..machine.platforms import can_compile, require_supported
from ..record import Record, remembered
from .no_kernels import changed_sources, no_wheel, unknown_sources

if TYPE_CHECKING:  # at import, load only what a fitting wheel needs
    from ..settings import Settings
    from ..store.store import Store


# The file that says where the checkout of an editable install is, in its copy of the loader.
NOTE = "checkout.json"


class Sources(Record):
    """The sources of a package's kernels."""

    # what would be compiled, with the options of the package's own table or none: those of this process take their
    # place
    content: Content
    folder: Path  # the folder with CMakeLists.txt, or with the files of the extensions
    # those in `[tool.kernelwheel]`; for a wheel, those that decide the binary, from its manifest
    options: dict[str, str]


class Snapshot(Record):
    """What a decision depends on. Nothing here touches a disk."""

    package: str
    version: str
    folder: Path  # of the package's own Artifact
    host: Host  # with its CPU, if a manifest here asks for some of its features
    manifest: Manifest | None  # that of the wheel; None if there is none, or it is damaged
    damage: IncompatibleArtifactError | None  # what is wrong with the wheel's Artifact
    missing: Mismatch | None  # what stands for the mismatches of a wheel, if there is none
    # the option `jit`; empty if that takes the settings, and these are not read or not right
    jit: str
    # From here on, what is not read for the wheel alone.
    settings: Settings | None = None
    sources: Sources | None = None  # what can be compiled from; None if there is nothing
    wanted: Wanted = ANYTHING  # what entries are checked against
    stores: tuple[Store, ...] = ()
    entries: tuple[Artifact | Damaged, ...] = ()  # of all stores, in search order
    error: KernelWheelError | None = None  # what ended the reading: wrong settings, a store that cannot be used

    @property
    def artifact(self) -> Artifact | None:
        """The wheel's Artifact."""
        return Artifact(self.folder, self.manifest) if self.manifest is not None else None

    @property
    def candidates(self) -> tuple[Artifact | Damaged, ...]:
        """The Artifacts in the order to try them: the wheel's, then those in the stores."""
        return (*([self.artifact] if self.artifact else []), *self.entries)

    @property
    def parts(self) -> list[str]:
        """The parts that kernels are compiled and loaded in, main first; an empty name alone, if they are in none."""
        content = self.manifest.content if self.manifest else self.wanted.content
        return sorted(content["parts"] if content else (), key=lambda part: (part != MAIN, part)) or [""]

    def wanted_of(self, artifact: Artifact) -> Wanted:
        """What an Artifact is checked against. The wheel's own was installed to be used, whatever options are set."""
        return self.wanted if artifact.guard else Wanted(self.version)

    def store_of(self, folder: Path) -> Store:
        """The store that an entry is in."""
        return next(each for each in self.stores if each.root == folder.parent)


class InstalledPackage:
    """An installed package, as it is read. It remembers what counts as it was at first use: settings and sources.

    What a call of `load` describes is one that has no wheel, whose settings and sources are given.
    """

    def __init__(self, package: str, version: str, folder: Path, environ: Mapping[str, str]) -> None:
        self.package = package
        self.version = version
        self.folder = folder
        self.in_use = False  # whether its kernels are loaded in this process
        self.given = False  # whether its settings and sources are, and not looked for
        self.environ = environ
        self.manifest: Manifest | None = None
        self.damage: IncompatibleArtifactError | None = None  # what is wrong with the wheel's Artifact
        self.missing = no_wheel(package, folder)  # what stands for the wheel's mismatches, if there is none
        try:
            self.manifest = manifests.read(folder, package)
        except IncompatibleArtifactError as error:
            self.damage = error

    def read_again(self) -> InstalledPackage:
        """The same; read anew if its manifest could not be: too many files were open, or a network disk was away."""
        if isinstance(self.damage, UnreadableArtifactError):
            return InstalledPackage(self.package, self.version, self.folder, self.environ)
        return self

    def read_wheel(self, host: Host) -> Snapshot:
        """The wheel alone."""
        manifest, damage = self.manifest, self.damage
        host = host.asked_for(manifest.cpu) if manifest else host
        missing = None if manifest or damage else self.missing
        jit = self._jit_of_wheel()
        return Snapshot(self.package, self.version, self.folder, host, manifest, damage, missing, jit)

    def read(self, host: Host) -> Snapshot:
        """All of it, as far as it can be read."""
        read = self.read_wheel(host)
        stores: list[Store] = []
        entries: list[Artifact | Damaged] = []
        try:
            jit = read.jit or self.settings.jit
            read = read._replace(settings=self.settings, sources=self.source, wanted=self.wanted, jit=jit)
            for store in self.stores():
                stores.append(store)
                entries.extend(store.entries())
        except KernelWheelError as error:
            read = read._replace(error=error)
        features = [name for each in entries if isinstance(each, Artifact) for name in each.manifest.cpu]
        return read._replace(stores=tuple(stores), entries=tuple(entries), host=read.host.asked_for(features))

    def _jit_of_wheel(self) -> str:
        """The option `jit`; for a wheel with the default, without the cost and errors of the others."""
        jit = variables.get_variable(self.environ, variables.own_variable(self.package, "jit")).lower()
        if self.manifest is None or jit in ("", "auto"):
            return "auto" if self.manifest else ""
        try:
            return self.settings.jit
        except KernelWheelError:
            return ""

    @remembered
    def settings(self) -> Settings:
        """The effective settings of this process."""
        from .. import settings

        if self.manifest is not None:  # not from `source`, which takes longer to find than an entry of a store
            texts = settings.recorded(self.manifest.built_with["settings"])
        else:
            texts = self.source.options if self.source else {}
        return settings.Settings.resolve(self.package, texts, self.environ)

    @remembered
    def source(self) -> Sources | None:
        """The sources to compile from: next to the Artifact in a wheel, or in the checkout; None if there are none."""
        return find_sources(self.package, self.version, self.folder, self.manifest)

    @property
    def content(self) -> Content | None:
        """What is compiled, with the options of the package's own table; None if nothing says."""
        return self.manifest.content if self.manifest else self.source.content if self.source else None

    @property
    def wanted(self) -> Wanted:
        """What an entry of a store is checked against: what would be compiled now.

        Of a wheel's sources, or of a checkout's as they were when first read, with the options of this process.
        """
        content = self.content
        if content is None:
            return Wanted(self.version, unknown=unknown_sources(self.package))
        return Wanted(self.version, {**content, "options": self.settings.content()})

    def read_sources_again(self) -> None:
        """Accept sources of a checkout that were edited since they were first read; the compiler checks a wheel's."""
        before = self.source
        if self.manifest is not None or self.given or before is None:
            return
        now = find_sources(self.package, self.version, self.folder, None)
        if now and self.in_use:
            old, new = (json_sha256(each.content["sources"]) for each in (before, now))
            if new != old:
                raise changed_sources(self.package, self.folder, old, new, editable=True)
        self.source = now

    def stores(self) -> Iterator[Store]:
        """The stores in search order; the last one is the user's own. None where no kernels are compiled."""
        from ..store.store import stores

        return stores(self.settings, self.package, self.version) if can_compile() else iter(())

    def own_store(self) -> Store:
        """The user's own store. Raises where no kernels are compiled, which have none."""
        require_supported()
        return [*self.stores()][-1]


def find_sources(package: str, version: str, native: Path, manifest: Manifest | None) -> Sources | None:
    """Find the sources next to a wheel's Artifact, or those of the checkout that the package is imported from."""
    if manifest is not None:
        from ..settings import recorded

        folder, content = native / "src", manifest.content
        there = is_folder(folder) if content["extensions"] else is_file(folder / "CMakeLists.txt")
        return Sources(content, folder, recorded(manifest.built_with["settings"])) if there else None
    project = _checkout(package, native)
    if not is_file(project / "pyproject.toml"):
        return None
    from .. import compiler_process

    found = compiler_process.describe(package, version, project)
    return Sources(found["content"], Path(found["folder"]), found["options"]) if found else None


def _checkout(package: str, native: Path) -> Path:
    """The project of an editable install: where its note says, or around the package that is imported."""
    for note in (Path(folder or ".") / editable_name(package) / NOTE for folder in sys.path):
        if os.path.exists(note):
            return Path(json.loads(note.read_text(encoding="utf-8"))["project"])
    # Follow the file's link: a strict editable install imports a folder of links to the checkout's files.
    return (native.parent / "__init__.py").resolve().parents[package.count(".") + 1]


def editable_name(package: str) -> str:
    """What an editable install of a package calls its copy of the runtime, which is beside the package."""
    return f"_{package.replace('.', '__')}_kernelwheel"


def package_path(package: str) -> str:
    """A package's folder in a wheel, relative to where it is installed: `acme/ops`."""
    return package.replace(".", "/")
