"""The Toolchain: torch's files, nvcc with its toolkit, the C++ compiler and compiler launchers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...project.build_platforms import Platform
from ...project.build_settings import BuildSettings
from ...runtime.machine.platforms import platform_name
from .cuda import CudaDecision
from .cxx import Cxx
from .launchers import Launchers
from .torch_files import Torch


@dataclass(frozen=True)
class Toolchain:
    """Everything that a compile needs from this machine, and the settings used to find it.

    `target` is the platform that is compiled for, if it is not this machine's.
    """

    torch: Torch
    cxx: Cxx
    cuda: CudaDecision
    cuobjdump: Path | None
    launchers: Launchers
    settings: BuildSettings
    target: Platform | None = None

    @property
    def platform(self) -> str:
        """The platform that is compiled for: `linux-x86_64`."""
        return self.target.name if self.target else platform_name()
