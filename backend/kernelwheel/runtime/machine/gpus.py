"""GPUs: which code they run, and which ones this process sees, asked of NVML, which initialises no CUDA.

The terms are NVIDIA's: *SASS* is machine code for one compute capability; *PTX* is portable assembly that the driver
compiles at load time (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility").

A process that has initialised CUDA cannot use it in its forked children, and a context takes memory of the GPU.
Functions and return values: NVML API Reference Guide. CUDA_VISIBLE_DEVICES: CUDA Programming Guide, "Environment
Variables".
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import NamedTuple

from .platforms import HOST_PLATFORM

Capability = tuple[int, int]

DRIVER_NOT_LOADED = 9  # NVML_ERROR_DRIVER_NOT_LOADED
# Programming Guide, "Binary Compatibility": none between desktop and Tegra, nor between Tegra architectures.
TEGRA = {(7, 2), (8, 7), (11, 0)}


class Arch(NamedTuple):
    """One architecture: a compute capability and, as in `9.0a` or `12.0f`, its feature suffix."""

    major: int
    minor: int
    suffix: str = ""

    def __str__(self) -> str:
        """The spelling in manifests and TORCH_CUDA_ARCH_LIST: `9.0a`."""
        return f"{self.major}.{self.minor}{self.suffix}"

    @classmethod
    def from_string(cls, text: str) -> Arch:
        """Parse the manifest's spelling, `9.0a`; its schema has checked that."""
        major, _, minor = text.partition(".")
        return cls(int(major), int(minor[0]), minor[1:])

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


def visible_capabilities(environ: Mapping[str, str]) -> tuple[Capability, ...] | None:
    """The compute capabilities of the GPUs that CUDA may show to this process, each once, in ascending order.

    On a machine whose GPUs differ, all of them count unless CUDA_VISIBLE_DEVICES has numbers and CUDA_DEVICE_ORDER is
    PCI_BUS_ID, NVML's own order.

    Empty if there is no GPU; None if NVML cannot tell, so that CUDA must be asked.
    """
    try:
        library = ctypes.CDLL(HOST_PLATFORM.nvml_library)
    except OSError:
        return None
    try:
        status = library.nvmlInit_v2()
        if status != 0:
            return () if status == DRIVER_NOT_LOADED else None
        try:
            return tuple(sorted(set(_visible(_capabilities(library), environ))))
        finally:
            library.nvmlShutdown()
    except (RuntimeError, AttributeError):  # AttributeError: a library so old that it lacks a function
        return None


def _capabilities(library: ctypes.CDLL) -> list[Capability]:
    """Those of all GPUs, in the order of their PCI bus ids."""

    def call(name: str, *arguments: object) -> None:
        status = getattr(library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {status}")

    count, handle, major, minor = ctypes.c_uint(0), ctypes.c_void_p(), ctypes.c_int(0), ctypes.c_int(0)
    call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    found = []
    for number in range(count.value):
        call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(handle))
        call("nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
        found.append((major.value, minor.value))
    return found


def _visible(gpus: list[Capability], environ: Mapping[str, str]) -> list[Capability]:
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None or re.match(r"\s*(GPU|MIG)-", listed):
        return gpus
    visible: list[Capability] = []
    for entry in listed.split(","):  # the list ends at the first that is no device
        match = re.match(r"\s*\+?([0-9]+)", entry)  # as strtoul(3): what follows the number is ignored
        if match is None or int(match[1]) >= len(gpus):
            break
        visible.append(gpus[int(match[1])])
    return visible if environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or not visible else gpus
