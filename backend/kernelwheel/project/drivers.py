"""NVIDIA's drivers, which are named by the CUDA version that they support, and the PTX that they compile."""

from __future__ import annotations

import re

# PTX version -> the CUDA release that introduced it (PTX ISA, "Release Notes"). Of those between two, drivers of the
# earlier release compile no PTX of the later one.
PTX_ISA = {(8, 0): (12, 0), (8, 1): (12, 1), (8, 2): (12, 2), (8, 3): (12, 3), (8, 4): (12, 4), (8, 5): (12, 5)}
PTX_ISA |= {(8, 6): (12, 7), (8, 7): (12, 8), (8, 8): (12, 9), (9, 0): (13, 0), (9, 1): (13, 1)}


def read_driver(text: str) -> str:
    """The value of the option `drivers`: a CUDA version, or nothing."""
    value = text.strip()
    if value and not re.fullmatch(r"[1-9]\d\.\d", value):
        raise ValueError("A driver is named by its CUDA version: 12.0 is 525.60, 13.0 is 580.65.")
    return value


def driver_for(ptx: tuple[int, int], release: tuple[int, int]) -> str:
    """The oldest driver that compiles PTX of a version, which a toolkit of this release made."""
    major, minor = PTX_ISA.get(ptx, release)
    return f"{major}.{minor}"
