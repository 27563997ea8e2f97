"""Loading an Artifact into this process, after verifying its libraries.

Whether the Artifact fits is for the caller to check.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import ModuleType

from ..core.errors import REINSTALL, IncompatibleArtifactError, UnreadableArtifactError
from ..store.artifact import Artifact

# Errors that are not the library's fault: no memory, no descriptors, a failing disk, no permission to run code there.
# The loader reports them only as text.
_LACKS = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM)


def verify_modules(artifact: Artifact) -> None:
    """Check every module of an Artifact against its manifest."""
    for library in artifact.manifest.modules.values():
        artifact.verify_library(library)


def needed_for(device: str) -> tuple[str, ...]:
    """The device types whose libraries a call needs, in load order: the CPU library defines the operators."""
    return ("cpu", "cuda") if device == "cuda" else ("cpu",)


def load_operators(artifact: Artifact, device: str) -> None:
    """Load the operators for one device type, after verifying each library against the manifest.

    Raises:
        IncompatibleArtifactError: a library does not match the manifest, or the loader rejects it.
        UnreadableArtifactError: it cannot be read or loaded at the moment.
    """
    for library in artifact.manifest.libraries_for(device):
        if not library.module:  # modules are imported by Python, on request
            _load_file(artifact.verify_library(library))


def load_extension(name: str, artifact: Artifact) -> ModuleType | None:
    """Load the verified library of an extension: a module under its own name; operators, which gives None.

    Raises:
        IncompatibleArtifactError: the Artifact has no such extension, or the library does not match the manifest, or
            the loader rejects it.
        UnreadableArtifactError: it cannot be read or loaded at the moment.
    """
    library = artifact.manifest.extension_library(name)
    if library is None:
        raise _no_module(name, artifact)
    path = artifact.verify_library(library)
    if library.module:
        return _import_file(name, path)
    _load_file(path)
    return None


def import_module(package: str, name: str, artifact: Artifact) -> ModuleType:
    """Import a module of a verified Artifact, under a name that is unique to the package.

    Raises:
        IncompatibleArtifactError: there is no such module, or the loader rejects it.
        UnreadableArtifactError: it cannot be loaded at the moment.
    """
    library = artifact.manifest.modules.get(name)
    if library is None:
        raise _no_module(name, artifact)
    return _import_file(f"{package}._native.{name}", artifact.folder / library.file)


def _no_module(name: str, artifact: Artifact) -> IncompatibleArtifactError:
    package = artifact.manifest.package
    tables = bool(artifact.manifest.extensions)
    there = [str(each["name"]) for each in artifact.manifest.extensions.values()] or list(artifact.manifest.modules)
    added = f"declared as an extension: {name}" if tables else f"added by kernelwheel_add_pybind11_module({name} ...)"
    return IncompatibleArtifactError(
        f"{package} has no module {name}",
        required=f"a module {added}",
        found=f"{artifact.folder}: " + (", ".join(there) or "only operators"),
        remedies=["use one of these, or add the module and reinstall the package"],
    )


def _load_file(path: Path) -> None:
    """Load a library of operators."""
    import torch

    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise _refused(path, error) from error


def _import_file(name: str, path: Path) -> ModuleType:
    """Import a library as a module of that name."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    before = sys.modules.get(name)
    try:
        module = sys.modules[spec.name] = module_from_spec(spec)
    except ImportError as error:
        if error.path != str(path):  # the module's own code failed: pass its error on
            raise
        raise _refused(path, error) from error
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise
    return module


def _refused(path: Path, error: OSError | ImportError) -> IncompatibleArtifactError:
    """The error for an intact library that the loader does not load."""
    said = str(error.__cause__ or error)  # torch wraps the loader's message
    if "failed to map segment" in said or said.endswith(tuple(map(os.strerror, _LACKS))):
        return UnreadableArtifactError(
            "the compiled kernels cannot be loaded right now",
            required=f"enough memory and file descriptors, and permission to run code from {path.parent}",
            found=said,
            remedies=["try again when resources are free", "or, if it is mounted noexec, mount it without that option"],
        )
    return IncompatibleArtifactError(
        "the compiled kernels cannot be loaded",
        required=f"a library that the dynamic loader accepts: {path}",
        found=said,
        remedies=[REINSTALL],
    )
