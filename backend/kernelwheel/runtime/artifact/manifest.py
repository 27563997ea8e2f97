"""The manifest: what an Artifact was built from, with what tools and settings, and what it requires.

Wheels and the Store share one schema. The file carries its own digest: `digest` is the sha256 of the file with these
64 digits replaced by zeros. It does not prove who wrote the file, only that it has not changed since: what follows the
schema (store/manifest_fields.py), as no build writes anything else. Beside the package and in a Store, nobody else can
write; a manifest that may be anybody's is read by store/manifest_file.py.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import (
    INSTALL_COMPILER,
    REINSTALL,
    IncompatibleArtifactError,
    OtherSchemaError,
    UnreadableArtifactError,
    way_out,
)
from ..machine.files import stream_sha256
from ..machine.platforms import HOST_PLATFORM, library_file
from ..record import Record
from .content import only, part_of, part_of_library

if TYPE_CHECKING:
    from .content import Content

FILE = "manifest.json"
SCHEMA = 1  # rises with every change of the schema, and with it every fingerprint: a loader reads its own number only
LARGEST = 4 << 20  # bytes in the file: enough for 30 000 source files
ZEROS = "0" * 64
# What the loader reads of a Plan.
_READ = {
    "content": {"abi", "devices", "extensions", "options", "parts", "sources"},
    "target": {"cpu", "cpu_kernels"},
}


class Library(Record):
    """One shared library of an Artifact."""

    file: str  # its name in the Artifact's folder
    sha256: str  # those of its bytes
    size: int  # in bytes
    device: str  # `cpu`, or `cuda` if it needs libtorch_cuda
    # the compute capabilities of its device code, such as `9.0` or `9.0a`, read back from the file
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()  # the same of its PTX
    # the name under which Python imports it, in full for an extension; None for an operator library
    module: str | None = None
    # the digest of what its host code was compiled with besides its sources; empty if that depends on architectures
    host_code: str = ""


class Requires(Record):
    """What a machine needs to run an Artifact."""

    torch: str  # the oldest torch, `2.10`; for modules, the one release, `2.13.*`, or build, see `torch_required`
    platform: str  # `linux-x86_64`
    libc: str  # `glibc 2.34`; empty if the platform's libc does not identify itself
    libstdcxx: str  # the newest symbol version used, `GLIBCXX_3.4.30`
    # the CUDA major that torch must be for; None if any will do, as for operators, which bring the CUDA runtime along,
    # and if no library uses CUDA
    cuda: int | None
    # the oldest CUDA version that a driver must support to run the SASS, `13.0`; None if no library uses CUDA
    driver: str | None
    driver_for_ptx: str | None  # the same for the PTX: a driver cannot compile PTX newer than itself
    python: str | None = None  # the ABI of the one Python that modules are for, `cp312`; None if any Python will do


class Manifest(Record):
    """The content of `manifest.json`; see the module's docstring for its purpose."""

    package: str  # as in the Plan
    version: str  # as there
    fingerprint: str  # the digest of `plan.schema` and of `digests`
    sources: str  # the digest of the Plan's
    plan: Mapping[str, Any]  # everything that decides the bytes of the libraries, in three parts
    digests: Mapping[str, str]  # those of the three parts
    built_with: Mapping[str, Any]  # what made it, and with which options
    requires: Requires  # what a machine needs to run it
    libraries: tuple[Library, ...]  # what it consists of

    def to_json(self) -> dict[str, Any]:
        """The content of `manifest.json`, as plain JSON values."""
        plain = {**self._asdict(), "schema": SCHEMA, "requires": self.requires._asdict()}
        return dict(json.loads(json.dumps({**plain, "libraries": [each._asdict() for each in self.libraries]})))

    @property
    def content(self) -> Content:
        """What was compiled, and how: the first part of its Plan."""
        content: Content = self.plan["content"]
        return content

    @property
    def cpu(self) -> Mapping[str, str]:
        """The features of a CPU that it was compiled for beyond the platform's baseline, and what asked for each.

        That is `cpu` for the option of that name and for `native`, or `flags`, which every compile needs.
        """
        features: Mapping[str, str] = self.plan["target"]["cpu"]
        return features

    def only(self, part: str) -> Manifest:
        """The same with the libraries and the content of one part; all of it for none."""
        if not part:
            return self
        libraries = tuple(library for library in self.libraries if self.part_of(library.file) == part)
        return self._replace(libraries=libraries, plan={**self.plan, "content": only(self.content, part)})

    def part_of(self, file: str) -> str:
        """The part that a library is in; empty if there are no parts."""
        extension = self.extensions.get(file)
        return part_of(extension["name"], self.content) if extension else part_of_library(file, self.content)

    def libraries_for(self, device: str) -> tuple[Library, ...]:
        """The libraries of one device type, `cpu` or `cuda`."""
        return tuple(library for library in self.libraries if library.device == device)

    @property
    def modules(self) -> dict[str, Library]:
        """The Python modules among the libraries, by name."""
        return {library.module: library for library in self.libraries if library.module}

    @property
    def extensions(self) -> dict[str, Mapping[str, Any]]:
        """The extensions in its Plan, as JSON values, by the file of their library."""
        return {self._file_of(each["name"]): each for each in self.content["extensions"]}

    @property
    def uses_cuda(self) -> bool:
        """Whether any library uses CUDA; otherwise the kernels are for the CPU only."""
        return any(library.device == "cuda" for library in self.libraries)

    @property
    def serves_both(self) -> bool:
        """Whether a library that uses CUDA has CPU kernels too, as modules and extensions do."""
        libraries = self.libraries if self.extensions else self.modules.values()
        return any(library.device == "cuda" for library in libraries)

    def find_library(self, name: str) -> Library | None:
        """The library of an extension, or of a module that CMake made."""
        if not self.extensions:
            return self.modules.get(name)
        return next((library for library in self.libraries if library.file == self._file_of(name)), None)

    @property
    def left_out(self) -> list[str]:
        """The extensions that only a build with CUDA has, where this was one without."""
        return [each["name"] for each in self.extensions.values() if not (self.uses_cuda or each["cuda"] != "only")]

    def _file_of(self, extension: str) -> str:
        return library_file(extension, self.requires.platform)

    def is_of_a_family(self, library: Library) -> bool:
        """Whether a library's kernels are for one family of GPUs only, as its extension declares."""
        extension = self.extensions.get(library.file)
        return bool(extension and extension["archs"])

    @property
    def kernels(self) -> tuple[Library, ...]:
        """The libraries with device code that must run on every GPU: not those for one family of GPUs."""
        every = self.libraries_for("cuda")
        return tuple(each for each in every if (each.sass or each.ptx) and not self.is_of_a_family(each))


