"""The Store: a cache of Artifacts, keyed by package, version and fingerprint.

    <folder>/<package>/<version>/<fingerprint>/   an Artifact: libraries and manifest.json
    <folder>/<package>/<version>/.lock            held by the process that makes an entry; never unlinked
    <folder>/<package>/<version>/.maker           names that process, for those that wait for it
    <folder>/<package>/<version>/.work/           private folders of makers, before they are renamed into place
    <folder>/<package>/<version>/.quarantine/     damaged entries, moved away
    <folder>/<package>/.build/                    build folders for Plans of all versions: build.work_folder

An entry is published atomically: it is made in a private folder, flushed to disk, then renamed. Loading a library runs
its code, so a folder that somebody else can write to is never used as a Store.
"""

# No `from __future__ import annotations`: each NamedTuple field would become a string to compile at every import.

import errno
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..core import manifest as manifests
from ..core.errors import (
    TOO_MANY_OPEN,
    IncompatibleArtifactError,
    StoreError,
    UnreadableArtifactError,
    UnreadableStoreError,
    command,
    way_out,
)
from ..core.manifest import Library
from ..core.variables import own_variable
from .artifact import Artifact
from .permissions import FILE, FOLDER, NOBODY_ELSE, PRIVATE, Guard, Trust

FINGERPRINT = re.compile("[0-9a-f]{64}")
# After a day, a maker on another machine counts as dead, however unreliable its filesystem's locks are.
DAY = 86400.0
# In a build folder: exists only while everything else in it can be reused by the next compile.
WHOLE = "whole.json"

OnDamage = Callable[[Path, IncompatibleArtifactError], None]


