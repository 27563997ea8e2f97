"""The manifest: what was built, from what, by what, for what. One schema for wheels and for the store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from .digests import file_sha256
from .errors import REINSTALL, IncompatibleArtifactError, UnreadableArtifactError, way_out

SCHEMA = 1
FILE = "manifest.json"
# Beside it in a store, as sha256sum writes it and checks it: a flipped byte in the manifest is found like any other.
DIGEST = f"{FILE}.sha256"


class Library(NamedTuple):
    """One shared library of an Artifact.

    Attributes:
        file: its name in the Artifact's folder.
        sha256, size: of its bytes.
        device: `cpu`, or `cuda` where it needs libtorch_cuda.
        sass, ptx: the compute capabilities of its device code, as `9.0` or `9.0a`, read back out of the file.
        module: the name that Python imports it by; None for a library of operators.
    """

    file: str
    sha256: str
    size: int
    device: str
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    module: str | None = None


class Requires(NamedTuple):
    """What a machine needs to run an Artifact.

    Attributes:
        torch: the oldest torch, `2.10`; or for modules the one release, `2.13.*` (PEP 440, version matching).
        platform: `linux-x86_64`.
        libc: `glibc 2.34`; empty where the platform has none to name.
        libstdcxx: the newest symbol version that is used, `GLIBCXX_3.4.30`.
        cuda: the CUDA major of libtorch_cuda, or None for a CPU-only Artifact.
        driver: the oldest CUDA version of the driver that runs the SASS, `13.0`.
        driver_for_ptx: the same for the PTX: a driver compiles no PTX that is newer than itself.
        python: the ABI of the one Python that modules are for, `cp312`; None where every Python will do.
    """

    torch: str
    platform: str
    libc: str
    libstdcxx: str
    cuda: int | None
    driver: str | None
    driver_for_ptx: str | None
    python: str | None = None


class Manifest(NamedTuple):
    """What `manifest.json` says; see the module for its purpose and DESIGN for its top level."""

    package: str
    version: str
    fingerprint: str
    sources: str
    plan: Mapping[str, Any]
    built_with: Mapping[str, Any]
    requires: Requires
    libraries: tuple[Library, ...]

    def to_json(self) -> dict[str, Any]:
        """The manifest as plain JSON values."""
        values = {
            **self._asdict(),
            "requires": self.requires._asdict(),
            "libraries": [library._asdict() for library in self.libraries],
        }
        return {"schema": SCHEMA, **json.loads(json.dumps(values))}

    def libraries_for(self, device: str) -> tuple[Library, ...]:
        """The libraries of one device type, `cpu` or `cuda`."""
        return tuple(library for library in self.libraries if library.device == device)

    @property
    def modules(self) -> dict[str, Library]:
        """The modules of Python among the libraries, by their names."""
        return {library.module: library for library in self.libraries if library.module}


def write(manifest: Manifest, folder: Path) -> None:
    """Write `manifest.json` into the Artifact's folder."""
    (folder / FILE).write_bytes(to_bytes(manifest))


