"""The command `splat doctor`: what is installed, what this machine has, and whether they fit."""

from __future__ import annotations

import argparse

from .._kernels import KERNELS
from .._kernelwheel.cli import doctor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `doctor`."""
    doctor.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the page; return 1 if something needs attention."""
    return doctor.run(args, KERNELS)
