"""Export of an Artifact from a Store to a file, and import of such a file into another Store.

The file is a zip archive with the manifest and its libraries where a wheel has them, and nothing else. So a wheel can
be imported too.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from ..runtime.artifact import manifest as manifests
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.manifest import Manifest
from ..runtime.errors import IncompatibleArtifactError, StoreError
from ..runtime.machine.platforms import HOST_PLATFORM, platform_name
from ..runtime.store.store import Store
from ..runtime.store.store_lock import making
from . import archive
from .publishing import publish

MOST_BYTES = 2 * 10**9  # of libraries in one file: a zip file of more has another format, and could fill a disk


def export(artifact: Artifact, target: Path) -> None:
    """Write an Artifact to a file; equal Artifacts give equal bytes, whoever exports them and when.

    Raises:
        IncompatibleArtifactError: a library does not match the manifest, or they are for another platform or too large.
        OSError: the file cannot be written; nothing is left behind.
        StoreError: something else than a file is there, such as a folder or a device, which would be replaced.
    """
    if target.exists() and not target.is_file():
        raise StoreError(
            f"{target} cannot be written",
            required="the name of a new file, or of one to replace",
            found="a folder, a device or a pipe of that name",
            remedies=["choose another name"],
        )
    _refuse_unfit(artifact.manifest, str(artifact.folder))
    text = manifests.content_of(HOST_PLATFORM.open_file(artifact.folder / manifests.FILE))
    folder = archive.native_folder(artifact.manifest)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with ZipFile(temporary, "x") as file:
            file.writestr(_member(folder + manifests.FILE), text)
            for library in artifact.manifest.libraries:
                descriptor = artifact.open_library(library)
                with os.fdopen(descriptor, "rb") as stream, file.open(_member(folder + library.file), "w") as member:
                    shutil.copyfileobj(stream, member, archive.BLOCK)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _member(name: str) -> ZipInfo:
    info = ZipInfo(name)
    info.external_attr = 0o100644 << 16
    return info


def _refuse_unfit(manifest: Manifest, where: str) -> None:
    """Refuse an Artifact that this machine cannot check: a store on a shared file system has those of others, too."""
    if manifest.requires.platform != platform_name():
        raise IncompatibleArtifactError(
            f"the kernels are for {manifest.requires.platform}, not for {platform_name()}",
            required=f"kernels for {platform_name()}, this machine's platform",
            found=f"kernels for {manifest.requires.platform} in {where}",
            remedies=[f"export and import them on machines with {manifest.requires.platform}, or install their wheel"],
        )
    if (size := sum(library.size for library in manifest.libraries)) > MOST_BYTES:
        raise IncompatibleArtifactError(
            "the kernels are too large for one file",
            required=f"at most {MOST_BYTES // 10**6} MB of libraries",
            found=f"{-(-size // 10**6)} MB of libraries in {where}",
            remedies=["install a wheel with them, or compile them for fewer architectures"],
        )


def import_file(source: Path, store: Store, say: Callable[[str], None]) -> Artifact:
    """Put an exported Artifact, or that of a wheel, into a Store.

    Raises:
        IncompatibleArtifactError: the file does not contain exactly one intact Artifact for this package, version and
            platform, or it is too large.
        StoreError: it cannot be stored.
    """
    with archive.opened(source) as packed:
        manifest = packed.manifest
        if (manifest.package, manifest.version) != (store.package, store.version):
            raise IncompatibleArtifactError(
                "the file contains kernels for another package or version",
                required=f"{store.package} {store.version}",
                found=f"{manifest.package} {manifest.version} in {source}",
                remedies=[f"import it in an environment with {manifest.package} {manifest.version}"],
            )
        _refuse_unfit(manifest, str(source))

        def unpack(folder: Path) -> None:
            for library in manifest.libraries:
                with (folder / library.file).open("xb") as target:
                    for block in packed.blocks(library):
                        target.write(block)
            (folder / manifests.FILE).write_bytes(packed.text)

        with making(store, lambda maker: say(f"waiting for {maker}")):
            return publish(store, manifest.fingerprint, unpack)