def to_bytes(manifest: Manifest) -> bytes:
    """What is in `manifest.json`: the same for equal manifests."""
    return (json.dumps(manifest.to_json(), indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")


def read(folder: Path) -> Manifest | None:
    """Read the manifest of an Artifact's folder; None where there is no such file.

    Raises:
        IncompatibleArtifactError: it cannot be read, is of another schema, or names a file outside its folder.
    """
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise corrupt(path, str(error)) from error
    return from_text(text, str(path))


def from_text(text: str, where: str | Path) -> Manifest:
    """Parse a manifest; `where` is named in errors.

    Raises:
        IncompatibleArtifactError: as `read`.
    """
    try:
        data = json.loads(text)
        schema = data.pop("schema")
        if schema != SCHEMA:
            raise IncompatibleArtifactError(
                "the manifest is of another schema than this version reads",
                required=f"schema {SCHEMA}",
                found=f"schema {schema!r} in {where}",
                remedies=["reinstall the package: its files are of two versions"],
            )
        requires = Requires(**_whole(Requires, data.pop("requires")))
        libraries = tuple(_library(library) for library in _list(data.pop("libraries")))
        manifest = Manifest(**data, requires=requires, libraries=libraries)
        records: list[Manifest | Requires | Library] = [manifest, requires, *libraries]
        for record in records:
            _check_kinds(record)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise corrupt(where, f"{type(error).__name__}: {error}") from error
    for library in manifest.libraries:
        if not re.fullmatch(r"\w[\w.+-]*", library.file):
            raise corrupt(where, f"it names {library.file!r}, which is not a file of its own folder")
    return manifest


def digest_line(text: bytes) -> bytes:
    """What is in the file DIGEST beside a manifest."""
    return f"{hashlib.sha256(text).hexdigest()}  {FILE}\n".encode("ascii")


def from_bytes(text: bytes, digest: bytes, where: str | Path) -> Manifest:
    """Parse a manifest that is what its digest says.

    Raises:
        IncompatibleArtifactError: it is damaged; `where` is named.
    """
    if digest != digest_line(text):
        raise corrupt(where, f"its sha256 is not the one in {DIGEST}")
    return from_text(text.decode("utf-8", "replace"), where)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _library(data: dict[str, Any]) -> Library:
    data = _whole(Library, data)
    return Library(**{**data, "sass": _strings(data["sass"]), "ptx": _strings(data["ptx"])})


def _whole(record: type[Requires] | type[Library], data: dict[str, Any]) -> dict[str, Any]:
    """The values of a record, where none is left out: a default is for who writes a manifest."""
    if lacking := set(record._fields) - set(data):
        raise KeyError(*sorted(lacking))
    return data


def _strings(values: Any) -> tuple[str, ...]:
    if not all(re.fullmatch(r"\d+\.\d[af]?", value) for value in _list(values)):
        raise ValueError(f"{values!r} is no list of compute capabilities")
    return tuple(values)


def _check_kinds(record: Manifest | Requires | Library) -> None:
    """A JSON value of the wrong kind would be found out much later, far from where it stands."""
    for name, kind in get_type_hints(type(record)).items():
        value = getattr(record, name)
        if not isinstance(value, kind if type(None) in get_args(kind) else get_origin(kind) or kind):
            raise TypeError(f"{name} is {value!r}")
    if isinstance(record, Requires) and not re.fullmatch(r"\d+(\.\d+)+(\.\*)?", record.torch):
        raise ValueError(f"torch is {record.torch!r}")
    if isinstance(record, Library) and record.device not in ("cpu", "cuda"):
        raise ValueError(f"device is {record.device!r}")


def verify(folder: Path, library: Library) -> Path:
    """Check a library's bytes against its manifest, before anything loads it.

    Returns:
        The library's path.

    Raises:
        IncompatibleArtifactError: the file is missing or its size or digest is another one.
        UnreadableArtifactError: it cannot be read now.
    """
    path = folder / library.file
    try:
        found = "" if path.stat().st_size == library.size else f"{path.stat().st_size} bytes"
        found = found or (digest if (digest := file_sha256(path)) != library.sha256 else "")
    except FileNotFoundError as error:
        found = str(error)
    except OSError as error:
        raise unreadable(path, error) from error
    if found:
        raise corrupt(path, f"{found}, the manifest says {library.size} bytes, sha256 {library.sha256}")
    return path


def unreadable(path: Path, error: OSError) -> UnreadableArtifactError:
    """A file that may be whole: too many are open, a network filesystem does not answer, or it is not ours to read."""
    return UnreadableArtifactError(
        "the compiled kernels cannot be read",
        required=f"a file that this user can read: {path}",
        found=f"{type(error).__name__}: {error}",
        remedies=[way_out(error)],
    )


def corrupt(where: str | Path, found: str) -> IncompatibleArtifactError:
    """An Artifact that is damaged: nothing of it is loaded, and no compile is started to paint over it."""
    return IncompatibleArtifactError(
        "the compiled kernels are damaged",
        required="a manifest and libraries as they were built",
        found=f"{where}: {found}",
        remedies=[REINSTALL],
    )
