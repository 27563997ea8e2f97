"""The Host: what a machine can run, its GPUs among it; probed without initialising CUDA unless nothing else can tell.

A process that has initialised CUDA cannot use it in its forked children, and a context takes memory of the GPU.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..record import Record
from .platforms import HOST_PLATFORM, cpu_features, platform_name

Capability = tuple[int, int]

DRIVER_NOT_LOADED = 9  # NVML_ERROR_DRIVER_NOT_LOADED
# Programming Guide, "Binary Compatibility": none between desktop and Tegra, nor between Tegra architectures.
TEGRA = {(7, 2), (8, 7), (11, 0)}


class Host(Record):
    """What matters about a machine to an Artifact."""

    platform: str  # `linux-x86_64`
    libc: str  # `glibc 2.36`; empty if it does not identify itself
    # the newest symbol version of the C++ library in this process, `GLIBCXX_3.4.30`; empty if none is loaded or it has
    # no such versions
    libstdcxx: str
    torch: str  # the running torch's version, `2.11.0+cu130`
    cuda: str | None  # its `torch.version.cuda`, or None
    python: str  # the ABI of the running Python as in a wheel's tag, `cp312`
    # the newest CUDA version that the installed driver supports, `(13, 0)`; None if it was not queried or no driver is
    # installed
    driver: tuple[int, int] | None = None
    # the compute capabilities of the GPUs that this process sees; None if they were not queried
    capabilities: tuple[tuple[int, int], ...] | None = None
    # what its CPU can do, by Linux's names; None if that was not queried
    cpu: tuple[str, ...] | None = None

    def asked_for(self, features: Iterable[str]) -> Host:
        """The same Host with its CPU, if some of its features are needed: a kernel may take 10 ms to tell them."""
        return self._replace(cpu=tuple(sorted(cpu_features()))) if features and self.cpu is None else self


class Arch(NamedTuple):
    """One architecture: a compute capability and, as in `9.0a` or `12.0f`, its feature suffix.

    The terms are NVIDIA's: *SASS* is machine code for one; *PTX* is portable assembly that the driver compiles at load
    time (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility").
    """

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


def python_abi() -> str:
    """The running Python's ABI tag (PyPA, platform compatibility tags): `cp312`, or `cp313t` without the GIL."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"


def torch_required(version: str) -> str:
    """What is bound to a torch requires: `2.13.*` for 2.13.0+cu130, but a build between releases, 2.13.0a0+1.nv26.06 or
    2.15.0.dev20261101, itself: its C++ API is that of neither (PEP 440, "Version matching").
    """
    parts = version.partition("+")[0].replace(".post", ".").split(".")
    return f"{'.'.join(parts[:2])}.*" if all(map(str.isdecimal, parts)) else version


def probe() -> Host:
    """This process's Host, without touching the GPU: cheap, and safe before a fork."""
    import torch

    return Host(
        platform=platform_name(),
        libc=HOST_PLATFORM.libc_version(),
        libstdcxx=HOST_PLATFORM.newest_libstdcxx(),
        torch=torch.__version__,
        cuda=torch.version.cuda,
        python=python_abi(),
    )


def with_gpus(host: Host) -> Host:
    """The same Host with its driver and GPUs. Initialises CUDA: call it only when CUDA is about to be used anyway."""
    import torch

    count = torch.cuda.device_count() if host.cuda is not None and torch.cuda.is_available() else 0
    capabilities = {torch.cuda.get_device_capability(i) for i in range(count)}
    return host._replace(driver=driver_version(), capabilities=tuple(sorted(capabilities)))


def with_listed_gpus(host: Host) -> Host:
    """The same Host with its driver and GPUs, without initialising CUDA: only where NVML cannot tell, CUDA is asked.

    On machines whose GPUs differ, more of them may count than CUDA shows; see `visible_capabilities`.
    """
    import torch

    if host.cuda is None or torch.cuda.is_initialized():
        return with_gpus(host)
    driver = driver_version()
    if driver is None or driver[0] < int(host.cuda.split(".")[0]):
        # torch could use no GPU (CUDA Compatibility, "Minor Version Compatibility").
        return host._replace(driver=driver, capabilities=())
    capabilities = visible_capabilities(os.environ)
    return with_gpus(host) if capabilities is None else host._replace(driver=driver, capabilities=capabilities)


def driver_version() -> tuple[int, int] | None:
    """The CUDA version that the driver supports (cuDriverGetVersion, which needs no context); None without a driver."""
    try:
        driver = ctypes.CDLL(HOST_PLATFORM.cuda_driver)
    except OSError:
        return None
    number = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    return number.value // 1000, number.value % 1000 // 10


def visible_capabilities(environ: Mapping[str, str]) -> tuple[Capability, ...] | None:
    """The compute capabilities of the GPUs that CUDA may show to this process, each once, in ascending order.

    They are asked of NVML (NVML API Reference Guide). On a machine whose GPUs differ, all of them count unless
    CUDA_VISIBLE_DEVICES has numbers (CUDA Programming Guide, "Environment Variables") and CUDA_DEVICE_ORDER is
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
