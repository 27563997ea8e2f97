"""Export of an Artifact from a Store to a file, and import of such a file into another Store.

The file is a tar archive of an entry: the manifest and its libraries, nothing else. A wheel contains the same manifest
and libraries, so a wheel can be imported too.
"""

from __future__ import annotations

import io
import os
import secrets
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ..core import manifest as manifests
from ..core.errors import IncompatibleArtifactError
from ..core.manifest import Manifest
from ..core.platforms import platform_name
from ..core.variables import own_variable
from . import archive
from .artifact import Artifact
from .entries import Store
from .publishing import making, publish

MB = 10**6


def export(artifact: Artifact, target: Path) -> None:
    """Write an Artifact to a file; equal Artifacts give equal bytes, whoever exports them and when.

    Raises:
        IncompatibleArtifactError: a library does not match the manifest, or is for another platform.
        OSError: the file cannot be written; nothing is left behind.
    """
    _refuse_other_platform(artifact.manifest, str(artifact.folder))
    text = manifests.content(artifact.folder / manifests.FILE)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with tarfile.open(temporary, mode="x:", format=tarfile.USTAR_FORMAT) as file:
            _add(file, manifests.FILE, len(text), io.BytesIO(text))
            for library in artifact.manifest.libraries:
                with os.fdopen(artifact.open_library(library), "rb") as stream:
                    _add(file, library.file, library.size, stream)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _refuse_other_platform(manifest: Manifest, where: str) -> None:
    """Refuse an Artifact that this machine cannot check: a store on a shared file system has those of others, too."""
    if manifest.requires.platform != platform_name():
        raise IncompatibleArtifactError(
            f"the kernels are for {manifest.requires.platform}, not for {platform_name()}",
            required=f"kernels for {platform_name()}, this machine's platform",
            found=f"kernels for {manifest.requires.platform} in {where}",
            remedies=[f"export and import them on machines with {manifest.requires.platform}, or install their wheel"],
        )


def _add(file: tarfile.TarFile, name: str, size: int, stream: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o644
    file.addfile(info, stream)


def import_file(source: Path, store: Store, say: Callable[[str], None], limit_mb: int) -> Artifact:
    """Put an exported Artifact, or that of a wheel, into a Store.

    Args:
        source: the file.
        store: the Store to import into.
        say: receives one line at a time while other processes make an entry there.
        limit_mb: the largest total size of the libraries.

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
        _refuse_other_platform(manifest, str(source))
        size_mb = -(-sum(library.size for library in manifest.libraries) // MB)
        if size_mb > limit_mb:
            raise IncompatibleArtifactError(
                "the file is larger than the import limit",
                required=f"at most {limit_mb} MB, as set by the option import-limit",
                found=f"{size_mb} MB of libraries in {source}",
                remedies=[f"if that size is expected, set {own_variable(store.package, 'import-limit')}={size_mb}"],
            )

        def unpack(folder: Path) -> None:
            for library in manifest.libraries:
                with (folder / library.file).open("xb") as target:
                    for block in packed.blocks(library):
                        target.write(block)
            (folder / manifests.FILE).write_bytes(packed.text)

        with making(store, lambda maker: say(f"waiting for {maker}")):
            return publish(store, manifest.fingerprint, unpack)
