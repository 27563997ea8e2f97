"""One interchangeable form: an Artifact as a file, out of one Store and into another.

The file is a tar archive of the manifest and its libraries, nothing else. A wheel holds the same files, so a wheel can
be imported as well.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile, ZipFile, is_zipfile

from . import manifest as manifests
from .errors import IncompatibleArtifactError
from .manifest import Manifest
from .store import Entry, Store


def export(entry: Entry, target: Path) -> None:
    """Write an entry to a file; the same entry gives the same bytes, whoever exports it and when.

    Raises:
        IncompatibleArtifactError: a library is not what its manifest says.
        OSError: the file cannot be written; then it is not there.
    """
    names = [manifests.FILE]
    for library in entry.manifest.libraries:
        manifests.verify(entry.folder, library)
        names.append(library.file)
    descriptor, temporary = tempfile.mkstemp(prefix=target.name + ".", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:") as archive:
            for name in names:
                data = (entry.folder / name).read_bytes()
                info = tarfile.TarInfo(name)
                info.size = len(data)
                info.mode = 0o644
                archive.addfile(info, io.BytesIO(data))
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink()
        raise


def import_file(source: Path, store: Store) -> Entry:
    """Put an exported Artifact, or that of a wheel, into a Store.

    Raises:
        IncompatibleArtifactError: the file holds no whole Artifact of this package and version, or more than one.
    """
    members = read_members(source)
    manifest = manifests.from_text(members[manifests.FILE].decode("utf-8", "replace"), source)
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

    with store.making(lambda maker: None):
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
    except (tarfile.TarError, BadZipFile, EOFError, OSError) as error:
        raise _not_ours(source, str(error)) from error
    if manifests.FILE not in members:
        raise _not_ours(source, f"no {manifests.FILE}")
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
        return {manifests.FILE: text, **libraries}


def check_members(source: Path, members: Mapping[str, bytes], manifest: Manifest) -> None:
    """Refuse members that are not the manifest's libraries, byte for byte."""
    expected = {manifests.FILE: None, **{library.file: library.sha256 for library in manifest.libraries}}
    if set(members) != set(expected):
        raise _not_ours(source, f"files {sorted(members)}, the manifest names {sorted(expected)}")
    for name, sha256 in expected.items():
        if sha256 is not None and hashlib.sha256(members[name]).hexdigest() != sha256:
            raise manifests.corrupt(f"{source}: {name}", "its sha256 is not the manifest's")


def _not_ours(source: Path, found: str) -> IncompatibleArtifactError:
    return IncompatibleArtifactError(
        f"{source.name} holds no compiled kernels",
        required="a file made by `cache export`, or a wheel with an Artifact",
        found=found,
        remedies=["export it again on the machine that has the kernels"],
    )
