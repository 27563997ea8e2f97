"""The reader of Artifacts packed in a zip file: one from `cache export`, or a wheel.

The file may come from anywhere, and only this module opens one. The manifest is read first, up to a size limit. It says
how large everything else is, and nothing is read beyond that, one block at a time. Only stored and deflated members are
accepted, and a central directory of limited size.
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
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ..project.build_platforms import HEADER, is_library_for
from ..runtime import manifest as manifests
from ..runtime.errors import IncompatibleArtifactError, UnreadableArtifactError
from ..runtime.manifest import Library, Manifest
from ..runtime.manifest_schema import short
from ..runtime.sources import package_path
from .wheel_record import LARGEST_RECORD, parse_record, unlike_record, wrong_member

BLOCK = 1 << 20
# Of a zip file: enough for 30 000 members, more than a torch wheel has. Each byte takes ten bytes of memory.
LARGEST_DIRECTORY = 4 << 20
MOST_DAMAGE = 20  # lines about one wheel
LONGEST_SHOWN = 200
_END_OF_ZIP = struct.Struct("<4s4H2LH")  # APPNOTE.TXT, 4.3.16: "End of central directory record"
_ZIP64_LOCATOR = 20  # bytes, just before that record
_OF_ZIPFILE = (EOFError, ValueError, OverflowError, RuntimeError)  # raised by zipfile besides BadZipFile
_UNREADABLE_FLAGS = 0x1 | 0x20 | 0x40  # encrypted, patched, strongly encrypted


class Packed:
    """The Artifact in a zip file that is open.

    Attributes:
        source: the file.
        manifest: its parsed manifest.
        text: the manifest's bytes.
        members: what a wheel contains; empty for an exported file.
    """

    def __init__(self, source: Path, stream: IO[bytes]) -> None:
        self.source = source
        self._stream = stream
        self._archive = _zip(source, stream)
        everything = self._archive.infolist()
        found = [info for info in everything if info.filename.endswith(f"/_native/{manifests.FILE}")]
        if len(found) != 1:
            raise not_ours(source, f"{len(found)} files */_native/{manifests.FILE}")
        self._folder = found[0].filename.removesuffix(manifests.FILE)
        with _zip_member(source, self._archive, found[0], manifests.LARGEST) as member:
            self.text = member.read(manifests.LARGEST + 1)
        self.manifest = manifests.from_bytes(self.text, f"{source}: {manifests.FILE}")
        if self._folder != native_folder(self.manifest):
            raise not_ours(source, f"the manifest of {self.manifest.package} in {short(self._folder)}")
        libraries = {f"{self._folder}{library.file}" for library in self.manifest.libraries}
        exported = {info.filename for info in everything} <= {found[0].filename, *libraries}
        self.members = () if exported else tuple(everything)

    def blocks(self, library: Library) -> Iterator[bytes]:
        """The bytes of a library, as many as the manifest says. They are not verified until the last block is read.

        Raises:
            IncompatibleArtifactError: they do not match the manifest, or are not a library for its platform.
        """
        where, left, digest, head = f"{self.source}: {library.file}", library.size, hashlib.sha256(), b""
        found = [info for info in self._archive.infolist() if info.filename == f"{self._folder}{library.file}"]
        if len(found) != 1:
            raise manifests.corrupt(where, f"the file contains it {len(found)} times")
        if found[0].file_size != left:
            raise manifests.corrupt(where, f"{found[0].file_size} bytes; the manifest says {left}")
        for block in member_blocks(self.source, self._archive, found[0], left):
            head = head or block[:HEADER]
            digest.update(block)
            left -= len(block)
            yield block
        if left:
            raise manifests.corrupt(where, f"it ends {left} bytes too early")
        if digest.hexdigest() != library.sha256:
            raise manifests.corrupt(where, "its sha256 does not match the manifest")
        platform = self.manifest.requires.platform
        if not is_library_for(platform, head):
            raise manifests.corrupt(where, f"it is not a shared library for {platform}")

    def read_member(self, info: ZipInfo, most: int) -> bytes:
        """One member, if it has no more than `most` bytes; raises as `member_blocks`."""
        return b"".join(member_blocks(self.source, self._archive, info, most))

    def record_damage(self) -> Iterator[str]:
        """How the members of a wheel differ from its RECORD, one line each, and no more than anybody reads."""
        damage = _unlike_record(self.source, self._stream, self._archive) if self.members else iter(())
        try:
            yield from islice(damage, MOST_DAMAGE)
            if next(damage, None):
                yield "and more"
        except UnreadableArtifactError:
            raise
        except IncompatibleArtifactError as error:  # a member that cannot be unpacked
            yield error.found


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
            packed = Packed(source, stream)
        yield packed


@contextmanager
def _documented(source: Path) -> Iterator[None]:
    """Turn everything that zipfile raises for an invalid file into one documented error."""
    try:
        yield
    except OSError as error:
        if error.errno not in (None, errno.EINVAL, errno.EOVERFLOW):  # these: a bad offset in the file
            raise manifests.unreadable(source, error) from error
        raise not_ours(source, str(error)) from error
    except (BadZipFile, zlib.error, struct.error, *_OF_ZIPFILE) as error:
        raise not_ours(source, f"{type(error).__name__}: {str(error)[:200]}") from error  # zipfile quotes whole names


def not_ours(source: Path, found: str) -> IncompatibleArtifactError:
    """The error for a file without an Artifact, or with one that this backend did not pack."""
    return IncompatibleArtifactError(
        f"{source.name} does not contain compiled kernels",
        required=f"a file made by `cache export`, or a wheel with one */_native/{manifests.FILE}",
        found=found,
        remedies=["use a wheel built by this build backend", "or export the kernels again on the original machine"],
    )


@contextmanager
def opened_zip(source: Path) -> Iterator[ZipFile]:
    """Open a zip file from anywhere, to be read by `member_blocks`.

    Raises:
        IncompatibleArtifactError: it is not one that can be read in bounded memory, and time in proportion to its size.
        UnreadableArtifactError: it cannot be read right now.
    """
    with _documented(source):
        stream = source.open("rb")
    with stream:
        with _documented(source):
            archive = _zip(source, stream)
            if _overlaps(archive, stream):
                raise not_ours(source, "its members overlap")
        yield archive


def member_blocks(source: Path, archive: ZipFile, info: ZipInfo, most: int) -> Iterator[bytes]:
    """The blocks of a member that has `most` bytes or fewer; all have BLOCK bytes but the last.

    Raises:
        IncompatibleArtifactError: it has more, or cannot be unpacked.
        UnreadableArtifactError: it cannot be read right now.
    """
    with _documented(source), _zip_member(source, archive, info, most) as member:
        while block := member.read(BLOCK):
            yield block


def _zip(source: Path, stream: IO[bytes]) -> ZipFile:
    _check_directory(source, stream)
    return ZipFile(stream)


def _overlaps(archive: ZipFile, stream: IO[bytes]) -> bool:
    """Whether members share bytes. If not, all of them unpack to a thousand times the file at most (deflate)."""
    return sum(info.compress_size for info in archive.infolist()) > stream.seek(0, os.SEEK_END)


def _unlike_record(source: Path, stream: IO[bytes], archive: ZipFile) -> Iterator[str]:
    for info in archive.infolist():
        if wrong := wrong_member(info):
            yield f"{_shown(info.orig_filename)}: {wrong}"
    everything = [info for info in archive.infolist() if not info.is_dir()]
    members = {info.filename: info for info in everything}
    records = [name for name in members if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
    if _overlaps(archive, stream):
        yield "its members overlap"
        return
    if len(records) != 1 or len(members) < len(everything):
        yield f"it contains {len(records)} RECORDs" if len(records) != 1 else "it contains a file twice"
        return
    (record,) = records
    try:
        recorded = parse_record(b"".join(member_blocks(source, archive, members.pop(record), LARGEST_RECORD)))
    except ValueError as error:
        yield f"RECORD: {error}"
        return
    for missing in sorted(recorded.keys() - members.keys() - {record}):
        yield f"{_shown(missing)}: it is in RECORD, but not in the wheel"
    for name, info in members.items():
        said = recorded.get(name)
        if said is not None and said.algorithm:
            unlike = unlike_record(said, member_blocks(source, archive, info, info.file_size))
        else:  # signatures of RECORD cannot be in it
            unlike = "" if name in (f"{record}.jws", f"{record}.p7s") else "RECORD has no digest of it"
        if unlike:
            yield f"{_shown(name)}: {unlike}"


def _shown(name: str) -> str:
    """The name of a member for a message: in full, unless it is one that nobody gives."""
    return name if len(name) <= LONGEST_SHOWN and name.isprintable() else short(name)


def _check_directory(source: Path, stream: IO[bytes]) -> None:
    """Refuse a zip file whose central directory is too large, because zipfile would read all of it."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _END_OF_ZIP.size - _ZIP64_LOCATOR))
    end = stream.read()
    signature, *_, directory, _, comment = _END_OF_ZIP.unpack(end[-_END_OF_ZIP.size :])
    if signature != b"PK\x05\x06" or comment:
        raise not_ours(source, "a zip file that does not end with its central directory")
    if directory > LARGEST_DIRECTORY or end.startswith(b"PK\x06\x07"):
        raise not_ours(source, f"a zip file with a central directory larger than {LARGEST_DIRECTORY} bytes")


def _zip_member(source: Path, archive: ZipFile, info: ZipInfo, most: int) -> IO[bytes]:
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or info.flag_bits & _UNREADABLE_FLAGS:
        raise not_ours(source, f"{short(info.filename)} is encrypted, or compressed with method {info.compress_type}")
    if info.file_size > most:
        raise not_ours(source, f"{short(info.filename)} has {info.file_size} bytes; the limit is {most}")
    return archive.open(info)
