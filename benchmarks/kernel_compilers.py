"""What each CUDA compiler of this machine makes of splat's kernels: registers, stack, size of the library, CPU time.

The compilers are those that the backend's own search finds, and each is used as in a compile at run time: for the CUDA
library alone, and the architectures in TORCH_CUDA_ARCH_LIST (default: 9.0). One that does not know all of these is left
out. Only kernels are listed that differ in a way that matters from those of the first compiler.

Usage: kernel_compilers.py FOLDER, run by a Python that has splat, a torch with CUDA and what a compile needs.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kernel_resources import Use, describe, read
from kernelwheel.compiler.toolchain.cuda import look_for_nvcc
from kernelwheel.compiler.toolchain.nvcc import NvccLimits, NvccSearch
from kernelwheel.compiler.toolchain.torch_files import find_torch
from kernelwheel.project import arch_choice
from kernelwheel.project.build_settings import BuildSettings
from measure import table
from splat._kernelwheel import compiler_process
from splat._kernelwheel.artifact.content import MAIN, only
from splat._kernelwheel.compiler_process import CompileRequest
from splat._kernelwheel.errors import KernelWheelError
from splat._kernelwheel.settings import Origin

from splat._kernels import KERNELS

FEW = 8  # registers; a multiprocessor gives out eight at a time

Uses = dict[tuple[str, str], Use]  # by architecture and kernel


class Made(NamedTuple):
    """What a compiler made, and the CPU seconds of the whole build of the CUDA library."""

    uses: Uses
    size: int
    cpu: float


def main(folder: Path) -> None:
    """Print the kernels that differ, and a row for each compiler; nothing if there are not several."""
    archs = os.environ.get("TORCH_CUDA_ARCH_LIST", "9.0")
    compilers = found(archs)
    if len(compilers) < 2:
        return
    shutil.rmtree(folder, ignore_errors=True)
    made = {name: compiled(place, archs, folder / f"{n}") for n, (name, place) in enumerate(compilers.items())}
    print(f"architectures {archs}; registers / bytes of shared memory; + bytes of stack, where there is any")
    if rows := differing({name: each.uses for name, each in made.items()}):
        table(["kernel", *made], rows)
    count = len(next(iter(made.values())).uses)
    print(f"{count - len(rows)} others of {count} differ by at most {FEW} registers, and have no stack\n")
    table(["compiler", "registers", "with a stack", "library kB", "CPU s"], summary(made))


def found(archs: str) -> dict[str, str]:
    """The compilers that know these architectures: where each is, by its name, torch's own first."""
    wanted = arch_choice.parse(archs, "TORCH_CUDA_ARCH_LIST")
    settings = BuildSettings.resolve("splat", {}, os.environ)
    search = look_for_nvcc(NvccSearch(settings, find_torch(), os.environ, sys.path, NvccLimits(any_major=True)))
    places: dict[str, str] = {}
    for nvcc, place in ((each.nvcc, each.place) for each in search if each.nvcc):
        try:
            arch_choice.check_supported(wanted, nvcc.supported, nvcc.name, "TORCH_CUDA_ARCH_LIST", nvcc.virtual)
        except KernelWheelError:
            print(f"{nvcc.name} is left out: it does not make {archs}")
            continue
        places.setdefault(nvcc.name, place)
    return places


def compiled(place: str, archs: str, store: Path) -> Made:
    """What a compiler makes in an empty store. The CPU library is the wheel's: it is not compiled."""
    package = KERNELS.installed
    source, content, settings = package.source, package.wanted.content, package.settings
    assert source is not None
    assert content is not None
    wanted = {"archs": archs, "cuda": "on", "cache-dir": str(store)}
    for option, value in wanted.items():
        settings = settings.changed(option, value, Origin("this benchmark"))
    content = only(content, MAIN)
    request = CompileRequest(content, source.folder, settings, source.options, wheel=package.folder)
    before = cpu_seconds()
    answer = compiler_process.ask(request, lambda line: None, {"CUDACXX": place})
    cpu = cpu_seconds() - before
    library = Path(answer["folder"]) / "libsplat_cuda.so"
    return Made(read(library), library.stat().st_size, cpu)


def cpu_seconds() -> float:
    """Of all processes that this one has waited for, and that those waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def differing(uses: Mapping[str, Uses]) -> list[list[str]]:
    """A row for each kernel that takes more or fewer registers, other shared memory, or a stack."""
    first, *others = uses.values()
    rows = []
    for (architecture, kernel), use in sorted(first.items()):
        cells = [use, *(other[architecture, kernel] for other in others)]
        if any(matters(cell, use) for cell in cells):
            rows.append([f"{kernel} ({architecture})", *map(describe, cells)])
    return rows


def matters(use: Use, first: Use) -> bool:
    """Whether a kernel has a stack, or differs from the first compiler's."""
    return bool(use.stack) or use.shared != first.shared or abs(use.registers - first.registers) > FEW


def summary(made: Mapping[str, Made]) -> list[list[str]]:
    """A row for each compiler; registers as the mean over the kernels of the ratio to the first compiler's."""
    first = next(iter(made.values()))
    rows = []
    for name, each in made.items():
        ratio = statistics.geometric_mean(each.uses[key].registers / use.registers for key, use in first.uses.items())
        stacks = sum(bool(use.stack) for use in each.uses.values())
        rows.append([name, f"{ratio:.3f}", str(stacks), f"{each.size / 1e3:.0f}", f"{each.cpu:.1f}"])
    return rows


if __name__ == "__main__":
    main(Path(sys.argv[1]))
