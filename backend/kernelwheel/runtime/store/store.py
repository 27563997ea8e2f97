"""The Store: a cache of Artifacts, keyed by package, version and fingerprint.

    <folder>/<package>/<version>/<fingerprint>/   an Artifact: libraries and manifest.json
    <folder>/<package>/<version>/.lock            held by the process that makes an entry; never unlinked
    <folder>/<package>/<version>/.maker           names that process, for those that wait for it
    <folder>/<package>/<version>/.lock.<part>, .maker.<part>    the same for an entry with one part of the package
    <folder>/<package>/<version>/.work/           private folders of makers, before they are renamed into place
    <folder>/<package>/<version>/.quarantine/     damaged entries, moved away
    <folder>/<package>/.build/                    build folders for Plans of all versions: compiler/work_folder.py

Loading a library runs its code, so a folder that somebody else can write to is never used as a Store. Entries are made
by `publishing`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..artifact import manifest as manifests
from ..artifact.artifact import Artifact, Damaged
from ..artifact.manifest import is_digest
from ..errors import TOO_MANY_OPEN, IncompatibleArtifactError, StoreError, UnreadableStoreError, command, way_out
from ..machine.permissions import NOBODY_ELSE, PRIVATE, Guard, Trust, has_other_privileges
from ..record import Record
from ..settings import EVERYONE, Settings
from ..variables import default_folder, own_variable

# In a build folder: exists only while everything else in it can be reused by the next compile.
REUSABLE = "reusable.json"


class Store(Record):
    """One package's part of a cache folder."""

    folder: Path  # the cache folder, which may hold other packages too
    package: str  # the package and version that its entries are for
    version: str
    own: bool = True  # whether this user may make entries here; a Store from SPLAT_CACHE_PATH is read-only
    trust: Trust = NOBODY_ELSE  # the users whose entries are loaded
    part: str = ""  # the part of the package that an entry is made of: each part has a lock of its own

    @property
    def root(self) -> Path:
        """The folder for this package and version; nothing outside it is touched."""
        return self.folder / self.package / self.version

    def entries(self) -> Iterator[Artifact | Damaged]:
        """The entries, sorted by name; their libraries are not read. A damaged one of a read-only Store is raised."""
        try:
            with self.guard.opened(self.root) as root, os.scandir(root) as inside:
                names = sorted(each.name for each in inside)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self.unreadable(error) from error
        for folder in (self.root / name for name in names if is_digest(name)):
            try:
                yield self.read(folder)
            except IncompatibleArtifactError as error:
                if not folder.exists():
                    continue  # another process has just removed it
                if not self.own:
                    raise self._damaged_for_good(folder, error) from error
                yield Damaged(folder, error)

    def read(self, folder: Path) -> Artifact:
        """An entry, its manifest verified; its libraries are not read."""
        try:
            path = folder / manifests.FILE
            with self.guard.opened(folder) as inside:
                text = manifests.content_of(self.guard.open_file(inside, path.name, path))
            manifest = manifests.from_bytes(text, path)
        except FileNotFoundError as error:
            raise manifests.corrupt(folder, str(error)) from error
        except OSError as error:
            raise self.unreadable(error) from error
        says = (manifest.package, manifest.version, manifest.fingerprint)
        if says != (self.package, self.version, folder.name):
            raise manifests.corrupt(folder, "its manifest is for {} {}, fingerprint {}".format(*says))
        return Artifact(folder, manifest, self.guard)

    def quarantine(self, folder: Path, because: IncompatibleArtifactError | None = None) -> Path:
        """Move a damaged entry to the quarantine folder and return its new place."""
        if not self.own:
            assert because
            raise self._damaged_for_good(folder, because) from because
        place = self.root / ".quarantine" / f"{folder.name}.{os.urandom(4).hex()}"
        try:
            self.guard.check(place.parent, make=PRIVATE)
            with suppress(FileNotFoundError):  # another process was faster
                folder.rename(place)
        except OSError as error:
            raise self.unwritable(error) from error
        return place

    def _damaged_for_good(self, folder: Path, error: IncompatibleArtifactError) -> IncompatibleArtifactError:
        """The error for a damaged entry of a read-only Store, which stays."""
        remedies = [f"remove {folder}", f"or remove {self.folder} from {self._variable}"]
        return type(error)(error.problem, required=error.required, found=error.found, remedies=remedies)

    @property
    def guard(self) -> Guard:
        """The Guard that refuses what other users could have put here."""
        trusted = own_variable(self.package, "trusted-owners")
        return Guard(self.folder, self.trust, "the store of compiled kernels", self._variable, trusted)

    @property
    def builds(self) -> Path:
        """The parent of the build folders, which hold the Plans of all versions."""
        return self.root.parent / ".build"

    @property
    def _variable(self) -> str:
        return own_variable(self.package, "cache-dir" if self.own else "cache-path")

    def unreadable(self, error: OSError) -> UnreadableStoreError:
        """The error for a Store that cannot be read, for any reason."""
        return UnreadableStoreError(
            "the store of compiled kernels cannot be read",
            required=f"a folder that this user can read: {self.root}",
            found=f"{type(error).__name__}: {error}",
            remedies=[way_out(error), f"or set {self._variable} to another folder"],
        )

    def unwritable(self, error: OSError) -> StoreError:
        """The error for a Store that cannot be written, for any reason."""
        remedies = [
            f"set {own_variable(self.package, 'cache-dir')} to a writable folder with enough free space",
            f"or free some space: {command(self.package, 'cache prune')}",
        ]
        return StoreError(
            "compiled kernels cannot be stored",
            required=f"a writable folder with enough free space: {self.root}",
            found=f"{type(error).__name__}: {error}",
            remedies=[way_out(error)] if error.errno in TOO_MANY_OPEN else remedies,
        )


def stores(settings: Settings, package: str, version: str) -> Iterator[Store]:
    """The Stores that the settings name, in search order; the last is the user's own."""
    trust = trust_of(settings)
    for folder in map(Path, settings.cache_path):
        yield Store(folder, package, version, own=False, trust=trust)
    own = Path(settings.cache_dir) if settings.cache_dir else default_folder()
    yield Store(own, package, version, trust=trust)


def trust_of(settings: Settings) -> Trust:
    """The users that the settings trust, by number."""
    if has_other_privileges():
        raise StoreError(
            "a program that runs with another user's privileges cannot use a cache",
            required="one user: the environment of whoever started the program decides where caches are",
            found=f"user {os.getuid()}, privileges of user {os.geteuid()}, or privileges put "
            "aside or given by the program's file (setuid, setgid, capabilities; AT_SECURE)",
            remedies=["install a wheel that was built for this machine"],
        )
    named = settings.trusted_owners
    return Trust(frozenset(int(user) for user in named if user != EVERYONE), EVERYONE in named)
