"""The option `--port` of commands that open a page."""

from __future__ import annotations

import argparse


def add_port_argument(parser: argparse.ArgumentParser, which: str) -> None:
    """Declare the option; `which` port it is."""
    parser.add_argument(
        "--port", type=_port, default=8080, metavar="0-65535", help=f"{which}; 0 takes any free one; default: 8080"
    )


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"a number from 0 to 65535 is required, found {text!r}")
    return int(text)
