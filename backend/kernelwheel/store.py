"""The Store: a cache of Artifacts, keyed by package, version and fingerprint.

    <folder>/<package>/<version>/<fingerprint>/   an Artifact: libraries and manifest.json
    <folder>/<package>/<version>/.lock            held by whoever makes an entry; never unlinked
    <folder>/<package>/<version>/.maker           who that is, for those who wait
    <folder>/<package>/<version>/.work/           private folders of makers, before they are renamed into place
    <folder>/<package>/<version>/.quarantine/     entries that were damaged, out of everybody's way

An entry is there whole or not at all: it is made in a private folder, brought to the disk, and renamed. Loading a
library is running its code, so a folder that somebody else can write to is not a Store.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import manifest as manifests
from .errors import IncompatibleArtifactError, KernelWheelError
from .locks import exclusive
from .manifest import Manifest

# What a filesystem answers that has no working locks (some network filesystems).
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


def default_folder() -> Path:
    """The user's cache folder (XDG_CACHE_HOME, else ~/.cache), where each package has its own part."""
    import platformdirs

    return platformdirs.user_cache_path("kernelwheel", appauthor=False)


class StoreError(KernelWheelError):
    """The Store cannot be used: unsafe, unwritable, or full."""


@dataclass(frozen=True)
class Entry:
    """An Artifact in a Store."""

    folder: Path
    manifest: Manifest


@dataclass(frozen=True)
class Store:
    """One package's part of a cache folder.

    Attributes:
        folder: the cache folder, which may hold other packages too.
        package, version: whose entries these are.
        own: whether this user makes entries here; a Store of SPLAT_CACHE_PATH is only read, and may be another's.
    """

    folder: Path
    package: str
    version: str
    own: bool = True

    @property
    def root(self) -> Path:
        """The folder of this package and version; nothing outside it is touched."""
        return self.folder / self.package / self.version

    def entries(self) -> Iterator[Entry]:
        """The entries that have a readable manifest, in the order of their names.

        Raises:
            StoreError: the Store is not safe to load code from.
        """
        if not self.root.is_dir():
            return
        self.check_safe(self.root)
        for folder in sorted(self.root.iterdir()):
            if folder.name.startswith(".") or not folder.is_dir():
                continue
            self.check_safe(folder)
            manifest = manifests.read(folder)
            if manifest is not None:
                yield Entry(folder, manifest)

    def entry(self, fingerprint: str) -> Entry | None:
        """The entry of a fingerprint, its libraries verified; a damaged one is put into quarantine first."""
        folder = self.root / fingerprint
        if not folder.is_dir():
            return None
        self.check_safe(self.root)
        self.check_safe(folder)
        try:
            manifest = manifests.read(folder)
            if manifest is None or manifest.fingerprint != fingerprint:
                raise manifests.corrupt(folder, "no manifest of this fingerprint")
            for library in manifest.libraries:
                manifests.verify(folder, library)
        except IncompatibleArtifactError:
            if not self.own:
                raise
            self.quarantine(folder)
            return None
        return Entry(folder, manifest)

    @contextmanager
    def making(self, waiting: Callable[[str], None]) -> Iterator[None]:
        """Be the only one who makes entries here: of many processes one makes, the others wait, then find.

        Whoever enters looks again for what it wants before it makes it. Where the filesystem has no working locks,
        everybody is let in at once: then each makes its own, and the first to finish publishes it.

        Args:
            waiting: called once a second, with the words of whoever makes something now.

        Raises:
            StoreError: the Store cannot be written, or is not safe.
        """
        self.prepare()
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(self.root / ".lock", lambda: waiting(self._maker())))
                self._sign()
                shutil.rmtree(self.root / ".work", ignore_errors=True)  # of makers who died: we are the only one
                (self.root / ".work").mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise self.unwritable(error) from error
            yield

    def publish(self, fingerprint: str, make: Callable[[Path], object]) -> Entry:
        """The entry of a fingerprint, made by `make(private folder)` unless it is there. Call it inside `making`.

        Raises:
            StoreError: the Store cannot be written. Nothing of the entry is there then.
        """
        found = self.entry(fingerprint)
        if found:
            return found
        try:
            private = Path(tempfile.mkdtemp(prefix=f"{fingerprint}.", dir=self.root / ".work"))
            make(private)
            return self._publish(private, fingerprint)
        except OSError as error:
            raise self.unwritable(error) from error

    def _sign(self) -> None:
        text = f"process {os.getpid()}, since {time.strftime('%H:%M:%S')}"
        (self.root / ".maker").write_text(text, encoding="utf-8")

    def _maker(self) -> str:
        try:
            return (self.root / ".maker").read_text(encoding="utf-8")
        except OSError:
            return "another process"

    def prepare(self) -> None:
        """Make the Store's folders, for this user alone, or check those that are there."""
        try:
            (self.root / ".work").mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self.unwritable(error) from error
        self.check_safe(self.root)

    def _publish(self, private: Path, fingerprint: str) -> Entry:
        """Bring a finished private folder to the disk and rename it to its place."""
        for path in [*private.iterdir(), private]:
            _fsync(path)
        place = self.root / fingerprint
        try:
            private.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            place = private  # somebody without a lock was faster: ours is as good, and we know what is in it
        _fsync(self.root)
        manifest = manifests.read(place)
        assert manifest is not None
        return Entry(place, manifest)

    def quarantine(self, folder: Path) -> Path:
        """Move a damaged entry out of everybody's way and return where it is now."""
        target = self.root / ".quarantine"
        target.mkdir(mode=0o700, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=target))
        folder.rename(place)
        return place

    def check_safe(self, folder: Path) -> None:
        """Refuse a folder that is a link, or that somebody else owns or can write to.

        Raises:
            StoreError: with the command that mends it.
        """
        info = folder.lstat()
        strangers = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        owned = info.st_uid in (os.getuid(), 0) or not self.own
        if not stat.S_ISDIR(info.st_mode) or strangers or not owned:
            raise StoreError(
                f"the store of compiled kernels is not safe: {folder}",
                required="a folder (no link) that only this user can write to, because loading a library runs its code",
                found=f"{stat.filemode(info.st_mode)}, owner {info.st_uid}, this user {os.getuid()}",
                remedies=[f"chmod go-w {folder}", "or choose another cache folder"],
            )

    def unwritable(self, error: OSError) -> StoreError:
        """The error for a Store that cannot be written, whatever the reason."""
        return StoreError(
            "compiled kernels cannot be kept",
            required=f"a writable folder with room: {self.root}",
            found=f"{type(error).__name__}: {error}",
            remedies=[
                f"set {self.package.upper()}_CACHE_DIR to a folder with room that this user can write to",
                f"or make room: python -m {self.package} cache prune",
            ],
        )


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
