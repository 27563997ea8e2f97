"""What the compiler is asked, and what it answers: with the manifest, the contract between loader and compiler.

Both are one line of JSON, see compiler/worker.py. The contract's number rises when a request's meaning changes: a
compiler serves all earlier numbers, with manifests that the loader of that number reads, and refuses later ones. It is
the minor number of kernelwheel's releases, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..artifact.content import Content
from ..record import Record
from ..settings import Settings

CONTRACT = 1


class CompileRequest(Record):
    """A request for an Artifact."""

    # what to compile, and how, with the options for CUDA. The Artifact's is equal to it; if it has no CUDA kernels,
    # then without these.
    content: Content
    sources: Path  # the folder with CMakeLists.txt, or with the files of the extensions
    settings: Settings  # the effective options, in which `cuda` and `archs` say what this request is for
    # those of the package's own table, for the options that only the compiler knows; None if `settings` has all of
    # them, as for a wheel
    options: Mapping[str, Any] | None
    # the CUDA version that the driver of this machine supports, if the kernels must run here
    driver: tuple[int, int] | None = None
    # the folder of the wheel's own Artifact, if its CPU libraries are taken where they are the same
    wheel: Path | None = None
    # the descriptor of the store's lock, which the asking process holds; None: the compiler takes it
    lock: int | None = None
    scratch: Path | None = None  # the folder for an Artifact that cannot be stored; None: then there is none

    def to_json(self) -> dict[str, Any]:
        """The request as plain JSON values."""
        values = {name: str(each) if isinstance(each, Path) else each for name, each in self._asdict().items()}
        return {"contract": CONTRACT, **values, "settings": self.settings.to_json()}


class CompileAnswer(Record):
    """The Artifact for a request."""

    folder: Path  # where it is
    compiled: bool  # whether it was compiled just now
    decisions: Mapping[str, Any]  # the reasons for what this request asked for, as in a manifest's `built_with`
    # for a wheel, what its packing needs of what was compiled with: `components`, see compiler/component_facts.py, and
    # `torch_libraries`, the files of the libraries that torch brings
    packing: Mapping[str, Any] = {}  # frozen as it is: a Record
