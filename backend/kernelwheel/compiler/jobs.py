"""How many compilers to run at once, from the cores and memory there are and the memory that one compiler needs."""

from __future__ import annotations

import re
import resource
from pathlib import Path

from ..runtime.errors import BuildError
from .resources import MB, Resources

# What one compiler is given. A file that includes torch's stable headers was measured at 0.15 GB (gcc 12), 0.39 GB
# (nvcc 13.0) and, with CUB, 0.53 GB; the rest is a safety margin.
MB_PER_COMPILER = 1024

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


def plan_jobs(setting: int, resources: Resources) -> tuple[int, str]:
    """How many compilers run at once, and why: as the option `jobs` says; if 0, what there are cores and memory for."""
    if setting:
        return setting, "set by the option jobs"
    cores = f"{resources.cores} cores ({resources.cores_from})"
    if resources.memory_mb is None:
        return resources.cores, cores
    count = max(1, min(resources.cores, resources.memory_mb // MB_PER_COMPILER))
    memory = f"{resources.memory_mb} MB of memory ({resources.memory_from})"
    return count, f"{cores}, {memory}, {MB_PER_COMPILER} MB per compiler"


def fewer(jobs: int, steps: int | None) -> int:
    """How many compilers to run after one was killed: half as many as can have run, of `steps` if that is known."""
    return max(1, min(jobs, steps or jobs) // 2)


def lack_of_memory(output: str, kills: int) -> str:
    """Describe the lack of memory that made a compile with this output fail; empty if it failed for another reason.

    `kills` is how many processes of our control group the OOM killer killed meanwhile.
    """
    if kills > 0:
        return f"the kernel's OOM killer killed {kills} of this build's processes"
    for pattern, words in ((KILLED, "a compiler was killed (signal 9)"), (NO_MEMORY, "a compiler ran out of memory")):
        if match := pattern.search(output):
            start = output.rfind("\n", 0, match.start()) + 1
            return f"{words}: {output[start:].partition(chr(10))[0].strip()}"
    return ""


def out_of_memory(what: str, why: str, resources: Resources, log: Path) -> BuildError:
    """The error for a compiler that runs out of memory even on its own; `why` is from `lack_of_memory`."""
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    limit = "no limit" if address_space == resource.RLIM_INFINITY else f"{address_space // MB} MB"
    there = "an unknown amount" if resources.memory_mb is None else f"{resources.memory_mb} MB"
    return BuildError(
        f"{what} did not compile: out of memory, even with one compiler at a time",
        required="memory for one compiler",
        found=f"{why}\n{there} available ({resources.memory_from}); ulimit -v: {limit}",
        remedies=[
            "give the build more memory: raise the container's limit (docker run --memory, a pod's limit) or ulimit -v",
            "or build the wheel on a machine with more memory and install it here",
            f"read the whole log: {log}",
        ],
    )
