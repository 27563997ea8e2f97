"""The Host: what a machine can run, probed without initialising CUDA unless its GPUs are asked for."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable

from ..record import Record
from .platforms import HOST_PLATFORM, cpu_features, platform_name


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

    On machines whose GPUs differ, more of them may count than CUDA shows; see `gpus.visible_capabilities`.
    """
    import torch

    from .gpus import visible_capabilities  # not at the top: an import of the package does not ask for GPUs

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
