"""The reader of Artifacts packed in a zip file: one from `cache export`, or a wheel.

The file may come from anywhere, and only this module opens one. The manifest is read first, up to a size limit. It says
how large everything else is, and nothing is read beyond that, one block at a time. Only stored and deflated members are
accepted, which may not share bytes, and a central directory of limited size.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from reprlib import repr as short
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ..project.build_platforms import HEADER, PLATFORMS
from ..runtime.artifact import manifest as manifests
from ..runtime.artifact.manifest import Library, Manifest
from ..runtime.decision.snapshot import package_path
from ..runtime.errors import IncompatibleArtifactError, UnreadableArtifactError
from .manifest_file import from_stranger
from .wheel_record import LARGEST_RECORD, parse_record, record_digest, wrong_member

BLOCK = 1 << 20
# Of a zip file: enough for 30 000 members, more than a torch wheel has. Each byte takes ten bytes of memory.
LARGEST_DIRECTORY = 4 << 20
MOST_DAMAGE = 20  # lines about one wheel
LONGEST_SHOWN = 200
_END_OF_ZIP = struct.Struct("<4s4H2LH")  # APPNOTE.TXT, 4.3.16: "End of central directory record"
_ZIP64_LOCATOR = 20  # bytes, just before that record
# What zipfile raises for an invalid file, besides OSError for a bad offset.
_OF_ZIPFILE = (BadZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError, RuntimeError)
_UNREADABLE_FLAGS = 0x1 | 0x20 | 0x40  # encrypted, patched, strongly encrypted


class Packed:
    """The Artifact in a zip file that is open: its `manifest`, and the `text` of that, in bytes."""

    def __init__(self, source: Path, archive: ZipFile) -> None:
        self._source = source
        self._archive = archive
        everything = archive.infolist()
        found = [info for info in everything if info.filename.endswith(f"/_native/{manifests.FILE}")]
        if len(found) != 1:
            raise not_ours(source, f"{len(found)} files */_native/{manifests.FILE}")
        self._folder = found[0].filename.removesuffix(manifests.FILE)
        self.text = b"".join(self._blocks(found[0], manifests.LARGEST))
        self.manifest = from_stranger(self.text, f"{source}: {manifests.FILE}")
        if self._folder != native_folder(self.manifest):
            raise not_ours(source, f"the manifest of {self.manifest.package} in {short(self._folder)}")
        libraries = {f"{self._folder}{library.file}" for library in self.manifest.libraries}
        self._is_wheel = not {info.filename for info in everything} <= {found[0].filename, *libraries}

    def blocks(self, library: Library) -> Iterator[bytes]:
        """The bytes of a library, no more than the manifest says. They are not verified until the last block is read.

        Raises:
            IncompatibleArtifactError: they do not match the manifest, or are not a library for its platform.
        """
        where, digest, head = f"{self._source}: {library.file}", hashlib.sha256(), b""
        found = [info for info in self._archive.infolist() if info.filename == f"{self._folder}{library.file}"]
        if len(found) != 1:
            raise manifests.corrupt(where, f"the file contains it {len(found)} times")
        for block in self._blocks(found[0], library.size):
            head = head or block[:HEADER]
            digest.update(block)
            yield block
        if digest.hexdigest() != library.sha256:
            raise manifests.corrupt(where, "its sha256 does not match the manifest")
        platform = self.manifest.requires.platform
        if platform not in PLATFORMS or not PLATFORMS[platform].is_library(head):
            raise manifests.corrupt(where, f"it is not a shared library for {platform}")

    def record_damage(self) -> Iterator[str]:
        """How the members of a wheel differ from its RECORD, one line each, and no more than anybody reads."""
        damage = self._record_damage() if self._is_wheel else iter(())
        try:
            yield from islice(damage, MOST_DAMAGE)
            if next(damage, None):
                yield "and more"
        except UnreadableArtifactError:
            raise
        except IncompatibleArtifactError as error:  # a member that cannot be unpacked
            yield error.found

    def _record_damage(self) -> Iterator[str]:
        for info in self._archive.infolist():
            if wrong := wrong_member(info):
                yield f"{_shown(info.orig_filename)}: {wrong}"
        files = [info for info in self._archive.infolist() if not info.is_dir()]
        members = {info.filename: info for info in files}
        records = [name for name in members if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
        if len(members) < len(files):
            yield "it contains a file twice"
        elif len(records) != 1:
            yield f"it contains {len(records)} RECORDs"
        else:
            yield from self._unlike_record(members, members.pop(records[0]))

    def _unlike_record(self, members: dict[str, ZipInfo], record: ZipInfo) -> Iterator[str]:
        try:
            recorded = parse_record(b"".join(self._blocks(record, LARGEST_RECORD)))
        except ValueError as error:
            yield f"RECORD: {error}"
            return
        for missing in sorted(recorded.keys() - members.keys() - {record.filename}):
            yield f"{_shown(missing)}: it is in RECORD, but not in the wheel"
        for name, info in members.items():
            if not recorded.get(name):
                yield f"{_shown(name)}: RECORD has no digest of it"
            elif recorded[name] != record_digest(self._blocks(info, info.file_size)):
                yield f"{_shown(name)}: its sha256 does not match RECORD"

    def _blocks(self, info: ZipInfo, most: int) -> Iterator[bytes]:
        """The blocks of a member; refuses one of more than `most` bytes, and one that cannot be unpacked."""
        name = short(info.filename)
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or info.flag_bits & _UNREADABLE_FLAGS:
            raise not_ours(self._source, f"{name} is encrypted, or compressed with method {info.compress_type}")
        if info.file_size > most:
            raise not_ours(self._source, f"{name} has {info.file_size} bytes; the limit is {most}")
        with _documented(self._source), self._archive.open(info) as member:
            while block := member.read(BLOCK):
                yield block


def native_folder(manifest: Manifest) -> str:
    """The folder of an Artifact's files in a wheel or an exported file."""
    return f"{package_path(manifest.package)}/_native/"


