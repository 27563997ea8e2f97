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
from typing import BinaryIO, Final, Protocol

from .file_input import bytes_left, opened_file, scene_file
from .gaussians import SceneError
from .names import quoted
from .sog_meta import META

_DIRECTORY: Final = 2**16
"""Maximum size of the archive's directory in bytes; that of 8 names has 500."""
_END: Final = 22


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
            with _opened(file) as archive:
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


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    _check_directory(file)
    try:
        return zipfile.ZipFile(file)
    except Exception as error:  # as above
        raise SceneError(f"a .sog file is required, a ZIP archive, found {quoted(str(error))}") from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename in members:
            raise SceneError(f"the names in the archive must differ, found twice: {quoted(info.filename)}")
        members[info.filename] = info
    return members


def _check_directory(file: BinaryIO) -> None:
    """Raise SceneError if the archive's directory is large: zipfile makes objects of all of it."""
    size = bytes_left(file)
    file.seek(max(0, size - _END - 2**16))
    end = file.read()
    file.seek(0)
    # Where zipfile looks: at the very end, then before a comment.
    at = len(end) - _END
    if not (at >= 0 and end[at : at + 4] == b"PK\5\6" and end[-2:] == b"\0\0"):
        at = end.rfind(b"PK\5\6")
    if at < 0 or len(end) - at < _END:
        raise SceneError(
            f"a .sog file is required, a ZIP archive, found {end[:16]!r}"
            if size
            else "a .sog file is required, found nothing"
        )
    directory = int.from_bytes(end[at + 12 : at + 16], "little")
    if directory > _DIRECTORY or end[max(at - 20, 0) : at].startswith(b"PK\6\7"):
        raise SceneError(f"an archive with a directory of at most {_DIRECTORY} bytes is required, found a larger one")
