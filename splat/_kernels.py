"""The compiled kernels of this package: the one place that says which Artifact is ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ._kernelwheel.runtime import Kernels
from ._version import VERSION
from .ops import registration

KERNELS = Kernels("splat", VERSION, Path(__file__).parent / "_native")


def _require(device: torch.device) -> None:
    """Make the operators available on a device.

    Raises:
        IncompatibleArtifactError: the installed kernels are missing, damaged or do not fit this machine.
    """
    index = None if device.type == "cpu" else device.index
    if device.type == "cuda" and index is None:
        index = torch.cuda.current_device()
    KERNELS.require(device.type, index)
    with KERNELS.lock:  # of threads at their first call, one registers
        registration.register()


# What torch.compiler.assume_constant_result does, which would import torch's compiler, a second, with the package:
# torch.compile calls it while it traces, and leaves it out of the graph.
require: Callable[[torch.device], None] = _require
vars(_require)["_dynamo_marked_constant"] = True


def build_info() -> dict[str, Any]:
    """What the installed kernels are and what they are worth on this machine, as plain JSON values.

    Keys: `package`, `version`, `artifact` (its folder), `manifest`, `damage`, `host`, `verdict` (a list of
    mismatches; empty means usable) and `loaded` (the device types whose library is in this process). The GPUs are
    part of the verdict from the first CUDA call on; asking does not initialise CUDA.
    """
    return KERNELS.info()
