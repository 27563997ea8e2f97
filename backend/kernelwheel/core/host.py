"""The Host: what a machine can run, probed without initialising CUDA unless its GPUs are asked for."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from bisect import bisect_left

from .record import Record


class Host(Record):
    """What matters about a machine to an Artifact.

    Attributes:
        platform: `linux-x86_64`.
        libc: `glibc 2.36`; empty if it does not identify itself.
        libstdcxx: the newest symbol version of the C++ library in this process, `GLIBCXX_3.4.30`; empty
            if none is loaded or it has no such versions.
        torch: the running torch's version, `2.11.0+cu130`.
        cuda: its `torch.version.cuda`, or None.
        python: the ABI of the running Python as in a wheel's tag, `cp312`.
        driver: the newest CUDA version that the installed driver supports, `(13, 0)`; None if it was not queried
            or no driver is installed.
        capabilities: the compute capabilities of the GPUs that this process sees; None if they were not queried.
    """

    platform: str
    libc: str
    libstdcxx: str
    torch: str
    cuda: str | None
    python: str
    driver: tuple[int, int] | None = None
    capabilities: tuple[tuple[int, int], ...] | None = None


def platform_name() -> str:
    """This machine's platform: `linux-x86_64`."""
    return f"{sys.platform}-{platform.machine()}"


def python_abi() -> str:
    """The running Python's ABI tag (PyPA, platform compatibility tags): `cp312`, or `cp313t` without the GIL."""
    name = "cp" if sys.implementation.name == "cpython" else sys.implementation.name
    return f"{name}{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"


def probe() -> Host:
    """This process's Host, without touching the GPU: cheap, and safe before a fork."""
    import torch

    return Host(
        platform=platform_name(),
        libc=_libc(),
        libstdcxx=newest_libstdcxx(),
        torch=torch.__version__,
        cuda=torch.version.cuda,
        python=python_abi(),
    )


def with_gpus(host: Host) -> Host:
    """The same Host with its driver and GPUs. Initialises CUDA: call it only when CUDA is about to be used anyway."""
    import torch

    if host.cuda is None or not torch.cuda.is_available():
        return host._replace(driver=driver_version(), capabilities=())
    capabilities = (torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count()))
    return host._replace(driver=driver_version(), capabilities=tuple(sorted(set(capabilities))))


def with_listed_gpus(host: Host) -> Host:
    """The same Host with its driver and GPUs, without initialising CUDA: only where NVML cannot tell, CUDA is asked.

    On machines whose GPUs differ, more of them may count than CUDA shows; see `nvml.visible_capabilities`.
    """
    import torch

    from .nvml import visible_capabilities  # not at the top: an import of the package does not ask for GPUs

    if host.cuda is None or torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
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
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    return number.value // 1000, number.value % 1000 // 10


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""


def newest_libstdcxx() -> str:
    """The newest GLIBCXX version of the C++ library loaded in this process, without opening a file.

    Our kernels will be linked to that one, and the file on disk may have been replaced since. GNU ld defines a symbol
    named after each version; its value may be 0.
    """
    if sys.platform != "linux":
        return ""
    try:
        library = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:  # it is not loaded
        return ""
    loader = ctypes.CDLL(None)
    loader.dlsym.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    loader.dlsym.restype = loader.dlerror.restype = ctypes.c_void_p

    def lacks(release: int) -> bool:
        loader.dlerror()  # dlopen(3): clears any earlier error
        loader.dlsym(library._handle, b"GLIBCXX_3.4.%d" % release)
        return bool(loader.dlerror())

    newest = bisect_left(range(1, 100), True, key=lacks)  # a library has all versions before its newest
    return f"GLIBCXX_3.4.{newest}" if newest else ""
