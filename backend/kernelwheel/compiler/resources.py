"""The cores and the memory that this process may use, and what the OOM killer has done to its children.

A container is limited by its control groups, whatever the machine has. Files are read below a `root`, so that tests
can simulate other machines.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..runtime.errors import TOO_MANY_OPEN

MB = 1 << 20


@dataclass(frozen=True)
class Resources:
    """What a build may use."""

    cores: int  # processors, at least 1
    cores_from: str  # what limits them, as text
    memory_mb: int | None  # available memory in MiB; None if unknown
    memory_from: str  # what limits it, as text


def find_resources(root: Path = Path("/")) -> Resources:
    """What this process may use, given its CPU affinity, its control groups and the available memory."""
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
    """How many processes of our control group the OOM killer has killed so far, whichever limit was hit."""
    own: dict[str, int] = {}
    for group in _groups(root):
        # memory.events (version 2), memory.oom_control (version 1): see the kernel's cgroup documentation.
        counted = _table(group / "memory.events") or _table(group / "memory.oom_control")
        if "oom_kill" in counted and not own:
            own = counted  # the innermost group comes first; the outer ones count other builds too
    return own.get("oom_kill", 0)


def _available(root: Path) -> int | None:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _groups(root: Path) -> Iterator[Path]:
    """The folders of this process's control groups, each followed by its visible parents.

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
            # A path outside of the mount (/..): of our groups, only the mount's own is visible.
            group = top if ".." in inside.split("/") else top / inside.strip("/")
            yield from [group, *(parent for parent in group.parents if parent.is_relative_to(top))]


def _quota(group: Path) -> int | None:
    """A CPU quota in cores, rounded up; None if there is no quota."""
    version_1 = [_text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    quota, period = (_text(group / "cpu.max").split() or version_1)[:2]
    return math.ceil(int(quota) / int(period)) if quota.isdecimal() and period.isdecimal() else None


def _room(group: Path) -> int | None:
    """The bytes a group may still use; None if it has no limit. The page cache is reclaimable and does not count."""
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
    """Parse a file of `name number` lines."""
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _text(path: Path) -> str:
    """A file's text; empty if it does not exist or is not readable: then no limit is known."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if error.errno in TOO_MANY_OPEN:  # which says nothing about limits
            raise
        return ""
