"""Turning the pure wheel from setuptools into a platform wheel with the Artifact, its sources and its SBOM."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from stat import S_IXUSR
from zipfile import ZIP_DEFLATED, BadZipFile, ZipInfo

from packaging.utils import canonicalize_name
from wheel.wheelfile import WheelError, WheelFile

from ..project.build_platforms import PLATFORMS
from ..project.extension import Extension, from_plan
from ..runtime.artifact import manifest as manifests
from ..runtime.artifact.artifact import Artifact
from ..runtime.decision.snapshot import package_path
from ..runtime.errors import BuildError
from ..store import manifest_file
from ..store.archive import native_folder
from .core_metadata import completed, field_of
from .module_files import module_files, top_level
from .sbom import LICENCES, Component, document, licence_texts
from .setuptools_project import variable_set
from .tags import python_tag

# What a wheel carries of this backend: the loader.
RUNTIME = Path(__file__).parent.parent / "runtime"
SUFFIXES = tuple({platform.suffix for platform in PLATFORMS.values()})  # of libraries


@dataclass(frozen=True)
class Contents:
    """What the wheel contains besides the Python files."""

    artifact: Artifact
    sources: Path  # the folder of the source files, which go into `src/` beside the libraries
    epoch: int  # the timestamp of every file in the wheel, in seconds since 1970; not the builder's clock
    platform: str  # the wheel's platform tag, `manylinux_2_28_x86_64`
    components: tuple[Component, ...] = ()  # what is compiled or linked into the Artifact
    build_tag: str = ""  # the wheel's build number, which says which torch it is for; may be empty
    dependencies: tuple[str, ...] = ()  # of [tool.kernelwheel]

    @property
    def extensions(self) -> list[Extension]:
        """Those that the Artifact was compiled from."""
        return [from_plan(plan) for plan in self.artifact.manifest.content["extensions"]]

    def members(self) -> Iterator[tuple[str, bytes]]:
        """The files with their names in the wheel, without the other files that a Store keeps with an Artifact."""
        artifact = self.artifact
        native = native_folder(artifact.manifest)
        for library in artifact.manifest.libraries:
            yield native + library.file, (artifact.folder / library.file).read_bytes()
        for each in self.extensions:
            if each.by_path and each.is_built(artifact.manifest.uses_cuda):
                platform = artifact.manifest.requires.platform
                file = each.name.replace(".", "/") + PLATFORMS[platform].suffix
                yield file, (artifact.folder / each.file(platform)).read_bytes()
        yield native + manifests.FILE, manifest_file.to_bytes(artifact.manifest)
        for name in sorted(artifact.manifest.content["sources"]):
            yield f"{native}src/{name}", (self.sources / name).read_bytes()


def _descriptions(contents: Contents, metadata: str, name: str) -> Iterator[tuple[str, bytes]]:
    """The files that say what the libraries are made of, by their names in `.dist-info` (PEP 770, PEP 639)."""
    distribution, version, licence = (field_of(metadata, each) for each in ("Name", "Version", "License-Expression"))
    about = (canonicalize_name(distribution), version, licence, contents.epoch)
    yield f"sboms/{name}.cdx.json", document(contents.artifact.manifest, contents.components, *about)
    yield f"licenses/{LICENCES}", licence_texts(contents.components)


def runtime_files(folder: str) -> Iterator[tuple[str, bytes]]:
    """The files of the loader, below `folder` in a wheel."""
    for path in sorted(RUNTIME.rglob("*.py")):
        yield f"{folder}/{path.relative_to(RUNTIME).as_posix()}", path.read_bytes()


def add_artifact(pure: Path, destination: Path, contents: Contents) -> str:
    """Write the platform wheel: everything in the pure one from setuptools, plus the Artifact and its sources.

    Returns:
        The new wheel's file name. The torch and CUDA that its libraries need are in the manifest, not in the name.

    Raises:
        BuildError: it cannot be written; no partial file is left.
    """
    tag = f"{python_tag(contents.artifact.manifest.requires.python)}-{contents.platform}"
    with WheelFile(pure) as source:
        build = f"-{contents.build_tag}" if contents.build_tag else ""
        path = destination / f"{source.parsed_filename['namever']}{build}-{tag}.whl"
        facts, metadata = f"{source.dist_info_path}/WHEEL", f"{source.dist_info_path}/METADATA"
        declared = source.read(metadata).decode("utf-8")
        manifest = contents.artifact.manifest
        binding = manifest.plan["target"]["binding"]
        changed = {
            facts: _retagged(source.read(facts).decode("utf-8"), tag, contents.build_tag).encode("utf-8"),
            metadata: completed(
                declared, contents.dependencies, binding["torch"] if binding else None, [LICENCES]
            ).encode("utf-8"),
        }
        extensions = contents.extensions
        names = f"{source.dist_info_path}/top_level.txt"
        old = source.read(names).decode("utf-8") if names in source.namelist() else ""
        changed[names] = top_level(old, manifest.package, [each.name for each in extensions]).encode("utf-8")
        descriptions = _descriptions(contents, declared, source.parsed_filename["name"])
        runtime = f"{package_path(manifest.package)}/_kernelwheel"
        added = chain(
            runtime_files(runtime),
            module_files(extensions, manifest.package, field_of(declared, "Name")),
            contents.members(),
            ((f"{source.dist_info_path}/{name}", data) for name, data in descriptions),
        )
        # A copy of the runtime that the project packs by itself may be another version: ours is the one.
        write_wheel(source, path, contents.epoch, added, changed, without=f"{runtime}/")
    return path.name


def write_wheel(
    source: WheelFile,
    path: Path,
    epoch: int,
    added: Iterable[tuple[str, bytes]],
    changed: Mapping[str, bytes] = {},
    without: str | None = None,
) -> None:
    """Write a wheel with the members of another one and more, and with a RECORD of its own; then read it back.

    `changed` is what members of `source` contain instead, `without` the folder of those that are left out. `epoch` is
    the timestamp of every file, in seconds since 1970.

    Raises:
        BuildError: it cannot be written, or is not what was written; no partial file is left.
    """
    out = (f"{source.dist_info_path}/RECORD", *([without] if without else []))
    kept = (name for name in source.namelist() if not name.startswith(out))
    members = chain(((name, changed[name] if name in changed else source.read(name)) for name in kept), added)
    programs = {info.filename for info in source.infolist() if info.external_attr >> 16 & S_IXUSR}
    try:
        # WheelFile takes RECORD's timestamp from this variable, or else from the clock.
        with variable_set("SOURCE_DATE_EPOCH", str(epoch)), WheelFile(path, "w", compression=ZIP_DEFLATED) as target:
            for name, data in members:
                target.writestr(_zip_info(name, epoch, name in programs), data)
        _read_back(path)
    except OSError as error:
        path.unlink(missing_ok=True)  # a partial wheel
        raise BuildError(
            "the wheel cannot be written",
            required=f"a folder with enough free space that this user can write to: {path.parent}",
            found=f"{type(error).__name__}: {error}",
            remedies=["free some space there, or choose another folder"],
        ) from error


def _read_back(path: Path) -> None:
    """Refuse and remove a wheel that is not what RECORD says of it: a disk may say that it has what it has not."""
    name = "RECORD"
    try:
        with WheelFile(path) as archive:  # which compares what it reads with RECORD
            for name in archive.namelist():
                archive.read(name)
    except (WheelError, BadZipFile, zlib.error) as error:
        path.unlink()
        raise BuildError(
            "the wheel does not hold what was written into it",
            required="every file as it was packed",
            found=f"{name} in {path}: {error}",
            remedies=["build again; if it fails again, check the disk or the network filesystem"],
        ) from error


def read_pure(pure: Path) -> tuple[str, list[str]]:
    """The version of a wheel from setuptools, and the names of its members.

    Raises:
        BuildError: one is a native file, of which nothing says what it was built from and for; names it.
    """
    with WheelFile(pure) as source:
        version = field_of(source.read(f"{source.dist_info_path}/METADATA").decode("utf-8"), "Version")
        members = list(source.namelist())
        native = [name for name in members if _is_native(source, name)]
    if native:
        raise BuildError(
            "a native file that kernelwheel did not build would get into the wheel",
            required="native files that kernelwheel compiles from the package's sources, and no others",
            found="\n".join(native),
            remedies=["remove it from the checkout, or from the package data", "or build it as an extension"],
        )
    return version, members


def _is_native(wheel: WheelFile, member: str) -> bool:
    if re.search(r"\.(so(\.[\d.]+)?|pyd|dylib|dll)$", member):
        return True
    with wheel.open(member) as stream:
        return bool(stream.read(4) == b"\x7fELF")  # System V ABI, "ELF Header"


def _retagged(text: str, tag: str, build_tag: str) -> str:
    """The WHEEL file, changed to a platform wheel with our tag (binary distribution format, "File contents")."""
    kept = [line for line in text.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    build = [f"Build: {build_tag}"] if build_tag else []
    return "\n".join([*kept, "Root-Is-Purelib: false", f"Tag: {tag}", *build, ""])


def _zip_info(member: str, epoch: int, program: bool) -> ZipInfo:
    """Its permissions are one of two, whatever the builder's umask is."""
    info = ZipInfo(member, time.gmtime(epoch)[:6])
    info.compress_type = ZIP_DEFLATED
    info.external_attr = (0o100755 if program or member.endswith(SUFFIXES) else 0o100644) << 16
    return info
