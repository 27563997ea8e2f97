"""CUDA architectures, and which GPUs run code for them.

The terms are NVIDIA's: *SASS* is machine code for one compute capability; *PTX* is portable assembly that the driver
compiles at load time (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

# Programming Guide, "Binary Compatibility": none between desktop and Tegra, nor between Tegra architectures.
TEGRA = {(7, 2), (8, 7), (11, 0)}

ITEM = re.compile(r"(?P<major>\d+)\.(?P<minor>\d)(?P<suffix>[af]?)(?P<ptx>\+PTX)?")


class Arch(NamedTuple):
    """One architecture: a compute capability and, as in `9.0a` or `12.0f`, its feature suffix."""

    major: int
    minor: int
    suffix: str = ""

    def __str__(self) -> str:
        """The spelling in manifests and TORCH_CUDA_ARCH_LIST: `9.0a`."""
        return f"{self.major}.{self.minor}{self.suffix}"

    @property
    def code(self) -> str:
        """The digits in nvcc's names: `90a` in `sm_90a` and `compute_90a`."""
        return f"{self.major}{self.minor}{self.suffix}"

    @classmethod
    def from_string(cls, text: str) -> Arch:
        """Parse the manifest's spelling: `9.0a`."""
        match = ITEM.fullmatch(text)
        if not match or match["ptx"]:
            raise ValueError(f"not a compute capability: {text!r}")
        return cls(int(match["major"]), int(match["minor"]), match["suffix"])

    def sass_runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether SASS for this architecture runs on a GPU with that compute capability."""
        major, minor = capability
        if self.suffix == "a" or (major, minor) in TEGRA or (self.major, self.minor) in TEGRA:
            return (self.major, self.minor) == (major, minor)
        return self.major == major and self.minor <= minor

    def ptx_runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a new enough driver can compile PTX for this architecture to that compute capability."""
        if self.suffix == "a":
            return (self.major, self.minor) == capability
        if self.suffix == "f":
            return self.major == capability[0] and self.minor <= capability[1]
        return (self.major, self.minor) <= capability


class ArchList(NamedTuple):
    """What to compile for: SASS for each of `sass` and PTX for each of `ptx`; both sorted, without duplicates."""

    sass: tuple[Arch, ...]
    ptx: tuple[Arch, ...]

    def __str__(self) -> str:
        """The same list in the TORCH_CUDA_ARCH_LIST grammar."""
        return ";".join(f"{arch}{'+PTX' if arch in self.ptx else ''}" for arch in self.sass)

    def covered_by(self, sass: Iterable[Arch], ptx: Iterable[Arch]) -> bool:
        """Whether there is SASS that runs on every SASS target, and PTX for every PTX target."""
        return all(
            any(made == arch or (not arch.suffix and made.sass_runs_on(arch[:2])) for made in sass)
            for arch in self.sass
        ) and all(
            any(made == arch or (not arch.suffix and made.ptx_runs_on(arch[:2])) for made in ptx) for arch in self.ptx
        )
