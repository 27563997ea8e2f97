"""What `torch.autocast` does to splat's functions: they compute in float32.

As the functions of torch that need it (torch's documentation, "Autocast Op Reference", CPU and CUDA ops that can
autocast to float32): what a network gives in bfloat16 or float16 within a region is cast, and cast back for gradients.
Outside of a region, another dtype stays an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")
HALVES = (torch.bfloat16, torch.float16)


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """The function with arguments as in float32, and nothing cast within it, where autocast is on."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        device = next((each.device.type for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)
        if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
            return function(*args, **kwargs)
        with torch.autocast(device, enabled=False):
            return function(*map(widened, args), **{name: widened(each) for name, each in kwargs.items()})

    return call


def widened(value: Any) -> Any:
    """In float32 what is a tensor of bfloat16 or float16."""
    return value.float() if isinstance(value, Tensor) and value.dtype in HALVES else value
