"""The command `splat inspect`: what a wheel contains, and whether it fits this machine."""

from __future__ import annotations

import argparse

from .._kernelwheel.cli import inspection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `inspect`."""
    inspection.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print what the wheel contains; return 1 if it is damaged or does not fit."""
    return inspection.run(args)
