"""The Toolchain: torch's files, nvcc with its toolkit, the C++ compiler and compiler launchers.

Everything is read from files and `--version` output. torch is not imported, and GPUs are never queried: the hardware of
the build machine says nothing about where the wheel will run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...project.build_settings import NATIVE, BuildSettings
from ...runtime.host import python_abi
from ...runtime.platforms import platform_name, require_supported
from ...runtime.record import remembered
from .cuda import CudaDecision, decide_cuda
from .cxx import Cxx, find_cxx
from .launchers import Launchers, find_launchers
from .nvcc import LIKE_TORCH, NvccCandidate, NvccLimits, find_cuobjdump
from .torch_files import Torch, find_torch
from .torch_needs import cuda_folders, python_folders

if TYPE_CHECKING:
    from ..cross.target_platform import CrossTarget


@dataclass(frozen=True)
class Toolchain:
    """Everything that `compile()` needs from this machine, and the settings used to find it."""

    torch: Torch
    cxx: Cxx
    cuda: CudaDecision
    cuobjdump: Path | None
    launchers: Launchers
    settings: BuildSettings
    cross: CrossTarget | None = None

    @property
    def platform(self) -> str:
        """The platform that is compiled for: `linux-x86_64`."""
        return self.cross.platform.name if self.cross else platform_name()

    @remembered
    def torch_headers(self) -> tuple[Path, ...]:
        """The header folders that all of torch's headers need besides their own; raises as `cuda_folders`.

        Those of CUDA libraries are the same on every platform.
        """
        site = self.cross.site if self.cross and self.cross.site else self.torch.root.parent
        return cuda_folders(self.cuda.nvcc, site) if self.cuda.nvcc else ()

    @property
    def python_headers(self) -> tuple[Path, ...]:
        """The header folders of the Python that modules are for; raises as `python_folders`."""
        return self.cross.python.include if self.cross and self.cross.python else python_folders()

    @property
    def python_abi(self) -> str:
        """The ABI of that Python, `cp312`."""
        return self.cross.python.abi if self.cross and self.cross.python else python_abi()


def find_toolchain(
    settings: BuildSettings,
    environ: Mapping[str, str],
    nvccs: Iterable[NvccCandidate] | None = None,
    limits: NvccLimits = LIKE_TORCH,
) -> Toolchain:
    """Find everything that the settings require.

    Args:
        settings: the effective settings.
        environ: the process environment, for PATH.
        nvccs: the result of `look_for_nvcc` with the same limits; None: it is called here.
        limits: which majors of nvcc will do.

    Raises:
        BuildError: something is missing or does not fit; lists the places searched and the remedies.
    """
    require_supported()
    platform = None
    if settings.platform not in (NATIVE, platform_name()):
        from ..cross.target_platform import platform_of

        platform = platform_of(settings)
    torch = find_torch()
    cuda = decide_cuda(settings, torch, environ, sys.path, nvccs, limits)
    cross = None
    if platform:
        from ..cross.target_platform import find_target, for_target

        cross = find_target(settings, platform, torch)
        cuda = replace(cuda, nvcc=for_target(cuda.nvcc, settings, platform)) if cuda.nvcc else cuda
    cuobjdump = find_cuobjdump(cuda.nvcc, torch.root.parent, environ) if cuda.nvcc else None
    launchers = find_launchers(settings, environ, cuda.nvcc is not None and not cuda.nvcc.clang)
    cxx = find_cxx(settings, environ, cuda.nvcc, platform)
    return Toolchain(torch, cxx, cuda, cuobjdump, launchers, settings, cross)
