"""What commonly breaks an environment: two installs, files of another version, a torch of elsewhere, variables."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import REINSTALL
from ..core.files import is_seen
from ..core.manifest import Manifest
from ..core.settings import set_variables

# Variables of others that change what is found or loaded.
VARIABLES = {
    "LD_LIBRARY_PATH": "folders where libraries are looked for before the system's",
    "LD_PRELOAD": "libraries loaded before all others",
    "PYTHONPATH": "folders where packages are looked for before this environment's",
    "XDG_CACHE_HOME": "where the cache is",
}
# Libraries of torch that another folder must not offer to the loader.
TORCH_LIBRARIES = ("libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libtorch.so")


@dataclass(frozen=True)
class Finding:
    """Something that a person should act on: what it is, what was found, and what mends it."""

    what: str
    found: str
    remedy: str


@dataclass(frozen=True)
class Installation:
    """A package as this process has it.

    Attributes:
        package: its import name.
        version: its version, as its code says.
        folder: the package's folder.
        manifest: of its Artifact.
        torch: the folder of the torch that this process has.
        path: sys.path.
        prefixes: those of this Python: of its environment, then of the Python that it was made from.
    """

    package: str
    version: str
    folder: Path
    manifest: Manifest | None
    torch: Path
    path: Sequence[str]
    prefixes: tuple[Path, Path]


def look(at: Installation, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every finding about an installation and the variables around it."""
    for name, used in ((at.package, at.folder), ("torch", at.torch)):
        yield from _two_installs(name, used, at.path)
    yield from _other_versions(at)
    yield from _other_torch(at)
    yield from _other_libraries(at, environ)


def variables(package: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that are set and that change what is found, loaded or compiled: their values by their names."""
    others = {name: environ[name] for name in VARIABLES if environ.get(name)}
    return {**set_variables(package, environ), **others}


def _two_installs(name: str, used: Path, path: Sequence[str]) -> Iterator[Finding]:
    places = (Path(folder or ".") / name for folder in path)
    others = {place.resolve() for place in places if is_seen(place / "__init__.py")} - {used.resolve()}
    if others:
        yield Finding(
            f"{name} is there more than once",
            f"used: {used}; also on sys.path: {', '.join(map(str, sorted(others)))}",
            f"uninstall all but one, or take the other's folder out of sys.path (PYTHONPATH, .pth files): {name}",
        )


def _other_versions(at: Installation) -> Iterator[Finding]:
    if at.manifest is not None and at.manifest.version != at.version:
        yield Finding(
            "files of two versions",
            f"{at.package} {at.version} beside kernels of version {at.manifest.version}",
            REINSTALL,
        )
    native = at.folder / "_native"
    named = {library.file for library in at.manifest.libraries} if at.manifest else set()
    strays = sorted(path.name for path in native.glob("*.so") if path.name not in named)
    if strays:
        yield Finding("libraries that no manifest names", f"{native}: {', '.join(strays)}", REINSTALL)
    records = importlib.metadata.distributions(name=at.package, path=[str(at.folder.parent)])
    versions = sorted(str(record.version) for record in records)
    if versions and versions != [at.version]:
        yield Finding(
            "files of two versions",
            f"{at.package} {at.version} beside install records of {', '.join(versions)} in {at.folder.parent}",
            REINSTALL,
        )


def _other_torch(at: Installation) -> Iterator[Finding]:
    ours = environment_of(at.folder) or at.prefixes[0]
    theirs = environment_of(at.torch)
    base = at.prefixes[1]
    # A virtual environment may be made to see the packages of the Python under it.
    if theirs is not None and theirs not in (ours, base, base / "local"):
        yield Finding(
            "torch is of another environment",
            f"{at.package} is in {ours}, torch in {theirs}",
            "install torch into the environment of the package, or see what puts the other on sys.path",
        )


def environment_of(folder: Path) -> Path | None:
    """The prefix whose `lib/pythonX.Y/site-packages` holds a package; None where it is in no such folder."""
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
                "LD_LIBRARY_PATH offers another torch to the loader",
                f"{folder}: {', '.join(found)}",
                "take that folder out of LD_LIBRARY_PATH",
            )
