"""One interchangeable form: an Artifact as a file, out of one Store and into another.

The file is a tar archive of an entry: the manifest, its digest and its libraries, nothing else. A wheel holds the same
manifest and libraries, so a wheel can be imported as well.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import tarfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import BadZipFile, ZipFile, is_zipfile

from . import manifest as manifests
from .digests import json_sha256
from .errors import IncompatibleArtifactError
from .manifest import DIGEST, Manifest, digest_line
from .store import Entry, Store


def export(entry: Entry, target: Path) -> None:
    """Write an entry to a file; the same entry gives the same bytes, whoever exports it and when.

    Raises:
        IncompatibleArtifactError: a library is not what its manifest says.
        OSError: the file cannot be written; then it is not there.
    """
    names = [manifests.FILE, DIGEST]
    for library in entry.manifest.libraries:
        manifests.verify(entry.folder, library)
        names.append(library.file)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with tarfile.open(temporary, mode="x:") as archive:
            for name in names:
                data = _read(entry.folder, name)
                info = tarfile.TarInfo(name)
                info.size = len(data)
                info.mode = 0o644
                archive.addfile(info, io.BytesIO(data))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _read(folder: Path, name: str) -> bytes:
    """A file of an Artifact; pip checks a wheel's by RECORD, so there the manifest's digest is made now."""
    if name == DIGEST and not (folder / DIGEST).exists():
        return digest_line((folder / manifests.FILE).read_bytes())
    return (folder / name).read_bytes()


def import_file(source: Path, store: Store, say: Callable[[str], None]) -> Entry:
    """Put an exported Artifact, or that of a wheel, into a Store.

    Raises:
        IncompatibleArtifactError: the file holds no whole Artifact of this package and version, or more than one.
    """
    members = read_members(source)
    manifest = manifests.from_bytes(members[manifests.FILE], members[DIGEST], source)
    check_members(source, members, manifest)
    if (manifest.package, manifest.version) != (store.package, store.version):
        raise IncompatibleArtifactError(
            "the file holds kernels of another package or version",
            required=f"{store.package} {store.version}",
            found=f"{manifest.package} {manifest.version} in {source}",
            remedies=[f"import it where {manifest.package} {manifest.version} is installed"],
        )

    def unpack(folder: Path) -> None:
        for name, data in members.items():
            (folder / name).write_bytes(data)

    with store.making(lambda maker: say(f"waiting for {maker}")):
        return store.publish(manifest.fingerprint, unpack)


def read_members(source: Path) -> Mapping[str, bytes]:
    """The files of an Artifact in an exported file or a wheel, by name; never a path.

    Raises:
        IncompatibleArtifactError: it is neither, or a member is a link, a folder or leads elsewhere.
    """
    try:
        if is_zipfile(source):
            return _read_wheel(source)
        with tarfile.open(source, mode="r:") as archive:
            members = {}
            for info in archive:
                if not info.isreg() or Path(info.name).name != info.name or info.name in members:
                    raise _not_ours(source, f"member {info.name!r} is no plain file name of its own")
                stream = archive.extractfile(info)
                assert stream is not None
                members[info.name] = stream.read()
    except (tarfile.TarError, BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, OSError) as error:
        raise _not_ours(source, f"{type(error).__name__}: {error}") from error
    for name in (manifests.FILE, DIGEST):
        if name not in members:
            raise _not_ours(source, f"no {name}")
    return members


def _read_wheel(source: Path) -> Mapping[str, bytes]:
    with ZipFile(source) as archive:
        folders = [n.rpartition("/")[0] for n in archive.namelist() if n.endswith(f"/_native/{manifests.FILE}")]
        if len(folders) != 1:
            raise _not_ours(source, f"{len(folders)} Artifacts")
        (folder,) = folders
        text = archive.read(f"{folder}/{manifests.FILE}")
        manifest = manifests.from_text(text.decode("utf-8", "replace"), source)
        libraries = {library.file: archive.read(f"{folder}/{library.file}") for library in manifest.libraries}
        return {manifests.FILE: text, DIGEST: digest_line(text), **libraries}


def check_members(source: Path, members: Mapping[str, bytes], manifest: Manifest) -> None:
    """Refuse members that are not the manifest's libraries, byte for byte, and a fingerprint that is not the Plan's."""
    expected = {manifests.FILE, DIGEST, *(library.file for library in manifest.libraries)}
    if set(members) != expected:
        raise _not_ours(source, f"files {sorted(members)}, the manifest names {sorted(expected)}")
    for library in manifest.libraries:
        if hashlib.sha256(members[library.file]).hexdigest() != library.sha256:
            raise manifests.corrupt(f"{source}: {library.file}", "its sha256 is not the manifest's")
    if json_sha256(manifest.plan) != manifest.fingerprint:
        raise manifests.corrupt(source, "the fingerprint is not that of its Plan")


def _not_ours(source: Path, found: str) -> IncompatibleArtifactError:
    return IncompatibleArtifactError(
        f"{source.name} holds no compiled kernels",
        required="a file made by `cache export`, or a wheel with an Artifact",
        found=found,
        remedies=["export it again on the machine that has the kernels"],
    )
