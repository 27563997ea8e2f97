"""Load an Artifact into this process, its libraries verified first. Whether it fits is the caller's question."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import ModuleType

from ..core.errors import REINSTALL, IncompatibleArtifactError, UnreadableArtifactError
from ..store.artifact import Artifact

# What the loader may lack for any library: memory, descriptors, a disk that answers, the right to run code from there.
# It says so in words alone.
_LACKS = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM)


def verify_modules(artifact: Artifact) -> None:
    """Check every module of an Artifact against its manifest."""
    for library in artifact.manifest.modules.values():
        artifact.verify_library(library)


def needed_for(device: str) -> tuple[str, ...]:
    """The device types whose libraries a call on one needs, in their order: the CPU library defines the operators."""
    return ("cpu", "cuda") if device == "cuda" else ("cpu",)


def load_operators(artifact: Artifact, device: str) -> None:
    """Load the operators for one device type, each library verified against the manifest first.

    Raises:
        IncompatibleArtifactError: a library is not what the manifest says, or the loader refuses it.
        UnreadableArtifactError: it cannot be read or loaded now.
    """
    import torch

    for library in artifact.manifest.libraries_for(device):
        if not library.module:  # Python imports those, when they are asked for
            path = artifact.verify_library(library)
            try:
                torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
            except OSError as error:
                raise _refused(path, error) from error


def import_module(package: str, name: str, artifact: Artifact) -> ModuleType:
    """Import a module of an Artifact whose bytes were verified, under a name that no other package has.

    Raises:
        IncompatibleArtifactError: there is no such module, or the loader refuses it.
        UnreadableArtifactError: it cannot be loaded now.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    library = artifact.manifest.modules.get(name)
    if library is None:
        raise IncompatibleArtifactError(
            f"{package} has no module {name}",
            required=f"a module that kernelwheel_add_pybind11_module({name} ...) makes",
            found=f"{artifact.folder}: " + (", ".join(artifact.manifest.modules) or "operators alone"),
            remedies=["name one of these, or add the module to CMakeLists.txt and install the package again"],
        )
    path = artifact.folder / library.file
    spec = spec_from_file_location(f"{package}._native.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    try:
        module = sys.modules[spec.name] = module_from_spec(spec)
    except ImportError as error:
        if error.path != str(path):  # what the module itself does raises what it raises
            raise
        raise _refused(path, error) from error
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _refused(path: Path, error: OSError | ImportError) -> IncompatibleArtifactError:
    """The error for a library that is as it was built, and that the loader does not load."""
    said = str(error.__cause__ or error)  # torch has words of its own around the loader's
    if "failed to map segment" in said or said.endswith(tuple(map(os.strerror, _LACKS))):
        return UnreadableArtifactError(
            "the compiled kernels cannot be loaded now",
            required=f"memory and file descriptors for them, and that programs may be run from {path.parent}",
            found=said,
            remedies=["try again when there is more room", "or let programs run from there: mount it without noexec"],
        )
    return IncompatibleArtifactError(
        "the compiled kernels cannot be loaded",
        required=f"a library that the system's loader takes: {path}",
        found=said,
        remedies=[REINSTALL],
    )
