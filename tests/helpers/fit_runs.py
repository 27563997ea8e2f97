"""`splat fit`, run in this process, with few steps."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from splat.commands import fit_command


def run(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser(prog="splat fit")
    fit_command.add_arguments(parser)
    return fit_command.run(parser.parse_args([str(argument) for argument in (*arguments, "--device", "cpu")]))


SMALL = ("--steps", "40", "--gaussians", "300", "--sh-degree", "1")


def interrupted_once(**_: bool) -> Any:
    from contextlib import nullcontext

    return nullcontext(lambda: True)
