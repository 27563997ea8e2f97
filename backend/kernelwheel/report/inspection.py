"""The report of `inspect`: what a wheel or exported file contains, and whether it fits this machine."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import host as hosts
from ..core.errors import IncompatibleArtifactError, UnreadableArtifactError
from ..core.manifest import Manifest
from ..core.verdict import Verdict, check
from ..store import archive
from .cache_arguments import existing_file
from .presentation import manifest_text, verdict_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `inspect`."""
    parser.add_argument("wheel", type=existing_file, metavar="WHEEL", help="the wheel file to inspect")
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


@dataclass(frozen=True)
class WheelView:
    """A wheel's manifest, any damage to its files, and its Verdict on this machine."""

    wheel: str
    manifest: Manifest
    damage: tuple[str, ...]
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """The view as plain JSON values."""
        return {
            "wheel": self.wheel,
            "manifest": self.manifest.to_json(),
            "damage": list(self.damage),
            "verdict": [mismatch._asdict() for mismatch in self.verdict.mismatches],
        }


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
    return WheelView(path.name, packed.manifest, tuple(damage), check(packed.manifest, hosts.with_gpus(hosts.probe())))
