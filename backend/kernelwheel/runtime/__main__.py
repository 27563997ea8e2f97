"""`python -m <package>._kernelwheel COMMAND`: `doctor`, `cache path` and `cache clear`; the rest is kernelwheel's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from .commands import doctor, own_commands
from .commands.exit_status import INTERRUPTED, Parser, finish
from .commands.own_commands import find_kernels
from .compiler_process import kernelwheel
from .errors import INSTALL_COMPILER, IncompatibleArtifactError, command
from .machine.platforms import require_supported


def main(package: str, arguments: Sequence[str]) -> int:
    """Run one command for a package, and say what fails; returns the exit status."""
    return finish(package, lambda: run(package, arguments, command(package)))


def run(package: str, arguments: Sequence[str], program: str) -> int:
    """Run one command for a package and return its exit status; `program` is what its usage begins with."""
    parser = Parser(prog=program, description=f"the compiled kernels of {package}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("inspect", add_help=False, help="show what a wheel contains (by kernelwheel)")
    for_doctor = commands.add_parser("doctor", help=doctor.SUMMARY, description=doctor.SUMMARY)
    own_commands.add_json(for_doctor)
    cache = commands.add_parser("cache", help="manage the store of compiled kernels")
    of_cache = cache.add_subparsers(dest="cache_command", required=True, metavar="COMMAND")
    for name, each in own_commands.COMMANDS.items():
        each.declare(of_cache.add_parser(name, help=each.summary, description=each.summary))
    for name, summary in own_commands.OF_KERNELWHEEL.items():
        of_cache.add_parser(name, add_help=False, help=f"{summary} (by kernelwheel)")
    args, rest = parser.parse_known_args(arguments)
    if args.command == "cache":
        require_supported()
    if args.command == "inspect":
        return pass_on(package, ["inspect"], rest)
    if args.command == "cache" and args.cache_command in own_commands.OF_KERNELWHEEL:
        return pass_on(package, ["cache", args.cache_command], [package, *rest])
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    kernels = find_kernels(package)
    if args.command == "doctor":
        return doctor.run(args, kernels)
    return own_commands.COMMANDS[args.cache_command].run(args, kernels)


def pass_on(package: str, words: list[str], rest: list[str]) -> int:
    """Run a command of kernelwheel's, in the name of the package; returns its exit status."""
    folder = kernelwheel()
    if folder is None:
        raise IncompatibleArtifactError(
            f"{' '.join(words)} is a command of kernelwheel, which is not installed",
            required="kernelwheel, which compiles kernels, and reports on them",
            found=f"no kernelwheel in {sys.prefix}",
            remedies=[INSTALL_COMPILER],
        )
    sys.path.append(str(folder.parent))  # for kernelwheel's own loader, which need not be found otherwise
    return int(import_module("kernelwheel.__main__").main([*words, *rest], package))


if __name__ == "__main__":
    try:
        sys.exit(main(str(__package__).removesuffix("._kernelwheel"), sys.argv[1:]))
    except KeyboardInterrupt:  # outside of `finish`
        sys.exit(INTERRUPTED)
