"""What a machine can compile with: torch's files, nvcc and its toolkit, the host C++ compiler.

Everything is read from files and `--version` output. torch is not imported, and no GPU is ever asked for: what a
builder has in its slots says nothing about where the wheel will run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..core.remembered import remembered
from ..core.settings import Settings
from .binding import header_folders
from .cuda import CudaDecision, decide_cuda
from .cxx import Cxx, find_cxx
from .launchers import Launchers, find_launchers
from .nvcc import NvccCandidate, find_cuobjdump
from .torch_files import Torch, find_torch


@dataclass(frozen=True)
class Toolchain:
    """All that `compile()` needs of this machine, and the settings that it was looked for with."""

    torch: Torch
    cxx: Cxx
    cuda: CudaDecision
    cuobjdump: Path | None
    launchers: Launchers
    settings: Settings

    @remembered
    def module_headers(self) -> tuple[Path, ...]:
        """The folders of headers that a module of Python needs beside torch's own; raises as `header_folders`."""
        return header_folders(self.cuda.nvcc, self.torch.root.parent)


def find_toolchain(
    settings: Settings, environ: Mapping[str, str], nvccs: Iterable[NvccCandidate] | None = None
) -> Toolchain:
    """Look for everything that the settings ask for.

    Args:
        settings: the effective settings.
        environ: the process environment, for PATH.
        nvccs: what `look_for_nvcc` found; None: it is called here.

    Raises:
        BuildError: for whatever is missing or does not fit, with the places that were looked at and the ways out.
    """
    torch = find_torch()
    cuda = decide_cuda(settings, torch, environ, sys.path, nvccs)
    cuobjdump = find_cuobjdump(cuda.nvcc, torch.root.parent, environ) if cuda.nvcc else None
    launchers = find_launchers(settings, environ, cuda.nvcc is not None)
    return Toolchain(torch, find_cxx(settings, environ, cuda.nvcc), cuda, cuobjdump, launchers, settings)
