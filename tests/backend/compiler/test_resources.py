"""How many compilers run at once: within the limits of cores and memory, retried with fewer if one is killed."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from editables import Editable
from folders import BACKEND
from kernelwheel.compiler import jobs, resources
from kernelwheel.compiler.resources import Resources
from processes import RunPython

GB = 1 << 30
PLENTY = Resources(8, "CPU affinity", 64 * 1024, "MemAvailable")


# From resources to a number of jobs


@pytest.mark.parametrize(
    ("cores", "memory_mb", "count"),
    [
        (8, 64 * 1024, 8),  # limited by cores
        (8, 3 * 1024, 3),  # limited by memory
        (8, 3 * 1024 - 1, 2),
        (8, 100, 1),  # at least one
        (8, None, 8),  # memory not known
    ],
)
def test_as_many_run_as_there_are_cores_and_memory_for(cores: int, memory_mb: int | None, count: int) -> None:
    there = Resources(cores, "CPU affinity", memory_mb, "MemAvailable")

    assert jobs.plan_jobs(0, there)[0] == count


def test_the_reason_names_each_number_and_where_it_came_from() -> None:
    there = Resources(3, "CPU quota of /a", 2048, "limit of /b")

    because = "3 cores (CPU quota of /a), 2048 MB of memory (limit of /b), 1024 MB per compiler"
    assert jobs.plan_jobs(0, there) == (2, because)


def test_the_setting_is_taken_as_it_is() -> None:
    assert jobs.plan_jobs(64, replace(PLENTY, memory_mb=1)) == (64, "set by the option jobs")


@pytest.mark.parametrize(
    ("at_once", "steps", "count"), [(8, None, 4), (8, 100, 4), (64, 5, 2), (3, 9, 1), (2, 9, 1), (4, 1, 1), (5, 0, 2)]
)
def test_half_of_those_that_can_have_run_is_what_is_tried_next(at_once: int, steps: int | None, count: int) -> None:
    assert jobs.fewer(at_once, steps) == count


# What a build may use, on simulated machines

MEMINFO = "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n"  # 64 and 32 GB
V2 = "30 23 0:26 {root} {point} rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "35 31 0:32 {root} {point}/memory rw - cgroup cgroup rw,memory\n32 31 0:29 {root} {point}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"  # noqa: E501


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def version_2(root: Path, path: str, groups: dict[str, str], mounted: str = "/") -> Path:
    """A machine with control groups version 2, with this process in `path`."""
    return lay_out(
        root,
        {
            "proc/self/cgroup": f"0::{path}\n",
            "proc/self/mountinfo": "24 1 8:1 / / rw - ext4 /dev/vda rw\n25 24 0:9 / /x rw - tmpfs  rw\n"
            + V2.format(root=mounted, point="/sys/fs/cgroup"),
            **{f"sys/fs/cgroup/{name}": text for name, text in groups.items()},
        },
    )


def version_1(root: Path, path: str, groups: dict[str, str], mounted: str = "/") -> Path:
    """A machine with control groups version 1, with this process in `path`."""
    return lay_out(
        root,
        {
            "proc/self/cgroup": f"9:name=systemd:/\n4:memory:{path}\n1:cpu,cpuacct:{path}\n0::/\n",
            "proc/self/mountinfo": V1.format(root=mounted, point="/sys/fs/cgroup"),
            **{f"sys/fs/cgroup/{name}": text for name, text in groups.items()},
        },
    )


def memory_of(root: Path) -> tuple[int | None, str]:
    found = resources.find_resources(root)
    return found.memory_mb, found.memory_from


AVAILABLE = (32 * 1024, "MemAvailable")
STAT = f"anon {GB}\nfile {3 * GB}\nshmem {GB}\ninactive_file {GB}\nactive_file {GB}\n"
# The group of this process, the files of groups, and what is left, in MB, and by what.
MACHINES: dict[str, tuple[str, dict[str, str], tuple[int, str]]] = {
    "no limit": ("/a", {"a/memory.max": "max\n", "a/memory.high": "max\n", "a/memory.current": "4096\n"}, AVAILABLE),
    "a limit of another group": ("/a", {"b/memory.max": f"{GB}\n", "b/memory.current": "0\n"}, AVAILABLE),
    # Cached files give way, and do not count as used.
    "cached files": (
        "/a", {"a/memory.max": f"{8 * GB}\n", "a/memory.current": f"{5 * GB}\n", "a/memory.stat": STAT},
        (5 * 1024, "limit of /sys/fs/cgroup/a"),
    ),
    "over the limit": (
        "/a", {"a/memory.high": f"{GB}\n", "a/memory.current": f"{2 * GB}\n"}, (0, "limit of /sys/fs/cgroup/a"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "groups", "left"), MACHINES.values(), ids=MACHINES)
def test_what_a_group_leaves_of_the_machine_s_memory(
    tmp_path: Path, path: str, groups: dict[str, str], left: tuple[int, str]
) -> None:
    assert memory_of(version_2(tmp_path, path, groups)) == left


def test_without_control_groups_the_machine_s_available_memory_counts_if_it_is_known(tmp_path: Path) -> None:
    assert memory_of(tmp_path)[0] is None
    assert memory_of(lay_out(tmp_path, {})) == AVAILABLE


@pytest.mark.parametrize("file", ["memory.max", "memory.high"])
@pytest.mark.parametrize("group", ["a/b/c", "a/b", "a"])
def test_the_tightest_limit_of_a_group_or_one_around_it_counts(tmp_path: Path, file: str, group: str) -> None:
    groups = {f"{name}/memory.max": f"{16 * GB}\n" for name in ("a", "a/b", "a/b/c")}
    groups |= {f"{name}/memory.current": f"{GB}\n" for name in ("a", "a/b", "a/b/c")}
    groups[f"{group}/{file}"] = f"{4 * GB}\n"

    assert memory_of(version_2(tmp_path, "/a/b/c", groups)) == (3 * 1024, f"limit of /sys/fs/cgroup/{group}")


@pytest.mark.parametrize(
    ("mounted", "path"),
    [
        ("/docker/abc", "/docker/abc"),  # the container sees its own group as the top
        ("/docker/abc", "/docker/abc/build"),
        ("/", "/"),  # a separate cgroup namespace
        ("/docker/abc", "/../other"),
    ],
)
def test_a_container_s_limit_is_found_wherever_its_group_is_mounted(tmp_path: Path, mounted: str, path: str) -> None:
    root = version_2(tmp_path, path, {"memory.max": f"{2 * GB}\n", "memory.current": "0\n"}, mounted)

    assert memory_of(root)[0] == 2 * 1024


def test_limits_of_version_1_count_too(tmp_path: Path) -> None:
    groups = {
        "memory/a/memory.limit_in_bytes": f"{6 * GB}\n",
        "memory/a/memory.usage_in_bytes": f"{4 * GB}\n",
        "memory/a/memory.stat": f"inactive_file 0\ntotal_inactive_file {GB}\ntotal_active_file {GB}\n",
        "memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",  # no limit, in version 1
        "memory/a/b/memory.usage_in_bytes": "4096\n",
        "cpu,cpuacct/a/b/cpu.cfs_quota_us": "100000\n",
        "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n",
    }

    found = resources.find_resources(version_1(tmp_path, "/a/b", groups))

    assert (found.memory_mb, found.memory_from) == (4 * 1024, "limit of /sys/fs/cgroup/memory/a")
    assert found.cores == 1


@pytest.mark.parametrize(
    ("cpu_max", "cores"), [("max 100000", 64), ("50000 100000", 1), ("150000 100000", 2), ("400000 100000", 4)]
)
def test_a_cpu_quota_limits_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu_max: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))

    assert resources.find_resources(version_2(tmp_path, "/a/b", {"a/cpu.max": f"{cpu_max}\n"})).cores == cores


def test_the_affinity_of_this_process_limits_the_cores(run_python: RunPython) -> None:
    script = """