class Store(NamedTuple):
    """One package's part of a cache folder.

    Attributes:
        folder: the cache folder, which may hold other packages too.
        package, version: the package and version that its entries are for.
        own: whether this user may make entries here; a Store from SPLAT_CACHE_PATH is read-only.
        trust: the users whose entries are loaded.
    """

    folder: Path
    package: str
    version: str
    own: bool = True
    trust: Trust = NOBODY_ELSE

    @property
    def root(self) -> Path:
        """The folder for this package and version; nothing outside it is touched."""
        return self.folder / self.package / self.version

    def entries(self, damaged: OnDamage | None = None) -> Iterator[Artifact]:
        """The entries whose manifests are intact, sorted by name; their libraries are not read.

        Args:
            damaged: called for every other entry; without it, such an entry raises.

        Raises:
            StoreError: the Store cannot be read, or is not safe to load code from.
            IncompatibleArtifactError: as `read`.
        """
        try:
            with self.guard.opened(self.root) as root, os.scandir(root) as inside:
                names = sorted(each.name for each in inside)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self.unreadable(error) from error
        for folder in (self.root / name for name in names if FINGERPRINT.fullmatch(name)):
            try:
                entry = self.read(folder)
            except IncompatibleArtifactError as error:
                if not folder.exists():
                    continue  # another process has just removed it
                if damaged is None:
                    raise
                damaged(folder, error)
            else:
                yield entry

    def read(self, folder: Path) -> Artifact:
        """An entry, its manifest verified; its libraries are not read.

        Raises:
            StoreError: it cannot be read, or somebody else can write to it.
            IncompatibleArtifactError: its manifest is damaged, or belongs to something else.
        """
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
        return Artifact(folder, manifest, self)

    def verify_library(self, folder: Path, library: Library) -> Path:
        """Check an entry's library against its manifest, and that nobody else can change it afterwards.

        Owner, mode and bytes are all read from the same open file.

        Returns:
            Its path.

        Raises:
            StoreError: somebody else can change it.
            IncompatibleArtifactError: as `manifest.verify`.
        """
        path = folder / library.file
        try:
            with self.guard.opened(folder) as inside:
                manifests.verify_open(self.guard.open_file(inside, library.file, path), library, path)
        except FileNotFoundError as error:
            raise manifests.corrupt(path, str(error)) from error
        except OSError as error:
            raise manifests.unreadable(path, error) from error
        return path

    def entry(self, fingerprint: str, damaged: OnDamage | None = None) -> Artifact | None:
        """The entry for a fingerprint, its libraries verified; None if there is none. A damaged one is quarantined.

        Args:
            fingerprint: the entry's name.
            damaged: called with the new place of an entry that was quarantined.

        Raises:
            StoreError: as `read`.
            IncompatibleArtifactError: the entry is damaged, and the Store is read-only.
        """
        folder = self.root / fingerprint
        if not os.path.lexists(folder):
            return None
        try:
            entry = self.read(folder)
            entry.verify()
        except UnreadableArtifactError as error:
            raise UnreadableStoreError(
                error.problem, required=error.required, found=error.found, remedies=error.remedies
            ) from error
        except IncompatibleArtifactError as error:
            place = self.quarantine(folder, error)
            if damaged:
                damaged(place, error)
            return None
        return entry

    @contextmanager
    def making(self, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the right to make entries here: one process makes an entry, and others wait and then find it.

        After entering, check again whether the entry exists before making it. If the filesystem has no working locks,
        every process enters at once: each makes its own entry, and the first to finish publishes it.

        Args:
            waiting: called now and then with a description of the process that holds the lock.

        Raises:
            StoreError: the Store cannot be written, or is not safe.
        """
        from .locks import NO_LOCKS, exclusive  # not at the top: finding an entry takes no lock

        self.prepare()
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(self.root / ".lock", lambda: waiting(self._maker())))
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise self.unwritable(error) from error
            else:
                self.sign()
                self._remove_leftovers()
            yield

    def publish(self, fingerprint: str, make: Callable[[Path], object]) -> Artifact:
        """The entry for a fingerprint, made by `make(private folder)` unless it exists. Call it inside `making`.

        Raises:
            StoreError: the Store cannot be written. Nothing of the entry is left behind.
        """
        if not FINGERPRINT.fullmatch(fingerprint):
            raise ValueError(f"{fingerprint!r} is not a fingerprint")
        found = self.entry(fingerprint)
        if found:
            return found
        private = self.root / ".work" / f"{fingerprint}.{os.urandom(4).hex()}{_mark()}"
        try:
            private.mkdir(mode=PRIVATE)
            make(private)
            return self._publish(private, fingerprint)
        except BaseException as error:
            shutil.rmtree(private, ignore_errors=True)
            if isinstance(error, OSError):
                raise self.unwritable(error) from error
            raise

    def sign(self, log: str = "") -> None:
        """Tell waiting processes who is making an entry, since when, and where its log is."""
        text = f"process {os.getpid()} on {platform.node()}, since {time.strftime('%H:%M:%S')}"
        with suppress(OSError):  # only informative
            (self.root / ".maker").touch(mode=FILE)
            (self.root / ".maker").write_text(text + (f", log {log}" if log else ""), encoding="utf-8")

    def _maker(self) -> str:
        try:
            return (self.root / ".maker").read_text(encoding="utf-8") or "another process"
        except OSError:
            return "another process"

    def _remove_leftovers(self) -> None:
        """Remove what dead makers left behind; another machine's after a day, as its locks may be invisible here."""
        now = self._now()
        for left in (self.root / ".work").iterdir():
            with suppress(FileNotFoundError):
                elsewhere = "@" in left.name and not left.name.endswith(_mark())
                if not elsewhere or now - left.lstat().st_mtime > DAY:
                    shutil.rmtree(left, ignore_errors=True)

    def _now(self) -> float:
        """The filesystem's time at the last `sign`, because this machine's own clock may have been changed."""
        try:
            return (self.root / ".maker").stat().st_mtime
        except OSError:
            return time.time()

    def prepare(self) -> None:
        """Make the Store's folders, writable by nobody else, or check those that exist."""
        try:
            self.guard.make(self.root, FOLDER)
            self.guard.make(self.root / ".work", PRIVATE)
        except OSError as error:
            raise self.unwritable(error) from error

    def _publish(self, private: Path, fingerprint: str) -> Artifact:
        """Flush a finished private folder to disk and rename it into place."""
        manifest = manifests.read(private)
        assert manifest is not None
        for path in private.iterdir():
            path.chmod(FILE)
            _fsync(path)
        private.chmod(FOLDER)  # from now on, others may read it
        _fsync(private)
        place = self.root / fingerprint
        try:
            private.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            place = private  # another process without a lock was faster; ours is as good, and its content is known
        _fsync(self.root)
        return Artifact(place, manifest, self)

    def quarantine(self, folder: Path, because: IncompatibleArtifactError | None = None) -> Path:
        """Move a damaged entry to the quarantine folder and return its new place.

        Raises:
            IncompatibleArtifactError: the Store is read-only, so the entry stays; `because`, with how to fix it.
            StoreError: the Store cannot be written.
        """
        if not self.own:
            raise IncompatibleArtifactError(
                "the compiled kernels are damaged",
                required="an unchanged manifest and unchanged libraries",
                found=because.found if because else str(folder),
                remedies=[f"remove {folder}", f"or remove {self.folder} from {self._variable}"],
            ) from because
        place = self.root / ".quarantine" / f"{folder.name}.{os.urandom(4).hex()}"
        try:
            self.guard.make(place.parent, PRIVATE)
            with suppress(FileNotFoundError):  # another process was faster
                folder.rename(place)
        except OSError as error:
            raise self.unwritable(error) from error
        return place

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
            f"or free some space: {command(self.package)} cache prune",
        ]
        return StoreError(
            "compiled kernels cannot be stored",
            required=f"a writable folder with enough free space: {self.root}",
            found=f"{type(error).__name__}: {error}",
            remedies=[way_out(error)] if error.errno in TOO_MANY_OPEN else remedies,
        )


def _mark() -> str:
    """The suffix of private folders' names: the machine that made them."""
    return "@" + platform.node().replace("/", "_")


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
