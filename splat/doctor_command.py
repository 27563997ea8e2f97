"""The command `python -m splat doctor`: what is installed, what this machine has, and whether they fit."""

from __future__ import annotations

import argparse
import json

from ._kernels import KERNELS
from ._kernelwheel import views


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `doctor`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the view; 1 where the installed kernels are damaged or do not fit."""
    view = views.view_machine(KERNELS, {})
    print(json.dumps(view, indent=1) if args.json else views.machine_text(view, KERNELS))
    return 1 if KERNELS.damage or KERNELS.verdict.mismatches else 0
