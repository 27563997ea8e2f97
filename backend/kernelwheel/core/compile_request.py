"""What the compiler program is asked, and what it answers: with the manifest, the contract between the two programs.

Both are one line of JSON, see compiler/program.py. A request is complete: the compiler reads no pyproject.toml, asks
for no GPU, and takes no option from its environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .package import PackageFacts
from .record import Record
from .settings import Settings


class CompileRequest(Record):
    """A request for an Artifact.

    Attributes:
        facts: the package; its extensions' files are located.
        version: the package's version.
        sources: the folder with CMakeLists.txt, or with the files of the extensions.
        settings: the effective options, in which `cuda` and `archs` say what this request is for.
        driver: the CUDA version that the driver of this machine supports, if the kernels must run here.
        wheel: the folder of the wheel's own Artifact, if its CPU libraries are taken where they are the same.
        lock: the descriptor of the store's lock, which the asking process holds; None: the compiler takes it.
        scratch: the folder for an Artifact that cannot be stored; None: then there is none.
    """

    facts: PackageFacts
    version: str
    sources: Path
    settings: Settings
    driver: tuple[int, int] | None = None
    wheel: Path | None = None
    lock: int | None = None
    scratch: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The request as plain JSON values."""
        paths = {name: str(path) if path else None for name, path in self._paths().items()}
        return {**self._asdict(), **paths, "facts": self.facts.to_json(), "settings": self.settings.to_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CompileRequest:
        """The request that `to_json` described."""
        typed = {
            "facts": PackageFacts.from_json(values["facts"]),
            "settings": Settings.from_json(values["settings"]),
            "driver": tuple(values["driver"]) if values["driver"] else None,
            **{name: Path(values[name]) if values[name] else None for name in ("sources", "wheel", "scratch")},
        }
        return cls(**{**values, **typed})

    def _paths(self) -> dict[str, Path | None]:
        return {"sources": self.sources, "wheel": self.wheel, "scratch": self.scratch}


class CompileAnswer(Record):
    """The Artifact for a request.

    Attributes:
        folder: where it is.
        compiled: whether it was compiled just now.
        decisions: the reasons for what this request asked for, as in a manifest's `built_with`.
    """

    folder: Path
    compiled: bool
    decisions: Mapping[str, Any]
