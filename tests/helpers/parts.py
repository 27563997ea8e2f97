"""The parts of splat's kernels, for tests that call operators themselves."""

from __future__ import annotations

import torch

from splat import _kernels

PARTS = ("main", "2dgs", "rays", "loss")


def require_all_parts(device: str = "cpu") -> None:
    """Make the operators of all parts available."""
    for part in PARTS:
        _kernels.require(torch.device(device), part)


def select_instruction_set(name: str) -> str:
    """Select what the kernels of all parts for the CPU use, unless the name is empty; returns what is in use.

    Raises:
        RuntimeError: this CPU does not have it.
    """
    require_all_parts()
    for part in PARTS[1:]:
        getattr(torch.ops.splat, f"instruction_set_{part}")(name)
    return str(torch.ops.splat.instruction_set(name))
