"""How many compilers to run at once, from the cores and memory there are and the memory that one compiler needs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..runtime.errors import BuildError
from ..runtime.manifest import Manifest
from .resources import MB, Resources

# Assumed for one compiler if no manifest of the package has a measurement. A file that includes torch's stable headers
# was measured at 0.15 GB (gcc 12), 0.39 GB (nvcc 13.0) and, with CUB, 0.53 GB; the rest is a safety margin.
DEFAULT_PEAK_MB = 1024
# Lower measurements are not trusted: if a compiler cache does the work, only its client is measured.
SMALLEST_PEAK_MB = 256

# KILLED: what is printed if a compiler is killed, by gcc's driver, nvcc, clang's driver, a shell (nvcc runs its passes
# in one) and Ninja (128 + 9; not in every version). NO_MEMORY: what is printed if an allocation fails, by gcc's passes,
# LLVM, nvcc's front end, ptxas, the C++ runtime, a program that cannot start another one, and a linker.
KILLED = re.compile(
    r"Killed signal terminated program|died due to signal 9|unable to execute command: Killed|^Killed\b"
    r"|: \d+ Killed\b|FAILED: \[code=137\]",
    re.MULTILINE,
)
NO_MEMORY = re.compile(
    r"^\S+: out of memory allocating \d+ bytes|^virtual memory exhausted|\bLLVM ERROR: out of memory"
    r"|: catastrophic error: out of memory$"
    r"|^ptxas fatal *: Memory allocation failure|terminate called after throwing an instance of 'std::bad_alloc'"
    r"|\b(v?fork|posix_spawn|clone)\b.*: Cannot allocate memory|: memory exhausted$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Jobs:
    """How many compilers run at once, and why, as text."""

    count: int
    because: str


def plan_jobs(setting: int, resources: Resources, known_peak_mb: int | None) -> Jobs:
    """Decide how many compilers run at once.

    Args:
        setting: the option `jobs`, used as it is; 0 for as many as there are cores and memory for.
        resources: what the build may use.
        known_peak_mb: one compiler's peak memory in earlier builds of the package, in MiB; None if not known.
    """
    if setting:
        return Jobs(setting, "set by the option jobs")
    peak = max(known_peak_mb or DEFAULT_PEAK_MB, SMALLEST_PEAK_MB)
    source = "measured in an earlier build" if known_peak_mb else "assumed"
    cores = f"{resources.cores} cores ({resources.cores_from})"
    if resources.memory_mb is None:
        return Jobs(resources.cores, cores)
    count = max(1, min(resources.cores, resources.memory_mb // peak))
    memory = f"{resources.memory_mb} MB of memory ({resources.memory_from})"
    return Jobs(count, f"{cores}, {memory}, {peak} MB per compiler ({source})")


def fewer(jobs: int, steps: int | None) -> int:
    """How many compilers to run after one was killed: half as many as ran, but at least one.

    Args:
        jobs: how many were allowed to run at once.
        steps: the total number of steps, an upper bound on how many did run; None if not known.
    """
    return max(1, min(jobs, steps or jobs) // 2)


def rounded_peak(kilobytes: int) -> int:
    """Round a peak up to a power of two, in MiB, so that two builds of one Plan write the same manifest."""
    return max(SMALLEST_PEAK_MB, 1 << math.ceil(math.log2(max(kilobytes / 1024, 1))))


def known_peak(manifests: Iterable[Manifest], cuda: bool) -> int | None:
    """The most memory one compiler needed in earlier builds, in MiB; None if no manifest has it.

    Args:
        manifests: the package's manifests, of any version.
        cuda: whether to use builds with or without CUDA kernels.
    """
    built = (manifest.built_with for manifest in manifests if manifest.uses_cuda is cuda)
    return max((peak for values in built if isinstance(peak := values.get("peak_mb"), int)), default=None)


def lack_of_memory(output: str, kills: int) -> str:
    """Describe the lack of memory that made a compile fail; empty if it failed for another reason.

    Args:
        output: what the compilers printed.
        kills: how many processes of our control group the OOM killer killed meanwhile.
    """
    if kills > 0:
        return f"the kernel's OOM killer killed {kills} of this build's processes"
    for pattern, words in ((KILLED, "a compiler was killed (signal 9)"), (NO_MEMORY, "a compiler ran out of memory")):
        if match := pattern.search(output):
            start = output.rfind("\n", 0, match.start()) + 1
            return f"{words}: {output[start:].partition(chr(10))[0].strip()}"
    return ""


def out_of_memory(what: str, why: str, peak_mb: int, resources: Resources, log: Path) -> BuildError:
    """The error for a compiler that runs out of memory even on its own.

    Args:
        what: what was compiled.
        why: from `lack_of_memory`.
        peak_mb: the largest compiler so far; the one that failed wanted more than it got.
        resources: what is available to a single compiler.
        log: the file with the compilers' output.
    """
    there = "an unknown amount" if resources.memory_mb is None else f"{resources.memory_mb} MB"
    return BuildError(
        f"{what} did not compile: out of memory, even with one compiler at a time",
        required=f"memory for one compiler; the largest so far used {peak_mb} MB",
        found=f"{why}\n{there} available ({resources.memory_from}); ulimit -v: {_address_space()}",
        remedies=[
            "give the build more memory: raise the container's limit (docker run --memory, a pod's limit) or ulimit -v",
            "or build the wheel on a machine with more memory and install it here",
            f"read the whole log: {log}",
        ],
    )


def _address_space() -> str:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return "no limit" if limit == resource.RLIM_INFINITY else f"{limit // MB} MB"