import os
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
from kernelwheel.compiler import resources
print(resources.find_resources().cores)
"""
    assert run_python(script, path=[BACKEND]).stdout == "1\n"


def test_this_machine_leaves_some_memory_and_no_more_than_it_has() -> None:
    total = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert total

    assert 0 < (resources.find_resources().memory_mb or 0) <= int(total[1]) // 1024


@pytest.mark.parametrize("version", [1, 2])
def test_the_kills_of_the_innermost_group_are_counted(tmp_path: Path, version: int) -> None:
    if version == 2:
        events = {"a/memory.events": "low 0\noom 4\noom_kill 3\n", "memory.events": "oom_kill 99\n"}
        root = version_2(tmp_path, "/a", events)
    else:
        events = {"memory/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"}
        root = version_1(tmp_path, "/a", {**events, "memory/memory.oom_control": "oom_kill 99\n"})

    assert resources.oom_kills(root) == 3


# What a killed compiler looks like


@pytest.mark.parametrize(
    "line",
    [
        "c++: fatal error: Killed signal terminated program cc1plus",
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
        "clang: error: unable to execute command: Killed",
        "FAILED: [code=137] CMakeFiles/tiny_cpu.dir/one.cpp.o ",
        "cc1plus: out of memory allocating 65536 bytes after a total of 27258880 bytes",
        "/usr/include/c++/12/bits/stl_iterator_base_funcs.h(189): catastrophic error: out of memory",
        "ptxas fatal   : Memory allocation failure",
        "ninja: fatal: posix_spawn: Cannot allocate memory",
        "/usr/bin/ld: final link failed: memory exhausted",
    ],
)
def test_what_a_compiler_without_memory_says_is_known_and_quoted(line: str) -> None:
    said = f"[1/3] Building CXX object one.cpp.o\n{line}\nninja: build stopped: subcommand failed.\n"

    assert jobs.lack_of_memory(said, 0).endswith(line.strip())


@pytest.mark.parametrize(
    "line",
    [
        "one.cpp:3:14: error: 'bad_alloc' is not a member of 'std'",
        "FAILED: [code=1] CMakeFiles/tiny_cpu.dir/one.cpp.o ",
        "one.cpp:9:1: warning: unused variable 'Killed'",
        "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)",
        "cc1plus: fatal error: error writing to x.s: No space left on device",
    ],
)
def test_other_errors_are_not_put_down_to_memory(line: str) -> None:
    assert jobs.lack_of_memory(f"[1/3] Building\n{line}\n", 0) == ""


def test_what_the_kernel_counted_is_enough() -> None:
    assert "killed 2 of" in jobs.lack_of_memory("FAILED: one.cpp.o\n", 2)


# The real thing

ONE_AT_A_TIME = """
case "$*" in *" -c "*/src/*)
  if mkdir "$here/running" 2>/dev/null; then
    trap 'rmdir "$here/running"' EXIT
    for i in 1 2 3 4 5 6 7 8 9 10; do test -e "$here/killed" || sleep 0.1; done
  else
    touch "$here/killed"; kill -9 $$
  fi
esac
"""


def with_compiler(editable: Editable, script: str) -> Editable:
    """The same checkout, with a compiler that first runs this script; `$here` is the user's folder."""
    compiler = editable.folder / "c++"
    first, here, calls, *rest = compiler.read_text().splitlines()
    real = rest[-1].removeprefix("exec ")
    compiler.write_text("\n".join([first, here, calls, script, real, ""]))
    return editable


def test_a_compiler_that_is_killed_alone_is_an_error_and_one_beside_another_is_run_again_alone(small: Editable) -> None:
    said = with_compiler(small, 'case "$*" in *" -c "*/src/*) kill -9 $$;; esac').failure(MAX_JOBS="2")

    assert "BuildError: tiny 1.2.3 did not compile: out of memory, even with one compiler at a time" in said
    assert "a compiler was killed (signal 9)" in said
    assert re.search(r"required: +memory for one compiler\n", said)
    assert re.search(r"found: .*\n +\d+ MB available \(.*\); ulimit -v: no limit", said)
    assert re.search(r"to fix: .*raise the container's limit", said)
    (log,) = re.findall(r"read the whole log: (\S+)", said)
    # Both attempts are in the log: with two compilers at once, and with one.
    assert Path(log).read_text().count("ninja: build stopped") == 2

    (small.folder / "calls").unlink()
    done = with_compiler(small, ONE_AT_A_TIME).python(
        'import tiny; tiny.KERNELS.require("cpu"); print(tiny.KERNELS.info()["loaded"])', MAX_JOBS="2"
    )

    assert "compilers at once: 2: set by the option jobs" in done.stderr
    assert re.search(r"a compiler was killed \(signal 9\): .*retrying with fewer compilers at once: 1\n", done.stderr)
    # The killed file is compiled again, the finished one is not.
    assert sorted(map(small.compiled().count, ("one.cpp", "two.cpp"))) == [1, 2]
