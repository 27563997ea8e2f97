"""The report of `inspect`: what a wheel or exported file contains, and whether it fits this machine."""

from __future__ import annotations

import argparse
import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

from ..runtime.artifact.compatible import Mismatch, check
from ..runtime.artifact.manifest import Manifest
from ..runtime.commands.doctor import verdict_text
from ..runtime.errors import IncompatibleArtifactError, UnreadableArtifactError, printable
from ..runtime.machine import host as hosts
from ..store import archive, manifest_file
from .manifest_text import manifest_text

SUMMARY = "show what a wheel contains and whether it fits this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `inspect`."""
    parser.add_argument("wheel", type=existing_file, metavar="WHEEL", help="the wheel file to inspect")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


class WheelView(NamedTuple):
    """A wheel or exported file, without having been unpacked."""

    manifest: Manifest
    damage: list[str]  # how its files differ from its manifest and RECORD
    mismatches: tuple[Mismatch, ...]  # what keeps it from being used here; empty if nothing does


def run(args: argparse.Namespace) -> int:
    """Print what the wheel contains; return 1 if it is damaged or does not fit."""
    view = view_wheel(args.wheel)
    if args.json:
        values = {
            "wheel": args.wheel.name,
            "manifest": json.loads(manifest_file.to_bytes(view.manifest)),
            "damage": view.damage,
            "verdict": [mismatch._asdict() for mismatch in view.mismatches],
        }
        print(json.dumps(values, indent=1))
    else:
        damaged = [f"damaged: {printable(damage)}" for damage in view.damage]
        lines = [printable(args.wheel.name), manifest_text(view.manifest), *damaged, verdict_text(view.mismatches)]
        print("\n".join(lines))
    return 1 if view.damage or view.mismatches else 0


def view_wheel(path: Path) -> WheelView:
    """Read a wheel or exported file without unpacking it.

    Its libraries are checked against its manifest, all files of a wheel against its RECORD, and the manifest against
    this machine.

    Raises:
        IncompatibleArtifactError: the file contains no Artifact.
    """
    damage = []
    with archive.opened(path) as packed:
        for library in packed.manifest.libraries:
            try:
                for _ in packed.blocks(library):
                    pass
            except UnreadableArtifactError:
                raise
            except IncompatibleArtifactError as error:
                damage.append(error.found.removeprefix(f"{path}: "))
        damage += packed.record_damage()
    return WheelView(packed.manifest, damage, _mismatches(packed.manifest))


def _mismatches(manifest: Manifest) -> tuple[Mismatch, ...]:
    """What it does not fit of this machine; a release is inspected where there is no torch, too."""
    if importlib.util.find_spec("torch") is None:
        needs = f"torch {manifest.requires.torch}"
        return (Mismatch("torch", needs, "no torch in this Python", "pip install torch", "cpu", False),)
    return check(manifest, hosts.with_gpus(hosts.probe()).asked_for(manifest.cpu))


def existing_file(text: str) -> Path:
    """An argument that names a file, as an argparse type."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return path
