"""One interchangeable form: an Artifact as a file, out of one Store and into another.

The file is a tar archive of an entry: the manifest and its libraries, nothing else. A wheel holds the same manifest and
libraries, so a wheel can be imported as well.
"""

from __future__ import annotations

import io
import secrets
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ..core import manifest as manifests
from ..core.errors import IncompatibleArtifactError
from ..core.variables import own_variable
from . import archive
from .artifact import Artifact
from .entries import Store

MB = 10**6


def export(artifact: Artifact, target: Path) -> None:
    """Write an Artifact to a file; the same one gives the same bytes, whoever exports it and when.

    Raises:
        IncompatibleArtifactError: a library is not what its manifest says.
        OSError: the file cannot be written; then it is not there.
    """
    text = manifests.content(artifact.folder / manifests.FILE)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with tarfile.open(temporary, mode="x:", format=tarfile.USTAR_FORMAT) as file:
            _add(file, manifests.FILE, len(text), io.BytesIO(text))
            for library in artifact.manifest.libraries:
                with artifact.verify_library(library).open("rb") as stream:
                    _add(file, library.file, library.size, stream)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _add(file: tarfile.TarFile, name: str, size: int, stream: IO[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o644
    file.addfile(info, stream)


def import_file(source: Path, store: Store, say: Callable[[str], None], limit_mb: int) -> Artifact:
    """Put an exported Artifact, or that of a wheel, into a Store.

    Args:
        source: the file.
        store: where it goes.
        say: receives one line at a time, while others make an entry there.
        limit_mb: how large all libraries together may be.

    Raises:
        IncompatibleArtifactError: the file holds no whole Artifact of this package and version, or more than one, or
            a larger one.
        StoreError: it cannot be kept.
    """
    with archive.opened(source) as packed:
        manifest = packed.manifest
        if (manifest.package, manifest.version) != (store.package, store.version):
            raise IncompatibleArtifactError(
                "the file holds kernels of another package or version",
                required=f"{store.package} {store.version}",
                found=f"{manifest.package} {manifest.version} in {source}",
                remedies=[f"import it where {manifest.package} {manifest.version} is installed"],
            )
        size_mb = -(-sum(library.size for library in manifest.libraries) // MB)
        if size_mb > limit_mb:
            raise IncompatibleArtifactError(
                "the file holds more than an import may bring",
                required=f"at most {limit_mb} MB, as the option import-limit says",
                found=f"{size_mb} MB of libraries in {source}",
                remedies=[f"if that is as it should be, set {own_variable(store.package, 'import-limit')}={size_mb}"],
            )

        def unpack(folder: Path) -> None:
            for library in manifest.libraries:
                with (folder / library.file).open("xb") as target:
                    for block in packed.blocks(library):
                        target.write(block)
            (folder / manifests.FILE).write_bytes(packed.text)

        with store.making(lambda maker: say(f"waiting for {maker}")):
            return store.publish(manifest.fingerprint, unpack)
