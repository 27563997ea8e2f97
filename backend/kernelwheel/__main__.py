"""`python -m <package>._kernelwheel COMMAND`, and `python -m kernelwheel COMMAND` for any package or wheel."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import runpy
import sys
from collections.abc import Sequence

from .cli import inspection
from .cli.command_line import COMMANDS, run_command
from .cli.exit_status import INTERRUPTED, Parser, finish
from .core.errors import IncompatibleArtifactError

NAME = str(__package__)
# The package whose own copy of the backend this is; empty in the distribution itself.
PACKAGE = NAME.removesuffix("._kernelwheel") if NAME.endswith("._kernelwheel") else ""

# Commands about builds, which a package's copy does not have, and their modules.
OF_BUILDS = {"adopt": ".adoption.adopt", "page": ".packing.page"}


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    if PACKAGE:
        return finish(PACKAGE, lambda: run_command(PACKAGE, arguments))
    return finish(NAME, lambda: _run_for_any(arguments))


def _run_for_any(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog=f"python -m {NAME}",
        description="Look after the kernels of a package built with this backend, or adopt the backend in a package.",
        epilog=f"`python -m {NAME} --package NAME COMMAND --help` shows the arguments of a command.",
    )
    parser.add_argument("--package", metavar="NAME", help="the import name of an installed package")
    parser.add_argument(
        "command", choices=[*COMMANDS, *OF_BUILDS], metavar="COMMAND", help=", ".join([*COMMANDS, *OF_BUILDS])
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the command's arguments")
    args = parser.parse_args(arguments)
    if args.command in OF_BUILDS:
        if args.package:
            parser.error(f"{args.command} takes no --package: it works on files")
        return int(importlib.import_module(OF_BUILDS[args.command], NAME).main(args.arguments))
    if args.package:
        return _run_copy(args.package, [args.command, *args.arguments])
    if args.command == "inspect":
        inspect = Parser(prog=f"python -m {NAME} inspect", description=COMMANDS["inspect"][1])
        inspection.add_arguments(inspect)
        return inspection.run(inspect.parse_args(args.arguments))
    parser.error(f"{args.command} is about a package: --package NAME {args.command}")


def _run_copy(package: str, arguments: Sequence[str]) -> int:
    """Run a package's own copy, which may be another version of this one, as `python -m` does."""
    copy = f"{package}._kernelwheel"
    sys.argv[1:] = arguments  # before the package is imported: see stand_in.py
    found = "it has no copy of the backend, or one without commands"
    try:
        there = importlib.util.find_spec(f"{copy}.__main__") is not None
    except (ImportError, ValueError) as error:  # ValueError: no name of a package
        there, found = False, str(error)
    if not there:
        raise IncompatibleArtifactError(
            f"no commands for {package}",
            required=f"an installed package {package} that was built with this backend",
            found=found,
            remedies=[f"check the name and the environment: {sys.executable} -c 'import {package}'"],
        )
    runpy.run_module(copy, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # outside of `finish`
        sys.exit(INTERRUPTED)
