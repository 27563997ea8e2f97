"""The command `python -m splat doctor`: what is installed, what this machine has, and whether they fit."""

from __future__ import annotations

import argparse
import json
import os
import sys

from .._kernels import KERNELS
from .._kernelwheel.report import doctor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `doctor`."""
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the page; return 1 if something needs attention."""
    view = doctor.examine(KERNELS, os.environ, sys.path)
    print(json.dumps(view, indent=1) if args.json else doctor.page(view, KERNELS))
    return 1 if view["findings"] else 0
