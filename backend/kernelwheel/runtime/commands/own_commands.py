"""The `cache` commands that every wheel has, `path` and `clear`, and the `Kernels` that a command is about."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ..artifact.manifest import FILE
from ..decision.snapshot import editable_name, package_path
from ..errors import IncompatibleArtifactError
from ..kernels import Kernels
from ..machine.files import is_file
from ..store.clearing import Cleaning, clear


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare the option that all commands have."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


class Command(NamedTuple):
    """A command: what runs it and returns the exit status, what it is for, and what declares its options."""

    run: Callable[[argparse.Namespace, Kernels], int]
    summary: str
    declare: Callable[[argparse.ArgumentParser], None] = add_json


def show(args: argparse.Namespace, view: Mapping[str, Any], text: str) -> None:
    """Print a result as values or as text."""
    print(json.dumps(view, indent=1) if args.json else text)


def _path(args: argparse.Namespace, kernels: Kernels) -> int:
    store = kernels.installed.own_store()
    show(args, {"path": str(store.folder), "version": str(store.root)}, str(store.folder))
    return 0


def _clear(args: argparse.Namespace, kernels: Kernels) -> int:
    return show_cleaning(args, clear(kernels.installed.own_store(), args.all_versions))


def show_cleaning(args: argparse.Namespace, cleaning: Cleaning, reasons: Mapping[Path, str] | None = None) -> int:
    """Print what was removed, and why if there are several reasons to; return the exit status."""
    removed = [(path, size, (reasons or {}).get(path, "")) for path, size in cleaning.removed.items()]
    freed = sum(cleaning.removed.values())
    view = {
        "freed": freed,
        "removed": [{"path": str(path), "size": size, "because": because} for path, size, because in removed],
        "skipped": cleaning.skipped,
    }
    lines = [f"{path}  {size_text(size)}  {because}".rstrip() for path, size, because in removed]
    lines += [f"left alone: {reason}" for reason in cleaning.skipped]
    show(args, view, "\n".join([*lines, f"freed {size_text(freed)}"]))
    return 1 if cleaning.skipped else 0


def size_text(size: int) -> str:
    """A size in MB: `0.06 MB`."""
    return f"{size / 1e6:.2f} MB"


def _clear_options(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("--all-versions", action="store_true", help="remove those of all other versions too")


COMMANDS = {
    "path": Command(_path, "print the folder of the user's store"),
    "clear": Command(_clear, "remove the entries of this version", _clear_options),
}
# Those of kernelwheel, which are passed on to it where it is installed, and what they are for.
OF_KERNELWHEEL = {
    "list": "list the entries of all versions, and whether they fit this machine",
    "verify": "verify every entry byte for byte, and quarantine damaged ones",
    "build": "compile kernels ahead of the first call, if none fit; needs no GPU",
    "explain": "explain why no kernels were found: show the closest match and how it differs",
    "prune": "remove damaged entries, leftovers, and entries of other versions or old ones",
    "export": "export the kernels that this machine uses to a file",
    "import": "import kernels from an exported file or a wheel into the user's store",
}


def find_kernels(package: str, versions_without: Callable[[str], dict[str, str]] = lambda package: {}) -> Kernels:
    """The `Kernels` that a package has constructed in this process, or equal ones.

    `versions_without` gives its version where no distribution says it, as in a checkout on PYTHONPATH.
    """
    if package in Kernels.constructed:
        return Kernels.constructed[package]
    spec = None
    with suppress(ImportError, ValueError):  # of a package above it; ValueError: no name of a package
        spec = find_spec(package)
    natives = [Path(folder, "_native") for folder in spec.submodule_search_locations or ()] if spec else []
    versions = _versions(package) or (versions_without(package) if natives else {})
    if len(versions) != 1 or not natives:
        raise IncompatibleArtifactError(
            f"the kernels of {package} are not known",
            required=f"an installed package {package} that was built with kernelwheel, from one distribution",
            found=", ".join(sorted(versions)) or f"no {'distribution that has' if natives else 'package'} {package}",
            remedies=[f"check the name and the environment: {sys.executable} -c 'import {package}'"],
        )
    native = next((each for each in natives if is_file(each / FILE)), natives[0])
    (version,) = versions.values()
    return Kernels(package, version, native)


def _versions(package: str) -> dict[str, str]:
    """The versions of the distributions that have a package's kernels, or the loader of its editable install."""
    named = (f"{package_path(package)}/_native/{FILE}", f"{editable_name(package)}.pth")
    found = {}
    for each in importlib.metadata.distributions():
        files = f"\n{each.read_text('RECORD')}"
        if any(f"\n{name}," in files for name in named):
            found[str(each.metadata["Name"])] = each.version
    return found