@contextmanager
def opened(source: Path) -> Iterator[Packed]:
    """Open an exported file or a wheel, and read its manifest.

    Raises:
        IncompatibleArtifactError: it is neither, or was not made by this backend.
        UnreadableArtifactError: it cannot be read right now.
    """
    with _documented(source):
        stream = source.open("rb")
    with stream:
        with _documented(source):
            packed = Packed(source, _zip_file(source, stream))
        yield packed


def not_ours(source: Path, found: str) -> IncompatibleArtifactError:
    """The error for a file without an Artifact, or with one that this backend did not pack."""
    return IncompatibleArtifactError(
        f"{source.name} does not contain compiled kernels",
        required=f"a file made by `cache export`, or a wheel with one */_native/{manifests.FILE}",
        found=found,
        remedies=["use a wheel built by this build backend", "or export the kernels again on the original machine"],
    )


def _zip_file(source: Path, stream: IO[bytes]) -> ZipFile:
    """The zip file, of which zipfile reads the whole central directory: of limited size, and without overlaps.

    Members that share no bytes unpack to a thousand times the file at most (deflate).
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _END_OF_ZIP.size - _ZIP64_LOCATOR))
    end = stream.read()
    signature, *_, directory, _, comment = _END_OF_ZIP.unpack(end[-_END_OF_ZIP.size :])
    if signature != b"PK\x05\x06" or comment:
        raise not_ours(source, "a zip file that does not end with its central directory")
    if directory > LARGEST_DIRECTORY or end.startswith(b"PK\x06\x07"):
        raise not_ours(source, f"a zip file with a central directory larger than {LARGEST_DIRECTORY} bytes")
    archive = ZipFile(stream)
    if sum(info.compress_size for info in archive.infolist()) > size:
        raise not_ours(source, "a zip file whose members overlap")
    return archive


@contextmanager
def _documented(source: Path) -> Iterator[None]:
    """Turn everything that zipfile raises for an invalid file into one documented error."""
    try:
        yield
    except OSError as error:
        if error.errno not in (None, errno.EINVAL, errno.EOVERFLOW):  # these: a bad offset in the file
            raise manifests.unreadable(source, error) from error
        raise not_ours(source, str(error)) from error
    except _OF_ZIPFILE as error:
        raise not_ours(source, f"{type(error).__name__}: {str(error)[:200]}") from error  # zipfile quotes whole names


def _shown(name: str) -> str:
    """The name of a member for a message: in full, unless it is one that nobody gives."""
    return name if len(name) <= LONGEST_SHOWN and name.isprintable() else short(name)
