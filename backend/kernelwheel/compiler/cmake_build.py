"""Running CMake and Ninja on a work folder, again with fewer compilers if memory runs out; their output is logged."""

from __future__ import annotations

import re
import shutil

from ..runtime.errors import BuildError
from ..runtime.progress import Say
from . import build_log
from .cmake_driver import Job, run_cmake
from .configuration import cache_entries, configuration_rests_on, environment_for, told
from .headers import Headers
from .jobs import fewer, lack_of_memory, out_of_memory
from .parent_watch import Caller
from .plan import Plan
from .resources import find_resources, oom_kills
from .toolchain.toolchain import Toolchain
from .work_folder import Work, mark_rest_whole

# Bytes; with less free space than this, a failure is blamed on the full disk, whatever CMake says.
ROOM = 1 << 20


def run(work: Work, plan: Plan, toolchain: Toolchain, headers: Headers, jobs: int, caller: Caller, say: Say) -> None:
    """Build `<work>/out`. If a compiler runs out of memory, retry with half as many at once, down to one.

    Raises:
        BuildError: it failed; the good objects are kept for the next attempt.
    """
    work.log.write_text("", encoding="utf-8")  # each attempt appends to it
    while True:
        start = work.log.stat().st_size
        kills = oom_kills()
        status = _drive(work, plan, toolchain, jobs, caller, say)
        if status == 0:
            return
        said = work.log.read_bytes()[start:].decode("utf-8", errors="replace")
        lack = lack_of_memory(said, oom_kills() - kills)
        if not lack:
            failure = _compiler_failed(work, plan, said, status)
            mark_rest_whole(work, plan, headers)
            raise failure
        if jobs == 1:
            raise out_of_memory(f"{plan.package} {plan.version}", lack, find_resources(), work.log)
        steps = re.findall(r"^\[\d+/(\d+)\]", said, re.MULTILINE)
        jobs = fewer(jobs, int(steps[-1]) if steps else None)
        say(f"{lack}; retrying with fewer compilers at once: {jobs}")


def _drive(work: Work, plan: Plan, toolchain: Toolchain, jobs: int, caller: Caller, say: Say) -> int:
    """Run CMake and Ninja, and log their output; return the exit status."""
    for name, text in told(work.path, toolchain).items():
        (work.path / name).write_text(text, encoding="utf-8")
    job = Job(
        source=work.path / "src",
        build=work.path / "build",
        modules=work.path / "recipe",
        environment=environment_for(work, toolchain, caller.environ),
        cache=cache_entries(work.path, plan, toolchain),
        rests_on=configuration_rests_on(plan, toolchain),
        jobs=jobs,
    )
    with work.log.open("a", encoding="utf-8") as log:

        def heard(line: str) -> None:
            log.write(f"{line}\n")
            log.flush()
            if line.startswith("["):
                say(build_log.progress(line))

        return run_cmake(job, caller, heard)


def _compiler_failed(work: Work, plan: Plan, said: str, status: int) -> BuildError:
    failure = build_log.first_failure(said.splitlines())
    remedies = []
    free = shutil.disk_usage(work.path).free
    if free < ROOM or "No space left on device" in failure:
        remedies.append(f"free some space in {work.path}: only {free} bytes are left")
    return BuildError(
        f"{plan.package} {plan.version} did not compile (exit status {status})",
        required="CMake and the compilers to succeed for " + plan.kernels,
        found=failure.replace(f"{work.path}/src/", ""),
        remedies=[*remedies, f"read the whole log: {work.log}"],
    )
