"""What one default call of `rasterization` launches on a GPU, forward and backward, and how often the host waits.

Both packages run on the CPU, with the operations of torch recorded: splat with its CPU operators, gsplat 1.5.3 with
stand-ins for its CUDA functions (launches_gsplat.py). What those operators and functions launch themselves stands in
two tables, read from their sources.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

from gpu_scenes import Arguments, Rasterization, differentiate, render, synthetic
from launches_gsplat import CudaFunctions
from torch.utils._python_dispatch import TorchDispatchMode

import splat


class Launches(NamedTuple):
    """Of one call."""

    own: int  # kernels and fills
    torch: int  # operations of torch that run on the GPU, each in at least one launch
    waits: int  # of the host for the GPU


class Direction(NamedTuple):
    """Of one package."""

    forward: Launches
    backward: Launches
    operations: Counter[str]  # torch's, of both


# csrc/cuda/sort_kernels.cuh, of what does not fit into one block: a radix sort is a histogram, then a kernel for each
# pass over 8 bits.
SORT, SORT_PASS = 1, 1
# CUB: a prefix sum is a kernel that prepares and one that scans; a radix sort is two fills, a histogram and a prefix
# sum, then a fill and a kernel for each pass over 8 bits.
CUB_SUM = 2
CUB_SORT, CUB_SORT_PASS = 4, 2

# By operator: what csrc/operators/cuda_*.cpp launch without deterministic algorithms, backgrounds and gradients of
# poses; and their waits. A full HD image has 8160 tiles, which are 13 bits.
OUR_OPERATORS = {
    "project": (2, 0),  # with a fill
    "project_backward": (1, 0),
    # Fill, count_tiles, emit_pairs, find_offsets; the copy of the totals is the wait.
    "intersect": (4 + (SORT + 4 * SORT_PASS) + (SORT + 2 * SORT_PASS), 1),
    # The same with count_shown in place of count_tiles, and pack.
    "pack": (4 + 1 + (SORT + 4 * SORT_PASS) + (SORT + 2 * SORT_PASS), 1),
    "pack_backward": (1, 0),
    "rasterize": (2, 0),  # stage_gaussians first
    "rasterize_backward": (2, 0),  # stage_gaussians, differentiate
}

# The same of gsplat's csrc, by function. cumsum is torch's, which is CUB's prefix sum; zeros are fills.
GSPLAT_FUNCTIONS = {
    # Projection.cpp, projection_ewa_3dgs_packed_fwd: the kernel twice, a cumsum between them and its last element.
    "projection_ewa_3dgs_packed_fwd": (2 + CUB_SUM, 1),
    "projection_ewa_3dgs_packed_bwd": (1 + 3, 0),  # the gradients of means, quats and scales are zeroed
    "spherical_harmonics_fwd": (1, 0),
    "spherical_harmonics_bwd": (1 + 2, 0),  # two gradients are zeroed
    # Intersect.cpp, intersect_tile: the kernel twice, a cumsum between them and its last element; 46 bits are sorted.
    "intersect_tile": (2 + CUB_SUM + (CUB_SORT + 6 * CUB_SORT_PASS), 1),
    "intersect_offset": (1, 0),
    "rasterize_to_pixels_3dgs_fwd": (1, 0),
    "rasterize_to_pixels_3dgs_bwd": (1 + 4, 0),  # four gradients are zeroed
}

# Of torch: what allocates, what makes another view or a number on the host, and `ones_like`, which is the timing's own.
NO_LAUNCH = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "_unsafe_view", "scalar_tensor",
    "ones_like",
}  # fmt: skip
# What gives the host a number: a size, a value, or whether a matrix could be inverted.
WAITING = {"nonzero", "_local_scalar_dense", "_linalg_check_errors"}


class Recorder(TorchDispatchMode):
    """Adds up what is launched while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.total = Launches(0, 0, 0)
        self.operations: Counter[str] = Counter()

    def add(self, own: int, waits: int) -> None:
        """What an operator or a function launches itself."""
        self.total = self.total._replace(own=self.total.own + own, waits=self.total.waits + waits)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One operation, before it runs."""
        library, name = func.namespace, func.overloadpacket.__name__
        if library == "splat":
            if name not in OUR_OPERATORS:
                raise SystemExit(f"launches.py does not know what splat::{name} launches; add it to OUR_OPERATORS")
            self.add(*OUR_OPERATORS[name])
        elif not func.is_view and name not in NO_LAUNCH:
            self.operations[name] += 1
            waits = self.total.waits + (name in WAITING)
            self.total = self.total._replace(torch=self.total.torch + 1, waits=waits)
        return func(*args, **(kwargs or {}))


def of_splat() -> Direction:
    """Of `splat.rasterization`."""
    # On a GPU the values of cameras are not checked.
    with mock.patch("splat.ops.arguments._check_camera_values"):
        return _record(splat.rasterization, Recorder())


def of_gsplat() -> Direction:
    """Of `gsplat.rasterization`, whose package must be installed."""
    recorder = Recorder()
    backend = ModuleType("gsplat.cuda._backend")
    backend.__dict__["_C"] = CudaFunctions(lambda name: recorder.add(*GSPLAT_FUNCTIONS[name]))
    with mock.patch.dict(sys.modules, {"gsplat.cuda._backend": backend}):
        return _record(importlib.import_module("gsplat").rasterization, recorder)


def _record(rasterization: Rasterization, recorder: Recorder) -> Direction:
    scene = _default_call()
    with recorder:
        render(rasterization, scene)
    forward = recorder.total
    recorder.total = Launches(0, 0, 0)
    recorder.operations.clear()
    with recorder:  # forward, and then backward
        differentiate(rasterization, scene)
    both = recorder.total
    backward = Launches(*(b - f for b, f in zip(both, forward, strict=True)))
    return Direction(forward, backward, recorder.operations)


def _default_call() -> Arguments:
    arguments = synthetic(2000, 101, 67, "cpu")
    del arguments["packed"]
    return arguments
