"""The command `splat cache`: manage the store of compiled kernels."""

from __future__ import annotations

import argparse

from .._kernels import KERNELS
from .._kernelwheel.cli import cache_commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands of `cache`."""
    cache_commands.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run a subcommand; return 0, or 1 for a finding."""
    return cache_commands.run(args, KERNELS)
