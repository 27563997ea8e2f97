"""The compute capabilities of the visible GPUs, asked of NVIDIA's management library, which initialises no CUDA.

A process that has initialised CUDA cannot use it in its forked children, and a context takes memory of the GPU.
Functions and return values: NVML API Reference Guide. CUDA_VISIBLE_DEVICES: CUDA Programming Guide, "Environment
Variables"; where that is silent, as on the same device named twice, it is read as torch reads it (`torch.cuda`).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import NamedTuple

from .platforms import HOST_PLATFORM

Capability = tuple[int, int]

DRIVER_NOT_LOADED = 9  # NVML_ERROR_DRIVER_NOT_LOADED
UUID_SIZE = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE


class GpuQueryError(Exception):
    """A function of NVML failed."""


class ListedGpu(NamedTuple):
    """A GPU of this machine, as NVML lists it."""

    uuid: str
    capability: Capability


def visible_capabilities(environ: Mapping[str, str]) -> tuple[Capability, ...] | None:
    """The compute capabilities of the GPUs that CUDA would show to this process, each once, in ascending order.

    The numbers in CUDA_VISIBLE_DEVICES count devices in CUDA's own order, which is NVML's only if CUDA_DEVICE_ORDER is
    PCI_BUS_ID. Without that, on a machine whose GPUs differ in capability, all of them count as visible.

    Empty if there is no GPU; None if NVML cannot tell, so that CUDA must be asked.
    """
    try:
        library = ctypes.CDLL(HOST_PLATFORM.nvml_library)
    except OSError:
        return None if _is_loadable(HOST_PLATFORM.cuda_driver) else ()
    try:
        status = library.nvmlInit_v2()
        if status != 0:
            return () if status == DRIVER_NOT_LOADED else None
        try:
            return tuple(sorted(set(_visible(_Nvml(library), environ))))
        finally:
            library.nvmlShutdown()
    except (GpuQueryError, AttributeError):  # AttributeError: a library so old that it lacks a function
        return None


class _Nvml:
    """The functions of NVML, each raising GpuQueryError if it fails."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise GpuQueryError(f"{name}: {status}")

    def gpus(self) -> list[ListedGpu]:
        """All GPUs, in the order of their PCI bus ids."""
        count = ctypes.c_uint(0)
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [self._gpu(number) for number in range(count.value)]

    def _gpu(self, number: int) -> ListedGpu:
        handle, uuid = ctypes.c_void_p(), ctypes.create_string_buffer(UUID_SIZE)
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(handle))
        self._call("nvmlDeviceGetUUID", handle, uuid, ctypes.c_uint(UUID_SIZE))
        return ListedGpu(uuid.value.decode("ascii", "replace"), self._capability(handle))

    def capability_of_mig(self, uuid: str) -> Capability:
        """The compute capability of the GPU of which a MIG device is a part."""
        device, gpu = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(device))
        self._call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device, ctypes.byref(gpu))
        return self._capability(gpu)

    def _capability(self, handle: ctypes.c_void_p) -> Capability:
        major, minor = ctypes.c_int(0), ctypes.c_int(0)
        self._call("nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value


def _visible(nvml: _Nvml, environ: Mapping[str, str]) -> list[Capability]:
    gpus = nvml.gpus()
    everything = [gpu.capability for gpu in gpus]
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return everything
    entries = [entry.strip() for entry in listed.split(",")]
    if entries[0].startswith("MIG-"):
        return _of_migs(nvml, entries, gpus)
    if entries[0].startswith("GPU-"):
        return [gpus[number].capability for number in _selected(entries, [gpu.uuid for gpu in gpus])]
    numbers = _numbered(entries, len(gpus))
    in_this_order = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len(set(everything)) == 1
    return [everything[number] for number in numbers] if in_this_order or not numbers else everything


def _numbered(entries: list[str], count: int) -> list[int]:
    """The devices in a list of numbers; the list ends at the first that is none, and one named twice empties it."""
    numbers: list[int] = []
    for entry in entries:
        match = re.match(r"\+?([0-9]+)", entry)  # as strtoul(3): what follows the number is ignored
        if match is None or int(match[1]) >= count:
            break
        if int(match[1]) in numbers:
            return []
        numbers.append(int(match[1]))
    return numbers


def _selected(entries: list[str], uuids: list[str]) -> list[int]:
    """The same for a list of beginnings of UUIDs, each of which must stand for one GPU."""
    numbers: list[int] = []
    for entry in entries:
        matching = [number for number, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
        if len(matching) != 1:
            break
        if matching[0] in numbers:
            return []
        numbers += matching
    return numbers


def _of_migs(nvml: _Nvml, entries: list[str], gpus: list[ListedGpu]) -> list[Capability]:
    """The capabilities of MIG devices, which are their GPUs'; if NVML does not know one, all GPUs count."""
    found = []
    for entry in entries:
        if not entry.startswith("MIG-"):
            break
        of_old_name = re.fullmatch(r"MIG-(GPU-[^/]+)/\d+/\d+", entry)
        parents = [gpu.capability for gpu in gpus if of_old_name and gpu.uuid == of_old_name[1]]
        if of_old_name and not parents:
            break
        try:
            found.append(parents[0] if parents else nvml.capability_of_mig(entry))
        except GpuQueryError:
            return [gpu.capability for gpu in gpus]
    return found


def _is_loadable(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
