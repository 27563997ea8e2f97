"""The command-line arguments of `cache`: its subcommands and their options."""

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

    add("list", "list the entries of all versions, and whether they fit this machine")
    add("path", "print the folder of the user's store")
    for name, summary in (
        ("build", "compile kernels ahead of the first call, if none fit; needs no GPU"),
        ("explain", "explain why no kernels were found: show the closest match and how it differs"),
    ):
        command = add(name, summary)
        command.add_argument(
            "--archs",
            type=_archs,
            metavar="LIST",
            help="CUDA architectures, as in TORCH_CUDA_ARCH_LIST; default: the visible GPUs, or else a wheel's list",
        )
        command.add_argument(
            "--cuda",
            choices=("on", "off"),
            help="with or without CUDA kernels; default: on if torch has CUDA and the option cuda is not off",
        )
    add("verify", "verify every entry byte for byte, and quarantine damaged ones")
    prune = add(
        "prune",
        "remove damaged entries, leftovers and the entries that the options select; default: those of other versions",
    )
    prune.add_argument("--older-than", type=_number, metavar="DAYS", help="remove entries older than this")
    prune.add_argument(
        "--max-size", type=_number, metavar="MB", help="remove the oldest entries until the rest fit in this size"
    )
    prune.add_argument("--foreign-versions", action="store_true", help="remove entries of other versions")
    prune.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    clear = add("clear", "remove the entries of this version")
    clear.add_argument("--all-versions", action="store_true", help="remove those of all other versions too")
    export = add("export", "export the kernels that this machine uses to a file")
    export.add_argument("file", type=Path, metavar="FILE")
    export.add_argument(
        "--fingerprint", type=_fingerprint, metavar="PREFIX", help="export the entry with this fingerprint instead"
    )
    imports = add("import", "import kernels from an exported file or a wheel into the user's store")
    imports.add_argument("file", type=existing_file, metavar="FILE")


def _archs(text: str) -> str:
    try:
        architectures.parse(text, "--archs")
    except SettingsError as error:
        raise argparse.ArgumentTypeError(f"{error.problem}; {error.remedies[0]}") from None
    return text


def _number(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative number")
    return float(text)


def _fingerprint(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{4,64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a fingerprint prefix: 4 to 64 characters from 0-9 and a-f")
    return text


def existing_file(text: str) -> Path:
    """An argument that names a file, as an argparse type."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return path
