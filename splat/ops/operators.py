"""The definitions of the operators that compiled kernels implement, each library for its own device.

They are defined in Python, each above the function that calls it, and not by a library: so a call on one device does
without the library for the other. What an operator takes is what a function in csrc/operators checks, `check_*` in
*_operands.h, in the same order.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import torch

_MODULES: Final = (
    "harmonics", "image_loss", "intersection", "packing", "pixels", "pixels_2dgs", "pixels_rays", "projection"
)  # fmt: skip


def define(name: str, schema: str) -> None:
    """Define an operator of `torch.ops.splat`, if an earlier import in this process has not.

    Args:
        name: its name.
        schema: its arguments and results, `(Tensor x) -> Tensor`.
    """
    operators: Any = torch.ops.splat
    if "library" not in vars(operators):  # one for all, which lasts as the namespace does
        operators.library = torch.library.Library("splat", "FRAGMENT")  # type: ignore[no-untyped-call]
    if not hasattr(operators, name):
        operators.library.define(name + schema)


def define_all() -> None:
    """Define those of all modules, of which few programs need each."""
    for module in _MODULES:
        import_module(f"{__package__}.{module}")
