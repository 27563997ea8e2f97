"""CUDA architectures: the TORCH_CUDA_ARCH_LIST grammar, the default list, and which GPUs run which code.

The terms are NVIDIA's: *SASS* is machine code for one compute capability; *PTX* is portable assembly that the driver
compiles at load time (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility").
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from .errors import SettingsError

# The names that torch.utils.cpp_extension understands.
NAMED = {
    "Kepler": "3.5+PTX",
    "Kepler+Tesla": "3.7",
    "Maxwell": "5.0;5.2+PTX",
    "Maxwell+Tegra": "5.3",
    "Pascal": "6.0;6.1+PTX",
    "Volta": "7.0+PTX",
    "Volta+Tegra": "7.2",
    "Turing": "7.5+PTX",
    "Ampere": "8.0;8.6+PTX",
    "Ampere+Tegra": "8.7",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell": "10.0;10.3;12.0;12.1+PTX",
    "Blackwell+Tegra": "11.0",
}
# Programming Guide, "Binary Compatibility": none between desktop and Tegra, nor between Tegra architectures.
TEGRA = {(7, 2), (8, 7), (11, 0)}

_ITEM = re.compile(r"(?P<major>\d+)\.(?P<minor>\d)(?P<suffix>[af]?)(?P<ptx>\+PTX)?")


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
    def from_code(cls, code: str) -> Arch:
        """Parse nvcc's spelling: `sm_90a`, `compute_120` or `90a`."""
        match = re.fullmatch(r"(?:sm_|compute_)?(\d+)(\d)([af]?)", code)
        if not match:
            raise ValueError(f"not an nvcc architecture: {code!r}")
        return cls(int(match[1]), int(match[2]), match[3])

    @classmethod
    def from_string(cls, text: str) -> Arch:
        """Parse the manifest's spelling: `9.0a`."""
        match = _ITEM.fullmatch(text)
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


def parse(text: str, origin: str) -> ArchList:
    """Parse a TORCH_CUDA_ARCH_LIST: items separated by `;` or spaces, each a name or `X.Y[a|f][+PTX]`."""
    sass: set[Arch] = set()
    ptx: set[Arch] = set()
    for item in re.split(r"[;\s]+", text.strip()):
        for part in NAMED.get(item, item).split(";"):
            match = _ITEM.fullmatch(part)
            if not match:
                raise _bad_item(item, text, origin)
            arch = Arch(int(match["major"]), int(match["minor"]), match["suffix"])
            sass.add(arch)
            if match["ptx"]:
                ptx.add(arch)
    return ArchList(tuple(sorted(sass)), tuple(sorted(ptx)))


def _bad_item(item: str, text: str, origin: str) -> SettingsError:
    candidates = [*NAMED, *(f"{n}.{m}" for n in range(7, 13) for m in range(10))]
    nearest = difflib.get_close_matches(item, candidates, n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    return SettingsError(
        f"{item!r} is not a CUDA architecture",
        required=f"items such as 7.5, 8.0+PTX, 9.0a, 12.0f or a name ({', '.join(NAMED)}), separated by ; or spaces",
        found=f"{text!r} from {origin}",
        remedies=[f"{hint}correct the list, or omit it to use the default architectures"],
    )
