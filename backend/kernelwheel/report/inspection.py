"""What is in a wheel or an exported file, and whether it fits this machine: `inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import host as hosts
from ..core.errors import IncompatibleArtifactError, UnreadableArtifactError
from ..core.manifest import Manifest
from ..core.verdict import Verdict, check
from ..store import archive


@dataclass(frozen=True)
class WheelView:
    """A wheel's manifest, what is wrong with its files, and what it is worth on this machine."""

    wheel: str
    manifest: Manifest
    damage: tuple[str, ...]
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "wheel": self.wheel,
            "manifest": self.manifest.to_json(),
            "damage": list(self.damage),
            "verdict": [mismatch._asdict() for mismatch in self.verdict.mismatches],
        }


def view_wheel(path: Path) -> WheelView:
    """Read a wheel, or an exported file, without unpacking it; check its libraries against its manifest, and that
    against this machine.

    Raises:
        IncompatibleArtifactError: the file holds no Artifact.
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
    return WheelView(path.name, packed.manifest, tuple(damage), check(packed.manifest, hosts.with_gpus(hosts.probe())))
