"""The command line, `splat COMMAND`.

Exit status: 0 for success, 1 for a failure or a finding, 2 for wrong usage, 130 if interrupted, 141 if nobody reads
the output any more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from . import __version__
from ._kernelwheel.commands.exit_status import finish
from .commands.memory import NotEnoughMemory, enough_memory
from .commands.printing import CommandParser

# Each is the module NAME_command in `commands`, which is imported if it is the one: most import torch, for a second.
COMMANDS = {
    "render": "render a picture of a scene",
    "view": "look at scenes in a browser",
    "fit": "fit a scene to pictures",
    "convert": "write scenes in another format, whole or in part, turned, moved, together",
    "export": "write a scene as a page that draws it in the reader's browser",
    "info": "show what a scene holds",
    "doctor": "show what is installed, what this machine has, and whether they fit",
    "inspect": "show what a wheel contains and whether it fits this machine",
    "cache": "manage the store of compiled kernels",
}

# Those are the loader's.
OF_KERNELS = ("doctor", "inspect", "cache")

WAITING = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
"""Variables by which users say how threads wait (OpenMP 5.2, "OMP_WAIT_POLICY"; libgomp's manual)."""


def let_threads_wait() -> None:
    """Make threads that wait give up their core, unless the user says how they wait; before torch is imported.

    By default they keep it busy: where another program runs, what they wait for may need that very core, and a fit
    takes six times as long.
    """
    if not WAITING.intersection(os.environ):
        os.environ["OMP_WAIT_POLICY"] = "passive"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    return finish("splat", lambda: _run(sys.argv[1:] if argv is None else argv), expected=(NotEnoughMemory,))


def _run(argv: Sequence[str]) -> int:
    parser = CommandParser(prog="splat", description="3D Gaussian splatting for PyTorch")
    parser.add_argument("--version", action="version", version=f"splat {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {name: commands.add_parser(name, help=text, description=text) for name, text in COMMANDS.items()}
    let_threads_wait()
    with enough_memory(lambda: command, "free some, or use a machine with more"):
        command = next((word for word in argv if word in COMMANDS), "")
        if command in OF_KERNELS:
            return int(import_module(f"{__package__}._kernelwheel.__main__").run("splat", argv, "splat"))
        if command:
            module = import_module(f"{__package__}.commands.{command}_command")
            module.add_arguments(parsers[command])
        args = parser.parse_args(argv)
        return int(module.run(args))
