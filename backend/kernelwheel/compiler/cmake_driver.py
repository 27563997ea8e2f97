"""CMake and Ninja, run through scikit-build-core in a forked child, whose output and end are watched here.

The child is there so that all output comes through one pipe, for the log and for progress, and so that CMake and the
compilers see only the environment that the job names. It holds the locks of its parent: should that be killed, as for
lack of memory, it ends the compilers, and nobody else starts in the folder before.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..project.build_platforms import HOST_PLATFORM
from ..runtime.machine.fork_safe_locks import kept_in_child
from .parent_watch import Caller
from .tools import CMAKE_VERSION, NINJA_VERSION

GENERATOR = "-GNinja"
BUILD_TYPE = "Release"


@dataclass(frozen=True)
class Job:
    """What CMake is run for."""

    work: Path  # the folder with `src`, `recipe` (KernelWheel.cmake) and `build`, of an earlier run or empty
    environment: Mapping[str, str]  # what CMake and the compilers see
    cache: Mapping[str, Any]  # CMake's cache entries
    rests_on: tuple[str, ...]  # what else CMake reads only once; if it changes, CMake configures from scratch
    jobs: int  # how many compilers run at once
    verbose: bool = False  # whether commands are shown


def run_cmake(job: Job, caller: Caller, on_line: Callable[[str], None]) -> int:
    """Configure and build; return the exit status, as a shell gives it. `on_line` receives each line of output.

    Once the caller is gone, this process ends, and all that it has started.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    with kept_in_child():
        child = os.fork()
    if child == 0:
        _end_session_with(parent, caller)
        _run_and_exit(job, writing)
    os.close(writing)
    rest = b""
    for block in _blocks(reading, child, caller):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            on_line(line.decode("utf-8", "replace"))
    if rest:
        on_line(rest.decode("utf-8", "replace"))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def _blocks(pipe: int, child: int, caller: Caller) -> Iterator[bytes]:
    """What comes through the pipe until the child has ended, and with it all that it started."""
    with os.fdopen(pipe, "rb", buffering=0) as stream:
        running = True
        while running:
            ready = select.select([*caller.streams, pipe], [], [], 0.2)[0]
            if caller.is_gone():
                caller.end_session()
                sys.exit(1)
            # Without waiting for its status, which `run_cmake` does.
            if not ready and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                running = False  # what holds the pipe open has left the session, as a compiler cache's server has
            while select.select([pipe], [], [], 0)[0]:
                if not (block := stream.read(1 << 16)):
                    running = False
                    break
                yield block
    caller.end_session()


def _end_session_with(parent: int, caller: Caller) -> None:
    """Kill all that this process starts, and end it, once its parent is gone: the kernel kills that one alone."""

    def end(*_: object) -> NoReturn:
        caller.end_session()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    HOST_PLATFORM.signal_without_parent(signal.SIGTERM)
    if os.getppid() != parent:
        end()


def _run_and_exit(job: Job, output: int) -> NoReturn:
    """In the child: do the work, and end without any of the parent's clean-up."""
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(job.work)
        os.environ.clear()
        os.environ.update(job.environment)
        _configure_and_build(job)
        status = 0
    except SystemExit as ended:
        print(ended, flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _configure_and_build(job: Job) -> None:
    from packaging.specifiers import SpecifierSet
    from scikit_build_core.cmake import CMake, CMaker
    from scikit_build_core.program_search import best_program, get_ninja_programs

    cmake = CMake.default_search(version=SpecifierSet(CMAKE_VERSION))
    ninja = best_program(get_ninja_programs(), version=SpecifierSet(NINJA_VERSION))
    assert ninja is not None  # as `require_tools` has seen
    found = (str(cmake.cmake_path), str(cmake.version), str(ninja.path), json.dumps(job.cache))
    build = job.work / "build"
    _forget_configuration(build, [*job.rests_on, *found])
    maker = CMaker(cmake, job.work / "src", build, BUILD_TYPE, module_dirs=[job.work / "recipe"])
    maker.env = dict(job.environment)
    maker.init_cache({**job.cache, "CMAKE_MAKE_PROGRAM": ninja.path, "CMAKE_EXPORT_COMPILE_COMMANDS": True})
    print(f"cmake {cmake.version}, ninja {ninja.version}", flush=True)
    maker.configure(cmake_args=[GENERATOR])
    maker.build([f"-j{job.jobs}", *(["-v"] if job.verbose else [])])


def _forget_configuration(build: Path, rests_on: list[str]) -> None:
    """Make CMake configure from scratch if what it found may be gone, as in a new isolated environment.

    The objects stay: Ninja decides whether they are up to date, from their commands and input files.
    """
    # In a new isolated environment, CMaker would remove the objects too, and then all is compiled again.
    (build / ".skbuild-info.json").unlink(missing_ok=True)
    record, text = build / "configured.json", json.dumps(rests_on)
    if not record.is_file() or record.read_text(encoding="utf-8") != text:
        (build / "CMakeCache.txt").unlink(missing_ok=True)
        for compilers in (build / "CMakeFiles").glob("[0-9]*"):
            shutil.rmtree(compilers)
        build.mkdir(exist_ok=True)
        record.write_text(text, encoding="utf-8")
