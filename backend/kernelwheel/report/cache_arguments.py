"""The command line of `cache`: its subcommands and their options."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ..core import architectures
from ..core.errors import SettingsError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands of `cache` and their options."""
    commands = parser.add_subparsers(dest="cache_command", required=True, metavar="COMMAND")

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        return command

    add("list", "the entries of all versions, and whether they fit this machine")
    add("path", "the folder of the user's store")
    for name, summary in (
        ("build", "compile what a call would have to compile, GPU or not"),
        ("explain", "say what is nearest to the kernels that were not found, and what differs"),
    ):
        command = add(name, summary)
        command.add_argument(
            "--archs",
            type=_archs,
            metavar="LIST",
            help="as TORCH_CUDA_ARCH_LIST; default: the GPUs seen, else the list of a wheel",
        )
        command.add_argument("--cuda", choices=("on", "off"), help="default: as torch, or off by the setting")
    add("verify", "check every entry, byte for byte; damaged ones are put away")
    prune = add(
        "prune",
        "remove what is damaged or left over, and what the options name; without options, entries of other versions",
    )
    prune.add_argument("--older-than", type=_number, metavar="DAYS", help="entries made longer ago")
    prune.add_argument("--max-size", type=_number, metavar="MB", help="the oldest entries, until the rest fits")
    prune.add_argument("--foreign-versions", action="store_true", help="entries of other versions")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    clear = add("clear", "remove the entries of this version")
    clear.add_argument("--all-versions", action="store_true", help="and those of all others")
    export = add("export", "write the kernels that this machine uses to a file")
    export.add_argument("file", type=Path, metavar="FILE")
    export.add_argument("--fingerprint", type=_fingerprint, metavar="PREFIX", help="those of another entry")
    imports = add("import", "put the kernels of an exported file or of a wheel into the user's store")
    imports.add_argument("file", type=_existing, metavar="FILE")


def _archs(text: str) -> str:
    try:
        architectures.parse(text, "--archs")
    except SettingsError as error:
        raise argparse.ArgumentTypeError(f"{error.problem}; {error.remedies[0]}") from None
    return text


def _number(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return float(text)


def _fingerprint(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{4,64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the start of a fingerprint: 4 to 64 of 0-9 and a-f")
    return text


def _existing(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return path
