"""The named parts of a .sog: the members of an archive, or the files beside a meta.json.

What meta.json names may be hostile. In an archive it is looked up in the directory, and no name becomes a path; beside
a meta.json it is the name of a file of the same folder, no path and no link to elsewhere.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol

from .file_input import bytes_left, opened_file, scene_file
from .gaussians import SceneError
from .names import quoted
from .sog_meta import META
from .zip_input import opened_zip


class SogParts(Protocol):
    """What a scene is made of, by names."""

    @property
    def place(self) -> str:
        """What the parts are in, for messages."""

    def size(self, name: str) -> int | None:
        """How many bytes a part has; None if there is none of this name. SceneError if the name is none for a part."""

    def read(self, name: str) -> bytes:
        """A part that is there."""

    def stored(self, names: Sequence[str]) -> int:
        """How many bytes hold these parts, packed as they are."""


@contextmanager
def sog_parts(path: Path) -> Iterator[SogParts]:
    """The parts of a scene, by the path of its archive or of its meta.json; OSError if that cannot be opened.

    A SceneError of the block gets the path in front.
    """
    with scene_file(path) as file:
        if path.name.lower() == META:
            yield _Folder(path)
        else:
            with opened_zip(file, "a .sog file, a ZIP archive,") as archive:
                yield _Archive(archive, _members(archive), bytes_left(file))


@dataclass(frozen=True)
class _Folder:
    meta: Path
    place: str = "folder"

    def _path(self, name: str) -> Path:
        if name == META:
            return self.meta
        if name in ("", "..") or PurePosixPath(name).name != name or PureWindowsPath(name).name != name:
            raise SceneError(f"the name of a file beside {META} is required, found {quoted(name)!r}")
        path = self.meta.parent / name
        if path.resolve().parent != self.meta.parent.resolve():
            raise SceneError(f"a file beside {META} is required, found a link to elsewhere: {quoted(name)}")
        return path

    def size(self, name: str) -> int | None:
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return None
        except SceneError:
            raise
        except (OSError, ValueError) as error:  # a name of 5000 letters, or with a zero
            raise SceneError(f"{quoted(name)} cannot be opened: {quoted(str(error))}") from error

    def read(self, name: str) -> bytes:
        with opened_file(self._path(name)) as file:
            return file.read(bytes_left(file))

    def stored(self, names: Sequence[str]) -> int:
        return sum(self.size(name) or 0 for name in names)


@dataclass(frozen=True)
class _Archive:
    archive: zipfile.ZipFile
    members: dict[str, zipfile.ZipInfo]
    file_size: int
    place: str = "archive"

    def size(self, name: str) -> int | None:
        return self.members[name].file_size if name in self.members else None

    def read(self, name: str) -> bytes:
        info = self.members[name]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise SceneError(f"{quoted(info.filename)} must be stored or deflated, found method {info.compress_type}")
        try:
            with self.archive.open(info) as member:
                return member.read(info.file_size)
        except MemoryError:
            raise
        except Exception as error:  # zipfile has no common error class for damaged files
            raise SceneError(f"{quoted(info.filename)} is damaged: {quoted(str(error))}") from error

    def stored(self, names: Sequence[str]) -> int:
        return self.file_size


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename in members:
            raise SceneError(f"the names in the archive must differ, found twice: {quoted(info.filename)}")
        members[info.filename] = info
    return members
