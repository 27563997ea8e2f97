"""The command line, `python -m splat COMMAND`. Exit status 0 good, 1 a finding, 2 wrong usage."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import __version__, cache_command, doctor_command, fit_command, inspect_command, render_command
from ._kernelwheel.errors import KernelWheelError

COMMANDS = {
    "render": (render_command, "render a scene to a picture"),
    "fit": (fit_command, "make a scene from pictures"),
    "doctor": (doctor_command, "say what is installed, what this machine has, and whether they fit"),
    "inspect": (inspect_command, "say what a wheel holds and whether it fits this machine"),
    "cache": (cache_command, "look after the store of compiled kernels, and fill it"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="splat", description="3D Gaussian splatting for PyTorch")
    parser.add_argument("--version", action="version", version=f"splat {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    args = parser.parse_args(argv)
    try:
        return int(COMMANDS[args.command][0].run(args))
    except KernelWheelError as error:
        print(f"splat: {error}", file=sys.stderr)
        return 1
