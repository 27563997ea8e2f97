"""The command line, `python -m splat COMMAND`.

Exit status: 0 for success, 1 for a failure or a finding, 2 for wrong usage, 130 if interrupted, 141 if nobody reads
the output any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import __version__
from ._kernelwheel.cli.exit_status import finish
from .commands import (
    cache_command,
    convert_command,
    doctor_command,
    fit_command,
    info_command,
    inspect_command,
    render_command,
    view_command,
)
from .commands.memory import NotEnoughMemory, enough_memory
from .commands.printing import CommandParser

COMMANDS = {
    "render": (render_command, "render a picture of a scene"),
    "view": (view_command, "look at scenes in a browser"),
    "fit": (fit_command, "fit a scene to pictures"),
    "convert": (convert_command, "write a scene in another format, whole or a part of it"),
    "info": (info_command, "show what a scene holds"),
    "doctor": (doctor_command, "show what is installed, what this machine has, and whether they fit"),
    "inspect": (inspect_command, "show what a wheel contains and whether it fits this machine"),
    "cache": (cache_command, "manage the store of compiled kernels"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    return finish("splat", lambda: _run(argv), expected=(NotEnoughMemory,))


def _run(argv: Sequence[str] | None) -> int:
    parser = CommandParser(prog="splat", description="3D Gaussian splatting for PyTorch")
    parser.add_argument("--version", action="version", version=f"splat {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    args = parser.parse_args(argv)
    with enough_memory(lambda: args.command, "free some, or use a machine with more"):
        return int(COMMANDS[args.command][0].run(args))
