"""The command line of a package's own copy of the backend: `doctor`, `inspect` and `cache`."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from ..core.errors import IncompatibleArtifactError, command
from ..core.files import is_folder
from ..loader.kernels import Kernels
from . import cache_commands, doctor, inspection, installation
from .exit_status import Parser

COMMANDS = {
    "doctor": (doctor, "show what is installed, what this machine has, and whether they fit"),
    "inspect": (inspection, "show what a wheel contains and whether it fits this machine"),
    "cache": (cache_commands, "manage the store of compiled kernels"),
}


def run_command(package: str, arguments: Sequence[str]) -> int:
    """Run one command for a package and return its exit status.

    Raises:
        KernelWheelError: the command failed, or the package's kernels were not found.
    """
    parser = Parser(prog=command(package), description=f"the compiled kernels of {package}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    args = parser.parse_args(arguments)
    if args.command == "inspect":
        return inspection.run(args)
    kernels = find_kernels(package)
    return cache_commands.run(args, kernels) if args.command == "cache" else doctor.run(args, kernels)


def find_kernels(package: str) -> Kernels:
    """The `Kernels` that a package constructs when it is imported, or equal ones if it constructs none by then.

    Raises:
        IncompatibleArtifactError: it constructs none, and which distribution it is from is not clear.
    """
    module = importlib.import_module(package)
    return Kernels.constructed.get(package) or _constructed_here(package, module)


def _constructed_here(package: str, module: ModuleType) -> Kernels:
    names = {each.name for each in installation.owners(package, sys.path) if each.has_kernels}
    names = names or set(importlib.metadata.packages_distributions().get(package.partition(".")[0], ()))
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]  # a package needs no __init__.py
    if len(names) != 1 or not folders:
        raise IncompatibleArtifactError(
            f"the version of {package} is not known",
            required=f"a `Kernels` constructed by `import {package}`, or one installed distribution that has {package}",
            found=", ".join(sorted(names)) or f"no distribution that has {package}",
            remedies=[
                "install the package with pip, from one wheel or checkout",
                "or construct its `Kernels` on import",
            ],
        )
    folder = next((folder for folder in folders if is_folder(folder / "_kernelwheel")), folders[0])
    return Kernels(package, importlib.metadata.version(names.pop()), folder / "_native")
