"""Running CMake and Ninja on a work folder, again with fewer compilers if memory runs out; their output is logged."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..runtime.errors import BuildError
from ..runtime.progress import Say
from .cmake_driver import Job, run_cmake
from .cmake_inputs import cache_entries, configuration_rests_on, recipe_files
from .crashes import find_crash
from .jobs import fewer, lack_of_memory, out_of_memory
from .parent_watch import Caller
from .plan import Plan
from .resources import find_resources, oom_kills
from .toolchain.compiler_environment import environment_for
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit import find_cudart
from .work_folder import LOG, mark_rest_reusable

# Bytes; with less free space than this, a failure is blamed on the full disk, whatever CMake says.
ROOM = 1 << 20
# How many lines of a compiler error a message quotes; the log has the rest.
QUOTED = 8
COMPLAINT = re.compile(r"\berror\b\W|\bKilled\b|^CMake Error\b")


def run(work: Path, plan: Plan, toolchain: Toolchain, jobs: int, caller: Caller, say: Say) -> None:
    """Build `<work>/out`. If a compiler runs out of memory, retry with half as many at once, down to one.

    Raises:
        BuildError: it failed; the good objects are kept for the next attempt.
    """
    (work / LOG).write_text("", encoding="utf-8")  # each attempt appends to it
    while True:
        start = (work / LOG).stat().st_size
        kills = oom_kills()
        status = _drive(work, plan, toolchain, jobs, caller, say)
        if status == 0:
            return
        output = (work / LOG).read_bytes()[start:].decode("utf-8", errors="replace")
        lack = lack_of_memory(output, oom_kills() - kills)
        if not lack:
            failure = _compiler_failed(work, plan, toolchain, output, status)
            mark_rest_reusable(work, plan)
            raise failure
        if jobs == 1:
            raise out_of_memory(f"{plan.package} {plan.version}", lack, find_resources(), work / LOG)
        steps = re.findall(r"^\[\d+/(\d+)\]", output, re.MULTILINE)
        jobs = fewer(jobs, int(steps[-1]) if steps else None)
        say(f"{lack}; retrying with fewer compilers at once: {jobs}")


def _drive(work: Path, plan: Plan, toolchain: Toolchain, jobs: int, caller: Caller, say: Say) -> int:
    """Run CMake and Ninja, and log their output; return the exit status."""
    for name, text in recipe_files(work, toolchain).items():
        (work / name).write_text(text, encoding="utf-8")
    compiler, launchers = toolchain.cxx.environment(work), toolchain.launchers
    launched = bool(launchers.cxx or launchers.cuda)
    cudart = find_cudart(work / "cuda") if toolchain.cuda.nvcc else None
    job = Job(
        work=work,
        environment=environment_for(work, caller.environ, compiler, launched=launched, cudart=cudart),
        cache=cache_entries(work, plan, toolchain),
        rests_on=configuration_rests_on(plan, toolchain),
        jobs=jobs,
        verbose=bool(caller.environ.get("VERBOSE")),
    )
    with (work / LOG).open("a", encoding="utf-8") as log:

        def on_line(line: str) -> None:
            log.write(f"{line}\n")
            log.flush()
            if job.verbose or line.startswith("["):
                say(line if job.verbose else progress(line))

        return run_cmake(job, caller, on_line)


def _compiler_failed(work: Path, plan: Plan, toolchain: Toolchain, output: str, status: int) -> BuildError:
    failure = first_failure(output.splitlines())
    crash = find_crash(failure, toolchain)
    remedies, crashed = ([crash.remedy], f"{crash.name} crashed, ") if crash else ([], "")
    free = shutil.disk_usage(work).free
    if free < ROOM or "No space left on device" in failure:
        remedies.append(f"free some space in {work}: only {free} bytes are left")
    return BuildError(
        f"{plan.package} {plan.version} did not compile ({crashed}exit status {status})",
        required="CMake and the compilers to succeed for " + plan.kernels,
        found=failure.replace(f"{work}/src/", ""),
        remedies=[*remedies, f"read the whole log: {work / LOG}"],
    )


# The output of CMake and Ninja: pure functions of text


def progress(line: str) -> str:
    """Shorten Ninja's `[3/9] Building CUDA object CMakeFiles/x.dir/a.cu.o` to `[3/9] CUDA a.cu`."""
    count, _, rest = line.rstrip().partition("] ")
    match = re.match(r"(?:Building|Linking) (\w+) (?:object|shared library|shared module) (.*)", rest)
    return f"{count}] {match[1]} {source_of(match[2])}" if match else line.rstrip()


def first_failure(lines: Sequence[str]) -> str:
    """The first failure in the log of a failed build: the file, followed by the compiler's relevant lines."""
    failed = next((i for i, line in enumerate(lines) if line.startswith("FAILED: ")), None)
    if failed is None:
        # CMake or the driver failed, not Ninja. The driver's own traceback is useless to a user.
        end = next((i for i, line in enumerate(lines) if line.startswith("Traceback ")), len(lines))
        return "\n".join(_quote(lines[:end] or lines)) or "no output"
    output = re.sub(r"^FAILED: (\[code=\d+\] )?", "", lines[failed]).strip()
    after = lines[failed + 2 :]  # the line in between is the full compiler command
    end = next((i for i, line in enumerate(after) if re.match(r"\[\d+/\d+\] |FAILED: |ninja: ", line)), len(after))
    return "\n".join([source_of(output), *_quote(after[:end], one_step=True)])


def source_of(output: str) -> str:
    """The name a user recognises an output by: the source file of an object, or a library's file name."""
    path = output.strip('"')
    source = re.fullmatch(r"CMakeFiles/[^/]+\.dir/(.*)\.o", path)
    return source[1] if source else path.rpartition("/")[2]


def _quote(lines: Sequence[str], *, one_step: bool = False) -> list[str]:
    """The lines around the first error; if there is none, the first lines of one step, or the last of a whole log."""
    lines = [line for line in lines if line.strip()]
    first = next((i for i, line in enumerate(lines) if COMPLAINT.search(line)), None)
    if first is None:
        return lines[:QUOTED] if one_step else lines[-QUOTED:]
    # Include the context line before it, "In …:".
    begin = 0 if one_step and first < QUOTED // 2 else max(first - one_step, 0)
    return lines[begin : begin + QUOTED]
