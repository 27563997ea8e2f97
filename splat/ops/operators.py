"""The definitions of the operators that compiled kernels implement, each library for its own device.

A library defines none of them: they are defined here, in Python, each beside the function that calls it. So a call on
one device does without the library for the other. What an operator takes is what a function in csrc/operators checks,
`check_*` in *_operands.h, in the same order.
"""

from __future__ import annotations

import torch


def define(name: str, schema: str) -> None:
    """Define an operator of `torch.ops.splat`, if an earlier import in this process has not.

    Args:
        name: its name.
        schema: its arguments and results, `(Tensor x) -> Tensor`.
    """
    if not hasattr(torch.ops.splat, name):
        torch.library.define(f"splat::{name}", schema)
