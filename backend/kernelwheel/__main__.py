"""`python -m kernelwheel COMMAND`: look after the kernels of a package, or adopt this backend in one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from .cli import cache_commands, doctor, inspection
from .jit.history import explanation
from .runtime.commands.doctor import SUMMARY
from .runtime.commands.exit_status import INTERRUPTED, Parser, finish
from .runtime.commands.own_commands import add_json, find_kernels
from .runtime.kernels import Kernels
from .version import LOADED


def main(arguments: Sequence[str], program: str = "kernelwheel") -> int:
    """Run one command and return its exit status; what fails is said in the name of a program."""
    return finish(program, lambda: run(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; what fails is raised."""
    if arguments and arguments[0] == "adopt":
        from .adoption import adopt  # runs setuptools, which the other commands do without

        return adopt.main(arguments[1:])
    args = command_line().parse_args(arguments)
    if args.command == "inspect":
        return inspection.run(args)
    kernels = _kernels(args.package)
    if kernels.installed.package.startswith("kernelwheel.") and getattr(args, "cache_command", "") == "explain":
        print(explanation(kernels.installed))
        return 0
    if args.command == "doctor":
        return doctor.run(args, kernels)
    return cache_commands.COMMANDS[args.cache_command].run(args, kernels)


def _kernels(name: str) -> Kernels:
    """Those of an installed package, or, as kernelwheel.NAME, what `kernelwheel.load` has compiled under a name."""
    if name.startswith("kernelwheel."):
        return Kernels(name, LOADED, Path(os.devnull, "loaded", "_native"))
    return find_kernels(name, _imported_version)


def _imported_version(package: str) -> dict[str, str]:
    """The version that a package itself says when it is imported, if it does."""
    import_module(package)
    own = getattr(sys.modules.get(f"{package}._kernelwheel.kernels"), "Kernels", None)
    return {package: own.constructed[package].installed.version} if own and package in own.constructed else {}


def command_line() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    parser = Parser(
        prog="python -m kernelwheel",
        description="Look after the kernels of a package built with this backend, or adopt the backend in a package.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for_doctor = commands.add_parser("doctor", help=SUMMARY, description=SUMMARY)
    inspect = commands.add_parser("inspect", help=inspection.SUMMARY, description=inspection.SUMMARY)
    inspection.add_arguments(inspect)
    cache = commands.add_parser("cache", help="manage the store of compiled kernels")
    of_cache = cache.add_subparsers(dest="cache_command", required=True, metavar="COMMAND")
    commands.add_parser("adopt", add_help=False, help="print the tables of pyproject.toml for a setup.py")
    about: dict[argparse.ArgumentParser, Callable[[argparse.ArgumentParser], None]] = {for_doctor: add_json}
    for name, each in cache_commands.COMMANDS.items():
        about[of_cache.add_parser(name, help=each.summary, description=each.summary)] = each.declare
    for command, declare in about.items():
        command.add_argument(
            "package", metavar="PACKAGE", help="an installed package, or kernelwheel.NAME, as load compiled NAME"
        )
        declare(command)
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # outside of `finish`
        sys.exit(INTERRUPTED)
