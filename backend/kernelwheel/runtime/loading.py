"""An Artifact that was looked at: its libraries verified and loaded. Whether it fits is the caller's question."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from ..core import manifest as manifests
from ..core.errors import REINSTALL, IncompatibleArtifactError, UnreadableArtifactError
from ..core.manifest import Library, Manifest

# What the loader may lack for any library: memory, descriptors, a disk that answers, the right to run code from there.
# It says so in words alone.
_LACKS = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM)

if TYPE_CHECKING:  # at import, only what a fitting wheel needs is loaded
    from ..store.entries import Store


class Found(NamedTuple):
    """An Artifact that was looked at: where it is, what it says, and the store that keeps it (None: the wheel)."""

    folder: Path
    manifest: Manifest
    store: Store | None

    def verify_library(self, library: Library) -> Path:
        """Check a library against the manifest before anything loads it; of a store, also who could have changed it.

        The wheel's is where the package's own code is: whoever could change the one could change the other.

        Returns:
            Its path.

        Raises:
            IncompatibleArtifactError: as `manifest.verify`.
            StoreError: as `Store.verify_library`.
        """
        if self.store:
            return self.store.verify_library(self.folder, library)
        return manifests.verify(self.folder, library)


def verify(found: Found) -> None:
    """Check every library of an Artifact against its manifest."""
    for library in found.manifest.libraries:
        found.verify_library(library)


def verify_modules(found: Found) -> None:
    """The same for its modules alone."""
    for library in found.manifest.modules.values():
        found.verify_library(library)


def needed_for(device: str) -> tuple[str, ...]:
    """The device types whose libraries a call on one needs, in their order: the CPU library defines the operators."""
    return ("cpu", "cuda") if device == "cuda" else ("cpu",)


def load_operators(found: Found, device: str) -> None:
    """Load the operators for one device type, each library verified against the manifest first.

    Raises:
        IncompatibleArtifactError: a library is not what the manifest says, or the loader refuses it.
        UnreadableArtifactError: it cannot be read or loaded now.
    """
    import torch

    for library in found.manifest.libraries_for(device):
        if not library.module:  # Python imports those, when they are asked for
            path = found.verify_library(library)
            try:
                torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
            except OSError as error:
                raise _refused(path, error) from error


def import_module(package: str, name: str, found: Found) -> ModuleType:
    """Import a module of an Artifact whose bytes were verified, under a name that no other package has.

    Raises:
        IncompatibleArtifactError: there is no such module, or the loader refuses it.
        UnreadableArtifactError: it cannot be loaded now.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    library = found.manifest.modules.get(name)
    if library is None:
        raise IncompatibleArtifactError(
            f"{package} has no module {name}",
            required=f"a module that kernelwheel_add_pybind11_module({name} ...) makes",
            found=f"{found.folder}: " + (", ".join(found.manifest.modules) or "operators alone"),
            remedies=["name one of these, or add the module to CMakeLists.txt and install the package again"],
        )
    path = found.folder / library.file
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
