"""The `Kernels` of an installed package, by its name: what a command is about."""

from __future__ import annotations

import importlib.metadata
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..artifact.manifest import FILE
from ..decision.snapshot import editable_name, package_path
from ..errors import IncompatibleArtifactError
from ..kernels import Kernels
from ..machine.files import is_file, is_folder


def find_kernels(package: str) -> Kernels:
    """The `Kernels` that a package has constructed in this process, or equal ones.

    It is imported only if no distribution says its version, as in a checkout on PYTHONPATH.
    """
    if package in Kernels.constructed:
        return Kernels.constructed[package]
    spec = None
    with suppress(ImportError, ValueError):  # of a package above it; ValueError: no name of a package
        spec = find_spec(package)
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    versions = _versions(package) or (_own_version(package) if folders else {})
    if len(versions) != 1 or not folders:
        raise IncompatibleArtifactError(
            f"the kernels of {package} are not known",
            required=f"an installed package {package} that was built with kernelwheel, from one distribution",
            found=", ".join(sorted(versions)) or f"no {'distribution that has' if folders else 'package'} {package}",
            remedies=[f"check the name and the environment: {sys.executable} -c 'import {package}'"],
        )
    natives = [folder / "_native" for folder in folders]
    native = next((each for each in natives if is_folder(each) and is_file(each / FILE)), natives[0])
    (version,) = versions.values()
    return Kernels(package, version, native)


def _own_version(package: str) -> dict[str, str]:
    import_module(package)
    own = getattr(sys.modules.get(f"{package}._kernelwheel.kernels"), "Kernels", None)
    return {package: own.constructed[package].installed.version} if own and package in own.constructed else {}


def _versions(package: str) -> dict[str, str]:
    """The versions of the distributions that have a package's kernels, or the loader of its editable install."""
    named = (f"{package_path(package)}/_native/{FILE}", f"{editable_name(package)}.pth")
    found = {}
    for each in importlib.metadata.distributions():
        files = f"\n{each.read_text('RECORD')}"
        if any(f"\n{name}," in files for name in named):
            found[str(each.metadata["Name"])] = each.version
    return found