def read(folder: Path, package: str | None = None) -> Manifest | None:
    """Read the manifest in an Artifact's folder; None if there is none."""
    path = folder / FILE
    try:
        text = content_of(HOST_PLATFORM.open_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    manifest = from_bytes(text, path)
    if package is not None and manifest.package != package:
        raise corrupt(path, f"it is the manifest of {manifest.package}, not of {package}")
    return manifest


def content_of(descriptor: int) -> bytes:
    """The bytes of an open manifest file, at most one more than the limit; the file is closed."""
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        return stream.read(min(os.fstat(descriptor).st_size, LARGEST) + 1) or b""


def from_bytes(text: bytes, where: str | Path) -> Manifest:
    """Parse the bytes of a `manifest.json`; `where` is named in errors."""
    try:
        values = parse(text, where)
        del values["schema"], values["digest"]
        for part, names in _READ.items():
            if lacking := names - values["plan"][part].keys():
                raise ValueError(f"{min(lacking)} is missing in manifest.plan.{part}")
        requires = Requires(**values.pop("requires"))
        libraries = tuple(
            Library(**{**library, "sass": tuple(library["sass"]), "ptx": tuple(library["ptx"])})
            for library in values.pop("libraries")
        )
        for library in libraries:
            if Path(library.file).name != library.file:
                raise ValueError(f"it has the library {library.file!r:.100}, in another folder")
        return Manifest(**values, requires=requires, libraries=libraries)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise corrupt(where, str(error)) from error


def parse(text: bytes, where: str | Path) -> dict[str, Any]:
    """The JSON values of a manifest of this schema, as they were written. Raises a ValueError if they are not."""
    if len(text) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST} bytes")
    values: dict[str, Any] = json.loads(text.decode("ascii"))
    if type(values) is not dict or "schema" not in values:
        raise ValueError("it has no schema")
    if values["schema"] != SCHEMA:
        raise OtherSchemaError(
            "the manifest has a schema that this version does not read",
            required=f"schema {SCHEMA}",
            found=f"schema {values['schema']!r:.100} in {where}",
            remedies=[REINSTALL, f"or, if it is a file of a later version, update kernelwheel: {INSTALL_COMPILER}"],
        )
    digest: Any = values.get("digest")
    if not is_digest(digest):
        raise ValueError("it has no digest")
    if hashlib.sha256(text.replace(digest.encode("ascii"), ZEROS.encode("ascii"))).hexdigest() != digest:
        raise ValueError("its digest does not match its content")
    return values


def is_digest(value: Any) -> bool:
    """Whether a value is a sha256 in hex."""
    return type(value) is str and len(value) == 64 and not value.strip("0123456789abcdef")


def verified(descriptor: int, library: Library, path: Path) -> int:
    """The descriptor of an open library, at its beginning, after the same check; it is closed if that fails."""
    try:
        size = os.fstat(descriptor).st_size
        found = "" if size == library.size else f"{size} bytes"
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as stream:
            found = found or (digest if (digest := stream_sha256(stream)) != library.sha256 else "")
            stream.seek(0)
        if found:
            raise corrupt(path, f"{found}; the manifest says {library.size} bytes, sha256 {library.sha256}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def unreadable(path: str | Path, error: OSError) -> UnreadableArtifactError:
    """The error for a file that may be intact: too many files open, no permission, or an unresponsive network disk."""
    return UnreadableArtifactError(
        "the compiled kernels cannot be read",
        required=f"a file that this user can read: {path}",
        found=f"{type(error).__name__}: {error}",
        remedies=[way_out(error)],
    )


def corrupt(where: str | Path, found: str) -> IncompatibleArtifactError:
    """The error for a damaged Artifact: nothing in it is loaded, and no compile hides the damage."""
    return IncompatibleArtifactError(
        "the compiled kernels are damaged",
        required="an unchanged manifest and unchanged libraries",
        found=f"{where}: {found}",
        remedies=[REINSTALL],
    )
