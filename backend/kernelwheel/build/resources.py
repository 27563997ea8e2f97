"""How many compilers run at once: from the cores and the memory that this process may use, and what one compiler needs.

A container's limits are those of its control groups; what the machine has says nothing about them. Files are read
below a `root`, so that a test can lay out a machine that is not there.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import TOO_MANY_OPEN, BuildError
from ..core.manifest import Manifest

# What one compiler is taken to need where no manifest of the package says. A file that includes torch's stable headers
# was measured at 0.15 GB (gcc 12), 0.39 GB (nvcc 13.0) and, with CUB, 0.53 GB; more, for what is not measured.
DEFAULT_PEAK_MB = 1024
# Nothing less is believed: where a cache server compiles, or keeps the results, we see only its client.
SMALLEST_PEAK_MB = 256
MB = 1 << 20

# What compilers, and the programs that run them, print where one is killed: gcc's driver, nvcc, clang's driver, a
# shell (nvcc runs its passes by one), Ninja (128 + 9; not every version says it). And where one gets no more memory:
# gcc's passes, LLVM, the front end of nvcc, ptxas, C++'s runtime, whoever cannot even start one, a linker.
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
class Resources:
    """What a build may use.

    Attributes:
        cores: processors, at least 1.
        cores_from: what limits them, in words.
        memory_mb: memory that can still be taken, in MiB; None where nothing says.
        memory_from: what limits it, in words.
    """

    cores: int
    cores_from: str
    memory_mb: int | None
    memory_from: str


@dataclass(frozen=True)
class Jobs:
    """How many compilers run at once, and why, in words."""

    count: int
    because: str


def plan_jobs(setting: int, resources: Resources, known_peak_mb: int | None) -> Jobs:
    """How many compilers to run at once.

    Args:
        setting: the setting `jobs`, taken as it is; 0: as many as there are cores, and memory for.
        resources: what the build may use.
        known_peak_mb: what one compiler took in an earlier build of the package, in MiB; None where there was none.
    """
    if setting:
        return Jobs(setting, "as the setting jobs says")
    peak = max(known_peak_mb or DEFAULT_PEAK_MB, SMALLEST_PEAK_MB)
    source = "as measured before" if known_peak_mb else "assumed"
    cores = f"{resources.cores} cores ({resources.cores_from})"
    if resources.memory_mb is None:
        return Jobs(resources.cores, cores)
    count = max(1, min(resources.cores, resources.memory_mb // peak))
    memory = f"{resources.memory_mb} MB of memory ({resources.memory_from})"
    return Jobs(count, f"{cores}, {memory}, {peak} MB for one ({source})")


def fewer(jobs: int, steps: int | None) -> int:
    """How many compilers to run after one was killed: half of those that ran, at last one.

    Args:
        jobs: how many might have run at once.
        steps: how many steps there were in all, of which no more can have run; None where it is not known.
    """
    return max(1, min(jobs, steps or jobs) // 2)


def rounded_peak(kilobytes: int) -> int:
    """A measured peak for the manifest, in MiB: a power of two, so that two builds of one Plan say the same."""
    return max(SMALLEST_PEAK_MB, 1 << math.ceil(math.log2(max(kilobytes / 1024, 1))))


def known_peak(manifests: Iterable[Manifest], cuda: bool) -> int | None:
    """What one compiler took at most in earlier builds, in MiB; None where no manifest says.

    Args:
        manifests: of the package, of any version.
        cuda: only of builds with CUDA kernels, or without.
    """
    built = (manifest.built_with for manifest in manifests if (manifest.requires.cuda is not None) is cuda)
    return max((peak for values in built if isinstance(peak := values.get("peak_mb"), int)), default=None)


def lack_of_memory(output: str, kills: int) -> str:
    """Why a failed compile is put down to lack of memory, in words; empty where it is not.

    Args:
        output: what the compilers printed.
        kills: how many processes of our control group the kernel killed for memory meanwhile.
    """
    if kills > 0:
        return f"the kernel killed {kills} of this build's processes for lack of memory"
    for pattern, words in ((KILLED, "a compiler was killed (signal 9)"), (NO_MEMORY, "a compiler got no more memory")):
        if match := pattern.search(output):
            start = output.rfind("\n", 0, match.start()) + 1
            return f"{words}: {output[start:].partition(chr(10))[0].strip()}"
    return ""


def out_of_memory(what: str, why: str, peak_mb: int, resources: Resources, log: Path) -> BuildError:
    """One compiler alone gets too little memory: nothing is left to be tried.

    Args:
        what: what was compiled.
        why: from `lack_of_memory`.
        peak_mb: the largest compiler so far; the one that failed wanted more than it got.
        resources: what is left for one.
        log: the compilers' output.
    """
    there = "an unknown amount" if resources.memory_mb is None else f"{resources.memory_mb} MB"
    return BuildError(
        f"{what} did not compile, for lack of memory: one compiler at a time is still too many",
        required=f"memory for one compiler; the largest so far took {peak_mb} MB",
        found=f"{why}\n{there} can be taken ({resources.memory_from}); ulimit -v: {_address_space()}",
        remedies=[
            "give the build more memory: raise the container's limit (docker run --memory, a pod's limit) or ulimit -v",
            "or build the wheel on a machine with more, and install it here",
            f"read the whole log: {log}",
        ],
    )


def _address_space() -> str:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return "no limit" if limit == resource.RLIM_INFINITY else f"{limit // MB} MB"


def find_resources(root: Path = Path("/")) -> Resources:
    """What this process may use: by its CPU affinity, its control groups, and the memory that is left."""
    cores, cores_from = len(os.sched_getaffinity(0)), "CPU affinity"
    memory, memory_from = _available(root), "MemAvailable"
    for group in _groups(root):
        name = "/" + group.relative_to(root).as_posix()
        quota = _quota(group)
        if quota is not None and quota < cores:
            cores, cores_from = quota, f"CPU quota of {name}"
        room = _room(group)
        if room is not None and (memory is None or room < memory):
            memory, memory_from = room, f"limit of {name}"
    return Resources(cores, cores_from, None if memory is None else memory // MB, memory_from)


def oom_kills(root: Path = Path("/")) -> int:
    """How many processes of our control group the kernel has killed for memory so far, whichever limit it was."""
    own: dict[str, int] = {}
    for group in _groups(root):
        # memory.events (version 2) and memory.oom_control (version 1): see the kernel's cgroup documents.
        counted = _table(group / "memory.events") or _table(group / "memory.oom_control")
        if "oom_kill" in counted and not own:
            own = counted  # the innermost comes first; those around it count other builds too
    return own.get("oom_kill", 0)


def _available(root: Path) -> int | None:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _groups(root: Path) -> Iterator[Path]:
    """The folders of this process's control groups, each followed by those around it, as far as we see them.

    proc(5), /proc/[pid]/mountinfo: ID, parent, device, root of the mount, mount point, options, -, type, source, more.
    cgroups(7): `hierarchy:controllers:path`, without controllers for version 2.
    """
    paths = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        mounted, mount_point = before.split()[3:5]
        kind, _, options = [*after.split(" "), "", ""][:3]  # the source may be empty
        names = {"cgroup2": [""], "cgroup": options.split(",")}.get(kind, [])
        for path in {paths[name] for name in names if name in paths}:
            top = root / mount_point.lstrip("/")
            inside = path[len(mounted.rstrip("/")) :] if f"{path}/".startswith(f"{mounted.rstrip('/')}/") else ""
            # A path outside of what is mounted (/..): the group of the mount is the only one of ours that is seen.
            group = top if ".." in inside.split("/") else top / inside.strip("/")
            yield from [group, *(parent for parent in group.parents if parent.is_relative_to(top))]


def _quota(group: Path) -> int | None:
    """The cores of a CPU quota, a part of one counted as one; None where there is none."""
    version_1 = [_text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    quota, period = (_text(group / "cpu.max").split() or version_1)[:2]
    return math.ceil(int(quota) / int(period)) if quota.isdecimal() and period.isdecimal() else None


def _room(group: Path) -> int | None:
    """The bytes that a group may still take; None where it has no limit. Cached files give way, and do not count."""
    for limits, usage, cached in (
        (("memory.max", "memory.high"), "memory.current", ("active_file", "inactive_file")),
        (("memory.limit_in_bytes",), "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")),
    ):
        set_limits = [int(text) for name in limits if (text := _text(group / name).strip()).isdecimal()]
        used = _text(group / usage).strip()
        if set_limits and used.isdecimal():
            files = _table(group / "memory.stat")
            return max(0, min(set_limits) - int(used) + sum(files.get(name, 0) for name in cached))
    return None


def _table(path: Path) -> dict[str, int]:
    """A file of `name number` lines."""
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _text(path: Path) -> str:
    """A file's text; empty where there is none, or none that we may read: then it limits nothing that we know of.

    Raises:
        OSError: too many files are open, which says nothing of limits.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if error.errno in TOO_MANY_OPEN:
            raise
        return ""
