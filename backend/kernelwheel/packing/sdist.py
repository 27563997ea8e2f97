"""Adding the native sources to the sdist from setuptools, which knows nothing of them without a MANIFEST.in."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from .core_metadata import completed, with_fields


def add_sources(sdist: Path, project: Path, files: Iterable[str], bound: bool, epoch: int) -> None:
    """Rewrite an sdist with further files of the project (PyPA, source distribution format).

    Args:
        sdist: the archive, `<name>-<version>.tar.gz`.
        project: the folder of the project.
        files: what to add, relative to it, unless it is there already.
        bound: whether a wheel of it requires the torch that it is built for.
        epoch: the timestamp of the added files, in seconds since 1970.
    """
    top = sdist.name.removesuffix(".tar.gz")
    passing = sdist.with_name(f"{sdist.name}.part")
    with (
        tarfile.open(sdist) as source,
        passing.open("wb") as stream,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=stream) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        there = set()
        for member in source:
            content = source.extractfile(member)
            data = content.read() if content else b""
            if member.name == f"{top}/PKG-INFO":
                data = _with_dynamic(data.decode("utf-8"), bound).encode("utf-8")
                member.size = len(data)
            target.addfile(member, io.BytesIO(data) if content else None)
            there.add(member.name)
        for name in files:
            if f"{top}/{name}" not in there:
                member = tarfile.TarInfo(f"{top}/{name}")
                data = (project / name).read_bytes()
                member.size, member.mtime, member.mode = len(data), epoch, 0o644
                target.addfile(member, io.BytesIO(data))
    passing.replace(sdist)


def _with_dynamic(metadata: str, bound: bool) -> str:
    """PKG-INFO, which says so if a wheel requires more than it does (core metadata specification, Dynamic)."""
    return with_fields(metadata, ["Dynamic: Requires-Dist"] if bound or completed(metadata, None) != metadata else [])
