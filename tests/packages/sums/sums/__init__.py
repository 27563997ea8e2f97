"""Running sums: operators registered with TORCH_LIBRARY, which the import of `_C` makes available."""

import torch

from . import _C  # noqa: F401


def running(values):
    """The running sums of a vector."""
    return torch.ops.sums.running(values)
