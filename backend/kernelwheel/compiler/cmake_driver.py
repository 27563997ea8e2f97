"""The child process that runs CMake and Ninja through scikit-build-core.

Run as `python cmake_driver.py JOB.json CALLER`, where CALLER is the caller's process id. It is a separate process so
that the caller gets all output through a pipe (for the log and for progress), and so that compilers see only the
environment that `cmake_build` passes on. It imports nothing from this package: in a vendored copy, that would import
the surrounding package.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from pathlib import Path

from packaging.specifiers import SpecifierSet
from scikit_build_core.cmake import CMake, CMaker
from scikit_build_core.errors import CMakeNotFoundError
from scikit_build_core.program_search import best_program, get_ninja_programs

CMAKE_VERSION = ">=3.24"
NINJA_VERSION = ">=1.5"


def supervise(worker: int, alive: int) -> int:
    """Wait until the worker ends or the caller dies or gives up (standard input closes), then kill what is left.

    This process is separate from the worker, which starts CMake and Ninja, so that it can kill the worker too: no
    compiler can start after the last check. The parent's process id is watched as well, because a forked child of the
    caller may have inherited the other end of standard input and keep it open.

    Returns:
        The worker's exit status, as a shell gives it.
    """
    while os.getppid() == int(sys.argv[2]) and not select.select([0, alive], [], [], 0.2)[0]:
        pass
    if not Path("/proc/self/stat").exists():  # no way to list processes, but Ninja forwards this signal to its children
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
    while (others := session_members()) != []:
        for process in others or ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    return status if status >= 0 else 128 - status


def session_members() -> list[int] | None:
    """The other live processes of this session; empty without /proc, None if too many files are open.

    The session, not the process group: Ninja gives each compiler a group of its own.
    """
    members = []
    try:
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            with contextlib.suppress(FileNotFoundError, PermissionError, ProcessLookupError):  # ended, or not ours
                # proc(5): the name in parentheses is followed by state, parent, process group and session.
                status = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                state, _, _, session = status.rpartition(")")[2].split()[:4]
                if int(session) == os.getsid(0) and state != "Z" and int(folder.name) != os.getpid():
                    members.append(int(folder.name))
    except OSError as error:
        return None if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM) else []
    return members


def forget_configuration(build: Path, rests_on: list[str]) -> None:
    """Make CMake configure from scratch if what it found may be gone, as in a new isolated environment.

    The objects stay: Ninja decides whether they are up to date, from their commands and input files.
    """
    (build / ".skbuild-info.json").unlink(missing_ok=True)  # CMaker would remove the objects too
    record, text = build / "configured.json", json.dumps(rests_on)
    if not record.is_file() or record.read_text(encoding="utf-8") != text:
        (build / "CMakeCache.txt").unlink(missing_ok=True)
        for compilers in (build / "CMakeFiles").glob("[0-9]*"):
            shutil.rmtree(compilers)
        build.mkdir(exist_ok=True)
        record.write_text(text, encoding="utf-8")


def main(job_file: str) -> None:
    """Configure and build a job: source, build, modules, jobs, CMake cache entries, and the inputs they rest on."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    ninja = best_program(get_ninja_programs(), version=SpecifierSet(NINJA_VERSION))
    if ninja is None:
        raise SystemExit(f"error: no ninja {NINJA_VERSION} found: pip install ninja")
    try:
        cmake = CMake.default_search(version=SpecifierSet(CMAKE_VERSION))
    except CMakeNotFoundError:
        raise SystemExit(f"error: no cmake {CMAKE_VERSION} found: pip install cmake") from None
    found = [str(cmake.cmake_path), str(cmake.version), str(ninja.path), json.dumps(job["cache"])]
    forget_configuration(Path(job["build"]), [*job["rests_on"], *found])
    maker = CMaker(
        cmake,
        source_dir=Path(job["source"]),
        build_dir=Path(job["build"]),
        build_type="Release",
        module_dirs=[Path(job["modules"])],
    )
    maker.env = dict(os.environ)
    maker.init_cache({**job["cache"], "CMAKE_MAKE_PROGRAM": ninja.path, "CMAKE_EXPORT_COMPILE_COMMANDS": True})
    print(f"cmake {maker.cmake.version}, ninja {ninja.version}", flush=True)
    try:
        maker.configure(cmake_args=["-GNinja"])
        maker.build([f"-j{job['jobs']}"])
    finally:
        note_peak(Path(job["build"]) / "peak")


def note_peak(file: Path) -> None:
    """Record the peak memory, in kB, of the largest process of this build so far, earlier runs included.

    A compiler's passes run one after another, nvcc's too, so the largest pass is the peak of the whole compile.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text(encoding="ascii") if file.exists() else ""
    peak = max(int(before) if before.isdecimal() else 0, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    with contextlib.suppress(OSError):  # on a full disk, the compilers' own error is the one to report
        file.write_text(str(peak), encoding="ascii")


if __name__ == "__main__":
    alive, held_by_worker = os.pipe()
    if worker := os.fork():
        os.close(held_by_worker)
        sys.exit(supervise(worker, alive))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    main(sys.argv[1])
