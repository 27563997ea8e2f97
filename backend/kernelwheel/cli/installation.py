"""Checks for broken environments: duplicate installs, mixed versions, a foreign torch, variables."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..project.build_platforms import HOST_PLATFORM
from ..project.build_settings import set_variables
from ..runtime.doctor import Finding
from ..runtime.errors import REINSTALL
from ..runtime.files import is_seen
from ..runtime.manifest import Manifest
from ..runtime.sources import editable_name, package_path
from ..store.wheel_record import Recorded, parse_record, unlike_record

# Variables not of ours that change what is found or loaded.
VARIABLES = {
    "LD_LIBRARY_PATH": "folders searched for libraries before the system's",
    "LD_PRELOAD": "libraries loaded before all others",
    "PYTHONPATH": "folders searched for packages before this environment's",
    "XDG_CACHE_HOME": "where the cache is",
}
# Libraries of torch that the loader must not find in another folder.
TORCH_LIBRARIES = tuple(map(HOST_PLATFORM.shared, ("torch_cpu", "torch_cuda", "c10", "torch")))


@dataclass(frozen=True)
class Installation:
    """A package as this process sees it.

    Attributes:
        package: its import name.
        version: its version, according to its code.
        folder: the package's folder.
        manifest: its Artifact's manifest.
        torch: the folder of the torch in this process.
        path: sys.path.
        prefixes: sys.prefix and sys.base_prefix, as paths.
    """

    package: str
    version: str
    folder: Path
    manifest: Manifest | None
    torch: Path
    path: Sequence[str]
    prefixes: tuple[Path, Path]

    @property
    def site(self) -> Path:
        """The folder that it is installed into."""
        return self.folder.parents[self.package.count(".")]


def look(at: Installation, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield every finding about an installation and its environment variables."""
    for name, used in ((at.package, at.folder), ("torch", at.torch)):
        yield from _two_installs(name, used, at.path)
    yield from _other_versions(at)
    yield from _other_owners(at)
    yield from _changed_files(at)
    yield from _other_torch(at)
    yield from _other_libraries(at, environ)


def variables(package: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that are set and affect what is found, loaded or compiled, with their values."""
    others = {name: environ[name] for name in VARIABLES if environ.get(name)}
    return {**set_variables(package, environ), **others}


def _two_installs(name: str, used: Path, path: Sequence[str]) -> Iterator[Finding]:
    places = (Path(folder or ".") / package_path(name) for folder in path)
    others = {place.resolve() for place in places if is_seen(place / "__init__.py")} - {used.resolve()}
    if others:
        yield Finding(
            f"{name} is installed more than once",
            f"used: {used}; also on sys.path: {', '.join(map(str, sorted(others)))}",
            f"keep one copy of {name}: uninstall the others, or remove them from sys.path (PYTHONPATH, .pth files)",
        )


def _other_versions(at: Installation) -> Iterator[Finding]:
    if at.manifest is not None and at.manifest.version != at.version:
        yield Finding(
            "files of two versions",
            f"{at.package} {at.version} with kernels of version {at.manifest.version}",
            REINSTALL,
        )
    native = at.folder / "_native"
    named = {library.file for library in at.manifest.libraries} if at.manifest else set()
    strays = sorted(path.name for path in native.glob(f"*{HOST_PLATFORM.suffix}") if path.name not in named)
    if strays:
        yield Finding("libraries that are not in the manifest", f"{native}: {', '.join(strays)}", REINSTALL)
    versions = sorted(each.version for each in owners(at.package, [str(at.site)]) if each.has_kernels)
    if versions and versions != [at.version]:
        yield Finding(
            "files of two versions",
            f"{at.package} {at.version} with install records of {', '.join(versions)} in {at.site}",
            REINSTALL,
        )


def _other_owners(at: Installation) -> Iterator[Finding]:
    """Other distributions may use the same import name, and pip lets each overwrite the files of the one before."""
    for each in owners(at.package, [str(at.site)]):
        if not each.has_kernels:
            yield Finding(
                f"another distribution has files of {at.package}",
                f"{each.name} {each.version} in {at.site}",
                f"pip uninstall {each.name}, then {REINSTALL}",
            )


def _changed_files(at: Installation) -> Iterator[Finding]:
    """Files that came with the libraries, their sources and the software bill of materials, unlike the wheel's."""
    for record in importlib.metadata.distributions(path=[str(at.site)]):
        text = record.read_text("RECORD") or ""
        if f"\n{package_path(at.package)}/_native/manifest.json," not in f"\n{text}":
            continue
        try:
            files = parse_record(text.encode("utf-8"))
        except ValueError as error:
            yield Finding("the install record is damaged", f"RECORD of {record.metadata['Name']}: {error}", REINSTALL)
            continue
        changed = [
            f"{name}: {unlike}"
            for name, recorded in files.items()
            if recorded.algorithm
            and (name.startswith(f"{package_path(at.package)}/_native/") or re.match(r"[^/]+\.dist-info/sboms/", name))
            and (unlike := _unlike(at.site / name, recorded))
        ]
        if changed:
            yield Finding("files were changed since they were installed", "; ".join(changed), REINSTALL)


def _unlike(path: Path, recorded: Recorded) -> str:
    try:
        with path.open("rb") as stream:
            return unlike_record(recorded, iter(partial(stream.read, 1 << 20), b""))
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror}"


class Owner(NamedTuple):
    """A distribution that has installed files of the package, and whether the kernels are among them."""

    name: str
    version: str
    has_kernels: bool


def owners(package: str, path: Sequence[str]) -> Iterator[Owner]:
    """The distributions in these folders that have files of a package."""
    folder = package_path(package)
    of_kernels = (
        f"{folder}/_native/manifest.json",
        f"{editable_name(package)}.pth",
    )  # a wheel's; an editable install's
    for record in importlib.metadata.distributions(path=list(path)):
        files = "\n" + (record.read_text("RECORD") or "")
        kernels = any(f"\n{name}," in files for name in of_kernels)
        if kernels or f"\n{folder}/__init__.py," in files:
            yield Owner(str(record.metadata["Name"]), str(record.version), kernels)


def _other_torch(at: Installation) -> Iterator[Finding]:
    ours = environment_of(at.folder) or at.prefixes[0].resolve()  # which may be reached through a link
    theirs = environment_of(at.torch)
    base = at.prefixes[1].resolve()
    # A virtual environment may use the packages of its base Python (--system-site-packages).
    if theirs is not None and theirs not in (ours, base, base / "local"):
        yield Finding(
            "torch is from another environment",
            f"{at.package} is in {ours}, torch in {theirs}",
            "install torch into the package's environment, or find out what puts the other one on sys.path",
        )


def environment_of(folder: Path) -> Path | None:
    """The prefix whose `lib/pythonX.Y/site-packages` contains a package; None if it is not in such a folder."""
    match = re.match(r"(.+)/lib\d*/python3(\.\d+)?/(site|dist)-packages/", folder.resolve().as_posix())
    return Path(match[1]) if match else None


def _other_libraries(at: Installation, environ: Mapping[str, str]) -> Iterator[Finding]:
    for part in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        folder = Path(part)
        if not part or folder.resolve() == (at.torch / "lib").resolve():
            continue
        found = [name for name in TORCH_LIBRARIES if is_seen(folder / name)]
        if found:
            yield Finding(
                "LD_LIBRARY_PATH contains another torch",
                f"{folder}: {', '.join(found)}",
                "remove that folder from LD_LIBRARY_PATH",
            )
