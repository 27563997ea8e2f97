"""What a decision depends on besides the available Artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ..core.compatible import Wanted
from ..core.errors import IncompatibleArtifactError
from ..store.artifact import Artifact


class Terms(Protocol):
    """What a decision depends on; each is read only if it matters, as some are slow."""

    @property
    def package(self) -> str:
        """The package's name."""

    @property
    def folder(self) -> Path:
        """Where the package's own Artifact is, or would be."""

    @property
    def artifact(self) -> Artifact | None:
        """The package's own Artifact, from its wheel; None if it has none."""

    @property
    def damage(self) -> IncompatibleArtifactError | None:
        """What is wrong with its own Artifact; if anything is, nothing else is tried."""

    def wanted_of(self, artifact: Artifact) -> Wanted:
        """What an Artifact is checked against."""

    @property
    def jit(self) -> str:
        """The value of the option `jit`."""

    @property
    def jit_origin(self) -> str:
        """Where `jit` was set."""

    @property
    def cuda_off(self) -> str:
        """Where the option `cuda` was set to off; empty if it was not."""

    @property
    def needs_cuda(self) -> bool:
        """Whether it cannot be built without CUDA."""

    @property
    def untargeted(self) -> bool:
        """Whether neither the option `cuda` nor `archs` says what to compile for without a GPU."""

    @property
    def has_sources(self) -> bool:
        """Whether there are sources to compile."""
