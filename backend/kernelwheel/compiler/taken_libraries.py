"""What is taken from a wheel instead of compiled, where nothing decides that it would be another.

Its libraries of operators for the CPU are; and the host code of those for CUDA, with device code for other GPUs.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.content import Content, part_made, without_cuda
from ..runtime.artifact.manifest import Library, Manifest, corrupt
from ..runtime.machine.platforms import platform_name
from .binary_inspect import kernel_names
from .device_code import OtherHostCode, exchange, host_code_digest, split
from .plan import Plan
from .toolchain.toolchain import Toolchain


class Taken(NamedTuple):
    """What a Plan takes from a wheel: the digests of libraries, by their files."""

    whole: dict[str, str]
    host_code: dict[str, str]


NOTHING = Taken({}, {})


def find_taken(wheel: Manifest, wanted: Content, toolchain: Toolchain, *, cpu_kernels: bool = True) -> Taken:
    """What need not be compiled again; without `cpu_kernels`, of the libraries for CUDA alone.

    Nothing if the libraries are bound to one Python or torch, or made of extensions, which may be one file for both
    devices; or if they were compiled with other options, for another platform, or for some of its CPUs.
    """
    wheel = wheel.only(part_made(wanted))
    content, target = without_cuda(wheel.content), wheel.plan["target"]
    if (
        target["binding"]
        or wheel.cpu
        or content["extensions"]
        or content != without_cuda(wanted)
        or target["platform"] != platform_name()
    ):
        return NOTHING
    whole, cuda = wheel.libraries_for("cpu") if cpu_kernels else (), wheel.libraries_for("cuda")
    alone = bool(cuda) and wheel.content == wanted and all(each.sass and each.host_code for each in cuda)
    return Taken(_digests(whole), _digests(cuda) if alone and _fits(wheel, toolchain) else {})


def _fits(wheel: Manifest, toolchain: Toolchain) -> bool:
    """Whether nvcc's device code can be registered by the wheel's host code: both are nvcc's, of one CUDA major.

    A cache for compilers has whole objects, so these are compiled.
    """
    nvcc = toolchain.cuda.nvcc
    if nvcc is None or nvcc.clang or "clang" in wheel.plan["tools"]["toolkit"]:
        return False
    return wheel.requires.driver == f"{nvcc.release[0]}.0" and not toolchain.launchers.cuda


def _digests(libraries: tuple[Library, ...]) -> dict[str, str]:
    return {library.file: library.sha256 for library in libraries}


def take(plan: Plan, wheel: Artifact, work: Path, cuobjdump: Path | None) -> None:
    """Put what the Plan takes from a wheel into a work folder, where the device code of the others is.

    Raises:
        IncompatibleArtifactError: it is not what the wheel's manifest says.
        OtherHostCode: it is not for this device code.
    """
    for library in wheel.manifest.libraries:
        path = work / "out" / library.file
        if digest := plan.taken.get(library.file):
            path.write_bytes(_read(wheel, library, digest))
        elif digest := plan.host_code.get(library.file):
            if host_code_digest(work, library.file) != library.host_code:
                raise OtherHostCode("its sources were compiled with other macros")
            made, own = split(path.read_bytes()), _read(wheel, library, digest)
            path.write_bytes(own)
            names = kernel_names(path, cuobjdump)
            path.write_bytes(exchange(own, made))
            if not kernel_names(path, cuobjdump) <= names:
                raise OtherHostCode("its kernels have other names")


def _read(wheel: Artifact, library: Library, digest: str) -> bytes:
    with os.fdopen(wheel.open_library(library), "rb") as source:
        data = source.read()
    if hashlib.sha256(data).hexdigest() != digest:  # the files of a wheel may change while they are read
        raise corrupt(library.file, "it has changed meanwhile")
    return data
