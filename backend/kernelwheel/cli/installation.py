"""Checks for broken environments: duplicate installs, mixed versions, changed files."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path

from ..runtime.commands.doctor import Finding
from ..runtime.decision.snapshot import InstalledPackage, editable_name, package_path
from ..runtime.errors import REINSTALL
from ..store.wheel_record import parse_record, record_digest


def look(package: InstalledPackage, torch: Path, path: Sequence[str]) -> Iterator[Finding]:
    """Yield every finding about a package as this process sees it, the folder of its torch, and `sys.path`."""
    for name, used in ((package.package, package.folder.parent), ("torch", torch)):
        yield from _two_installs(name, used, path)
    yield from _install_records(package)


def _two_installs(name: str, used: Path, path: Sequence[str]) -> Iterator[Finding]:
    places = (Path(folder or ".") / package_path(name) for folder in path)
    others = {place.resolve() for place in places if os.path.exists(place / "__init__.py")} - {used.resolve()}
    if others:
        yield Finding(
            f"{name} is installed more than once",
            f"used: {used}; also on sys.path: {', '.join(map(str, sorted(others)))}",
            f"keep one copy of {name}: uninstall the others, or remove them from sys.path (PYTHONPATH, .pth files)",
        )


def _install_records(package: InstalledPackage) -> Iterator[Finding]:
    """What the records of the distributions that have files of the package say.

    Other distributions may use the same import name, and pip lets each overwrite the files of the one before.
    """
    folder, versions = package_path(package.package), []
    site = package.folder.parents[len(Path(folder).parts)]  # that it is installed into
    for each in importlib.metadata.distributions(path=[str(site)]):
        record = "\n" + (each.read_text("RECORD") or "")
        if f"\n{folder}/_native/manifest.json," in record:
            versions.append(each.version)
            yield from _changed_files(folder, site, each, record)
        elif f"\n{editable_name(package.package)}.pth," in record:  # an editable install's
            versions.append(each.version)
        elif f"\n{folder}/__init__.py," in record:
            yield Finding(
                f"another distribution has files of {package.package}",
                f"{each.metadata['Name']} {each.version} in {site}",
                f"pip uninstall {each.metadata['Name']}, then {REINSTALL}",
            )
    if versions and versions != [package.version]:
        found = f"{package.package} {package.version} with install records of {', '.join(sorted(versions))} in {site}"
        yield Finding("files of two versions", found, REINSTALL)


def _changed_files(folder: str, site: Path, distribution: Distribution, record: str) -> Iterator[Finding]:
    """Files that came with the libraries, their sources and the software bill of materials, unlike the wheel's."""
    try:
        digests = parse_record(record.encode("utf-8"))
    except ValueError as error:
        name = distribution.metadata["Name"]
        yield Finding("the install record is damaged", f"RECORD of {name}: {error}", REINSTALL)
        return
    ours = re.compile(rf"{re.escape(folder)}/_native/|[^/]+\.dist-info/sboms/")
    found = ((name, _unlike(site / name, digest)) for name, digest in digests.items() if digest and ours.match(name))
    changed = [f"{name}: {unlike}" for name, unlike in found if unlike]
    if changed:
        yield Finding("files were changed since they were installed", "; ".join(changed), REINSTALL)


def _unlike(path: Path, digest: str) -> str:
    try:
        with path.open("rb") as stream:
            same = digest == record_digest(iter(partial(stream.read, 1 << 20), b""))
        return "" if same else "its sha256 does not match RECORD"
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror}"
