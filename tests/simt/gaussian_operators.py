"""The operators of single Gaussians as their CUDA implementations have them, with the kernels executed on the CPU.

The arguments and results are those of torch.ops.splat. Shapes: I images, N Gaussians, K coefficients.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Arguments = dict[str, Any]

# As csrc/cuda/project_kernel.cuh has them: a block's threads.
PROJECT_BACKWARD_THREADS = 128


def project(kernels: ModuleType, arguments: Arguments) -> tuple[Tensor, ...]:
    """splat::project of csrc/cuda/gaussians.cu."""
    shape = (len(arguments["viewmats"]), len(arguments["means"]))
    out = {
        "radii": _garbage((*shape, 2), np.int32),
        "means2d": _garbage((*shape, 2)),
        "depths": _garbage(shape),
        "conics": _garbage((*shape, 3)),
        "compensations": _garbage(shape),
        "colors": _garbage((0 if arguments["coeffs"] is None else shape[0], shape[1], 3)),
    }
    kernels.project(_arrays(arguments), out)
    return tuple(torch.from_numpy(array) for array in out.values())


def project_backward(kernels: ModuleType, arguments: Arguments) -> tuple[Tensor, ...]:
    """splat::project_backward of csrc/cuda/gaussians.cu."""
    images, count = len(arguments["viewmats"]), len(arguments["means"])
    whole = arguments["covars"] is not None
    out = {
        "means": _garbage((count, 3)),
        "quats": _garbage((0 if whole else count, 4)),
        "scales": _garbage((0 if whole else count, 3)),
        "covars": _garbage((count if whole else 0, 6)),
    }
    v_coeffs = _garbage((0,) if arguments["coeffs"] is None else arguments["coeffs"].shape)
    pose_sums = _garbage((-(-count // PROJECT_BACKWARD_THREADS), images, 12))
    v_viewmats = _garbage((images, 4, 4))
    kernels.project_backward(_arrays(arguments), out, v_coeffs, pose_sums)
    kernels.sum_poses(pose_sums, v_viewmats)
    return tuple(torch.from_numpy(array) for array in (*out.values(), v_coeffs, v_viewmats))


def spherical_harmonics(kernels: ModuleType, arguments: Arguments) -> tuple[Tensor, ...]:
    """splat::spherical_harmonics of csrc/cuda/gaussians.cu."""
    colors = _garbage(arguments["directions"].shape)
    kernels.spherical_harmonics(_arrays(arguments), colors)
    return (torch.from_numpy(colors),)


def spherical_harmonics_backward(kernels: ModuleType, arguments: Arguments) -> tuple[Tensor, ...]:
    """splat::spherical_harmonics_backward of csrc/cuda/gaussians.cu."""
    v_directions, v_coeffs = (_garbage(arguments[name].shape) for name in ("directions", "coeffs"))
    kernels.spherical_harmonics_backward(_arrays(arguments), v_directions, v_coeffs)
    return torch.from_numpy(v_directions), torch.from_numpy(v_coeffs)


def find_finite(kernels: ModuleType, arguments: Arguments) -> tuple[Tensor, ...]:
    """splat::find_finite of csrc/cuda/gaussians.cu."""
    finite, invalid = _garbage(arguments["means"].shape[:2], np.bool_), np.zeros((), np.uint64)
    kernels.find_finite(_arrays(arguments), finite, invalid)
    return torch.from_numpy(finite), torch.tensor(int(invalid))


OPERATORS = {
    "find_finite": find_finite,
    "project": project,
    "project_backward": project_backward,
    "spherical_harmonics": spherical_harmonics,
    "spherical_harmonics_backward": spherical_harmonics_backward,
}


def _arrays(arguments: Arguments) -> Arguments:
    return {
        name: value.detach().contiguous().numpy() if isinstance(value, Tensor) else value
        for name, value in arguments.items()
    }


def _garbage(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """As memory comes that nobody cleared: what a kernel must write, and does not, shows."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = 0xFA
    return array
