"""`python -m <package>._kernelwheel COMMAND`: `doctor`, and `cache` as far as it takes no compiler."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from . import cache_commands, compiler_process, doctor
from .errors import IncompatibleArtifactError, command
from .exit_status import INTERRUPTED, Parser, finish
from .files import is_file, is_folder
from .kernels import Kernels
from .manifest import FILE
from .platforms import require_supported
from .sources import editable_name, package_path


def main(package: str, arguments: Sequence[str]) -> int:
    """Run one command for a package, and say what fails; returns the exit status."""
    return finish(package, lambda: run(package, arguments, command(package)))


def run(package: str, arguments: Sequence[str], program: str) -> int:
    """Run one command for a package and return its exit status; `program` is what its usage begins with."""
    parser = Parser(prog=program, description=f"the compiled kernels of {package}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("inspect", add_help=False, help="show what a wheel contains (by kernelwheel)")
    for_doctor = commands.add_parser("doctor", help=doctor.SUMMARY, description=doctor.SUMMARY)
    cache_commands.add_json(for_doctor)
    cache = commands.add_parser("cache", help="manage the store of compiled kernels")
    of_cache = cache.add_subparsers(dest="cache_command", required=True, metavar="COMMAND")
    for name, each in cache_commands.COMMANDS.items():
        each.declare(of_cache.add_parser(name, help=each.summary, description=each.summary))
    for name, summary in cache_commands.OF_KERNELWHEEL.items():
        of_cache.add_parser(name, add_help=False, help=f"{summary} (by kernelwheel)")
    args, rest = parser.parse_known_args(arguments)
    if args.command == "cache":
        require_supported()
    if args.command == "inspect" or (args.command == "cache" and args.cache_command in cache_commands.OF_KERNELWHEEL):
        compiler_process.program()  # raises where kernelwheel is not installed
        words = ["inspect", *rest] if args.command == "inspect" else ["cache", args.cache_command, package, *rest]
        return int(import_module("kernelwheel.__main__").main(words, package))  # its errors are other classes than ours
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    kernels = find_kernels(package)
    if args.command == "doctor":
        return doctor.run(args, kernels)
    return cache_commands.COMMANDS[args.cache_command].run(args, kernels)


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


if __name__ == "__main__":
    try:
        sys.exit(main(str(__package__).removesuffix("._kernelwheel"), sys.argv[1:]))
    except KeyboardInterrupt:  # outside of `finish`
        sys.exit(INTERRUPTED)
