"""The compiled kernels of this package, and how they are loaded for a device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from ._kernelwheel import MAIN, Kernels
from ._schemas import define_operators
from ._version import VERSION

KERNELS = Kernels("splat", VERSION, Path(__file__).parent / "_native")
define_operators()


def _require(device: torch.device, part: str = MAIN) -> None:
    """Make the operators of a part available on a device, with their gradients and for tracing.

    Raises:
        IncompatibleArtifactError: the installed kernels are missing, damaged or do not fit this machine.
    """
    _load(device, part)
    _register()


@functools.cache
def _register() -> None:
    from .ops import registration  # not at the top: a call that only computes values does without

    with KERNELS.lock:  # several threads may make their first call at once; one registers
        registration.register()


# This is what torch.compiler.assume_constant_result does, but that would import torch's compiler with the package,
# which takes a second. torch.compile calls the function while it traces, and leaves it out of the graph.
require: Callable[..., None] = _require
vars(_require)["_dynamo_marked_constant"] = True


def require_for(*inputs: Tensor | None, part: str = MAIN) -> None:
    """Make the operators of a part available for a call with these inputs; the first is a tensor on the call's device.

    The parts are those of csrc/CMakeLists.txt.

    Registering gradients and shape functions takes longer than loading the kernels, so it waits for a call that is
    differentiated or traced.

    Raises:
        IncompatibleArtifactError: as `require`.
    """
    tensors = [tensor for tensor in inputs if tensor is not None]
    device = tensors[0].device
    if _runs_as_it_is(tensors):
        _load(device, part)
    else:
        require(device, part)


def _runs_as_it_is(tensors: list[Tensor]) -> bool:
    """Whether a call only computes values: no gradient will be asked for, and nothing traces it."""
    if torch.compiler.is_compiling() or (torch.is_grad_enabled() and any(each.requires_grad for each in tensors)):
        return False
    return all(type(each) in (Tensor, Parameter) for each in tensors)


def _load(device: torch.device, part: str) -> None:
    index = None if device.type == "cpu" else device.index
    if device.type == "cuda" and index is None:
        index = torch.cuda.current_device()
    KERNELS.require(device.type, index, part)


def build_info() -> dict[str, Any]:
    """What the installed kernels are and whether they work on this machine, as plain JSON values.

    Keys: `package`, `version`, `artifact` (its folder), `manifest`, `damage`, `host`, `verdict` (a list of
    mismatches; empty means usable) and `loaded` (the device types whose library is loaded in this process). The GPUs
    count towards the verdict after the first CUDA call; this function does not initialise CUDA.
    """
    return KERNELS.info()
