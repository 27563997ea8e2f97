"""Loading an Artifact into this process, after verifying its libraries.

What was verified is what is loaded: the loader gets a path to the open file that was hashed, so that nothing depends on
what the file's own path leads to by then. The descriptor stays open, for two reasons. The loader takes two libraries
of one name for one, and a number that is in use is not given out again. And debuggers open that path, too.

Not a sealed copy in memory (memfd_create): each process would have its own, profilers would find no file's name, and
those who may write to the file in place are trusted to run code anyway.

Whether the Artifact fits is for the caller to check.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from .artifact.artifact import Artifact
from .artifact.manifest import Library
from .errors import REINSTALL, IncompatibleArtifactError, UnreadableArtifactError, way_out
from .machine.platforms import HOST_PLATFORM


def load_operators(artifact: Artifact, device: str) -> None:
    """Load the operators for one device type, after verifying each library against the manifest."""
    for library in artifact.manifest.libraries_for(device):
        if not library.module:  # modules are imported by Python, on request
            _load_file(artifact, library)


def load_module(package: str, name: str, artifact: Artifact, imported_as: str | None = None) -> ModuleType | None:
    """Load the verified library of an extension, or of a module that CMake made, which is imported within the package.

    Returns the module, or None for an extension of operators. A module is imported under its own name, unless
    `imported_as` is another, which ends in the same one.
    """
    manifest = artifact.manifest
    library = manifest.find_library(name)
    if library is None:
        added = (
            f"declared as an extension: {name}"
            if manifest.extensions
            else f"added by kernelwheel_add_pybind11_module({name} ...)"
        )
        there = [str(each["name"]) for each in manifest.extensions.values()] or list(manifest.modules)
        raise IncompatibleArtifactError(
            f"{package} has no module {name}",
            required=f"a module {added}",
            found=f"{artifact.folder}: " + (", ".join(there) or "only operators"),
            remedies=["use one of these, or add the module and reinstall the package"],
        )
    if library.module:
        full_name = name if manifest.extensions else f"{package}._native.{name}"
        return _import_file(imported_as or full_name, artifact, library)
    _load_file(artifact, library)
    return None


@contextmanager
def _verified(artifact: Artifact, library: Library) -> Iterator[str]:
    """A path to a library that was just verified, for the loader; it stays open if that succeeds."""
    file = artifact.folder / library.file
    verified = artifact.open_library(library)
    try:
        opened, path = HOST_PLATFORM.path_to_load(verified)
    except OSError as error:
        raise UnreadableArtifactError(
            "the compiled kernels cannot be loaded",
            required=f"a path to the open file that was verified: {file}",
            found=f"{type(error).__name__}: {error}",
            remedies=[HOST_PLATFORM.no_path, f"or {way_out(error)}"],
        ) from error
    try:
        yield path
    except BaseException as error:
        os.close(opened)
        if isinstance(error, OSError) or (isinstance(error, ImportError) and error.path == path):
            raise _refused(artifact, file, error, path) from error
        raise  # the module's own code failed


def _load_file(artifact: Artifact, library: Library) -> None:
    """Load a library of operators, as torch.ops.load_library does, which would follow the path to the file's own."""
    import torch

    with _verified(artifact, library) as path:
        ctypes.CDLL(path)
        torch.ops.loaded_libraries.add(os.path.realpath(path))


def _import_file(name: str, artifact: Artifact, library: Library) -> ModuleType:
    """Import a library as a module of that name."""
    from importlib.util import module_from_spec, spec_from_file_location

    file = str(artifact.folder / library.file)
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    before = sys.modules.get(name)
    with _verified(artifact, library) as path:
        spec.origin = path  # what is loaded
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.origin = module.__file__ = file
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise
    return module


def _refused(artifact: Artifact, path: Path, error: Exception, given: str) -> IncompatibleArtifactError:
    """The error for an intact library that the loader does not load."""
    said = str(error).replace(given, str(path))
    if HOST_PLATFORM.lacks_resources(error):
        return UnreadableArtifactError(
            "the compiled kernels cannot be loaded right now",
            required=f"enough memory and file descriptors, and permission to run code from {path.parent}",
            found=said,
            remedies=["try again when resources are free", "or, if it is mounted noexec, mount it without that option"],
        )
    # What is missing may be another library, which other processes have, as by LD_LIBRARY_PATH.
    of_this_one = artifact.guard is None or said.startswith(str(path))
    return (IncompatibleArtifactError if of_this_one else UnreadableArtifactError)(
        "the compiled kernels cannot be loaded",
        required=f"a library that the dynamic loader accepts: {path}",
        found=said,
        remedies=["make the libraries that it needs available here" if artifact.guard else REINSTALL],
    )
