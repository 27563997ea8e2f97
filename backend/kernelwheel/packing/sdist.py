"""The sdist from setuptools: made the same wherever it is built, with the native sources.

Setuptools knows nothing of those without a MANIFEST.in, and records the modes, times and owner of the builder's files.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from ..project.package import PackageFacts
from .core_metadata import completed, with_fields


def add_sources(sdist: Path, project: Path, files: Iterable[str], facts: PackageFacts, epoch: int) -> None:
    """Rewrite an sdist with further files of the project (PyPA, source distribution format), and nobody's as owner.

    `epoch` is the timestamp of every file, in seconds since 1970; not the builder's clock.
    """
    top = sdist.name.removesuffix(".tar.gz")
    partial = sdist.with_name(f"{sdist.name}.part")
    with (
        tarfile.open(sdist) as source,
        partial.open("wb") as stream,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=stream) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        there = set()
        for member in source:
            content = source.extractfile(member)
            data = content.read() if content else b""
            if member.name == f"{top}/PKG-INFO":
                stated = completed(data.decode("utf-8"), facts.dependencies)
                data = _with_dynamic(stated, facts.binds_torch).encode("utf-8")
            target.addfile(_normal(member, len(data), epoch), io.BytesIO(data) if content else None)
            there.add(member.name)
        for name in files:
            if f"{top}/{name}" not in there:
                data = (project / name).read_bytes()
                target.addfile(_normal(tarfile.TarInfo(f"{top}/{name}"), len(data), epoch), io.BytesIO(data))
    partial.replace(sdist)


def _normal(member: tarfile.TarInfo, size: int, epoch: int) -> tarfile.TarInfo:
    """A member without what depends on the builder: owner, umask, times. Of its mode, only "executable" stays."""
    normal = tarfile.TarInfo(member.name)
    normal.type, normal.linkname, normal.size, normal.mtime = member.type, member.linkname, size, epoch
    normal.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return normal


def _with_dynamic(metadata: str, bound: bool) -> str:
    """PKG-INFO, which says what a wheel adds to it: licences, and a torch (core metadata specification, Dynamic)."""
    declared = "\ndynamic: license-file\n" in metadata.lower()  # by setuptools, which found one in the checkout
    return with_fields(
        metadata, [*([] if declared else ["Dynamic: License-File"]), *(["Dynamic: Requires-Dist"] if bound else [])]
    )
