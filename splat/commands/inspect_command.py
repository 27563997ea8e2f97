"""The command `python -m splat inspect`: what a wheel contains, and whether it fits this machine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .._kernelwheel.report.inspection import view_wheel
from .._kernelwheel.report.presentation import manifest_text, verdict_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `inspect`."""
    parser.add_argument("wheel", type=_file, metavar="WHEEL", help="the wheel file to inspect")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print what the wheel contains; return 1 if it is damaged or does not fit."""
    view = view_wheel(args.wheel)
    if args.json:
        print(json.dumps(view.to_json(), indent=1))
    else:
        print(view.wheel)
        print(manifest_text(view.manifest))
        for damage in view.damage:
            print(f"damaged: {damage}")
        print(verdict_text(view.verdict.mismatches))
    return 1 if view.damage or view.verdict.mismatches else 0


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return path
