"""Running CMake and Ninja on a work folder, through cmake_driver.py in a child process.

Their output goes into the log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packaging.version import Version

from ..core.errors import BuildError
from ..core.platforms import PLATFORMS
from . import build_log, resources
from .extension_lists import as_one, cmake_lists
from .headers import Headers, header_folders
from .plan import Plan
from .toolchain.nvcc import find_cudart
from .toolchain.programs import passed_on
from .toolchain.toolchain import Toolchain
from .work_folder import Work, in_makefile, mark_rest_whole

# Bytes; with less free space than this, a failure is blamed on the full disk, whatever CMake says.
ROOM = 1 << 20


def run(work: Work, plan: Plan, toolchain: Toolchain, headers: Headers, jobs: int, say: Callable[[str], None]) -> int:
    """Build `<work>/out`. If a compiler runs out of memory, retry with half as many at once, down to one.

    Returns:
        The peak memory of the largest compiler, in MiB, rounded up.

    Raises:
        BuildError: it failed; the good objects are kept for the next attempt.
    """
    work.log.write_text("", encoding="utf-8")  # each attempt appends to it
    while True:
        start = work.log.stat().st_size
        kills = resources.oom_kills()
        status = _drive(work, plan, toolchain, jobs, say)
        file = work.path / "build" / "peak"
        peak = file.read_text(encoding="ascii") if file.exists() else ""
        peak_mb = resources.rounded_peak(int(peak) if peak.isdecimal() else 0)  # empty if the disk was full
        if status == 0:
            return peak_mb
        said = work.log.read_bytes()[start:].decode("utf-8", errors="replace")
        lack = resources.lack_of_memory(said, resources.oom_kills() - kills)
        if not lack:
            failure = _compiler_failed(work, plan, said, status)
            mark_rest_whole(work, plan, headers)
            raise failure
        if jobs == 1:
            raise resources.out_of_memory(
                f"{plan.package} {plan.version}", lack, peak_mb, resources.find_resources(), work.log
            )
        steps = re.findall(r"^\[\d+/(\d+)\]", said, re.MULTILINE)
        jobs = resources.fewer(jobs, int(steps[-1]) if steps else None)
        say(f"{lack}; retrying with fewer compilers at once: {jobs}")


def _drive(work: Work, plan: Plan, toolchain: Toolchain, jobs: int, say: Callable[[str], None]) -> int:
    """Run the driver and log its output; return its exit status.

    The driver runs in its own session and kills that session when this process dies, so no compiler keeps writing to
    the work folder afterwards. Until then it shares the lock.
    """
    job = {
        "source": str(work.path / "src"),
        "build": str(work.path / "build"),
        "modules": str(work.path / "recipe"),
        "jobs": jobs,
        "cache": _cache(work.path, plan, toolchain),
        "rests_on": _configuration_rests_on(plan, toolchain),
    }
    (work.path / "job.json").write_text(json.dumps(job), encoding="utf-8")
    (work.path / "recipe" / "paths.rsp").write_text(_prefix_map(work.path), encoding="utf-8")
    (work.path / "recipe" / "depfile.sed").write_text(_without_links(work.path), encoding="utf-8")
    if cross := toolchain_file(toolchain):
        (work.path / "recipe" / "toolchain.cmake").write_text(cross, encoding="utf-8")
    drive = Path(__file__).with_name("cmake_driver.py")
    with (
        work.log.open("a", encoding="utf-8") as lines,
        subprocess.Popen(
            [sys.executable, "-u", str(drive), str(work.path / "job.json"), str(os.getpid())],
            cwd=work.path,
            env=_environment(work, toolchain),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            pass_fds=work.locks,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            lines.write(line)
            lines.flush()
            if line.startswith("["):
                say(build_log.progress(line))
    return process.returncode


def _prefix_map(work: Path) -> str:
    """The response file that makes `__FILE__` the same in every folder.

    Of the characters allowed in the path (work_folder.FIT), only a space is special there. It is escaped, not quoted,
    because sccache does not understand quotes in response files.
    """
    return f"-ffile-prefix-map={work}=.".replace(" ", "\\ ") + "\n"


def _without_links(work: Path) -> str:
    """The sed script that removes from a dependency file everything reached through the folder's links."""
    quoted = re.sub(r"([][.*^$+?(){}|\\!])", r"\\\1", in_makefile(work))
    return f"s!{quoted}/(torch|cuda|headers)/([^[:space:]\\\\]|\\\\.)*!!g\n"


def _environment(work: Work, toolchain: Toolchain) -> dict[str, str]:
    environment = passed_on(os.environ) | {
        "LC_ALL": "C.UTF-8",  # under C, Python 3.11 fails on .pth files of an environment in a folder such as "Müller"
        "NINJA_STATUS": "[%f/%t] ",
        "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder and isinstance(folder, str)),
        "TMPDIR": str(work.path / "tmp"),  # a killed compiler's leftovers are removed with the folder
    }
    if launched := toolchain.launchers.environment(os.environ):
        environment |= {**launched, "TMPDIR": tempfile.gettempdir()}  # a launcher's server outlives this build
    if toolchain.cuda.nvcc and (cudart := find_cudart(work.path / "cuda")):
        environment["LIBRARY_PATH"] = str(cudart.parent)  # nvcc 13.0 from pip looks in lib64, which pip leaves empty
    return environment


def toolchain_file(toolchain: Toolchain) -> str:
    """What CMake must know in a build for another platform (cmake-toolchains(7)); empty in one for this machine's."""
    if toolchain.cross is None:
        return ""
    nvcc, platform = toolchain.cuda.nvcc, toolchain.cross.platform
    libc = Path(toolchain.cxx.answer(f"-print-file-name={platform.libc}")).resolve()
    told = toolchain.cxx.cross_target
    lines = {
        "CMAKE_SYSTEM_NAME": platform.cmake_system,
        "CMAKE_SYSTEM_PROCESSOR": platform.machine,
        "CMAKE_CXX_COMPILER": toolchain.cxx.path,
        "CMAKE_FIND_ROOT_PATH": libc.parents[1],
        **{f"CMAKE_FIND_ROOT_PATH_MODE_{kind}": "ONLY" for kind in ("LIBRARY", "INCLUDE", "PACKAGE")},
        "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
    }
    if told:
        lines["CMAKE_CXX_COMPILER_TARGET"] = told
    if nvcc and nvcc.target:
        host = f" -Xcompiler=--target={told}" if told else ""
        lines |= {
            "CMAKE_CUDA_HOST_COMPILER": toolchain.cxx.path,
            "CMAKE_CUDA_FLAGS_INIT": f"--target-directory {nvcc.target.name}{host}",
            # CMake links what nvcc compiled with the host compiler, and tells it nothing of C++.
            **({"CMAKE_SHARED_LINKER_FLAGS_INIT": f"--target={told}"} if told else {}),
        }
    return "".join(f'set({name} "{value}")\n' for name, value in lines.items())


def _configuration_rests_on(plan: Plan, toolchain: Toolchain) -> list[str]:
    """Inputs besides the cache entries that CMake reads only once: if they change, it must configure from scratch."""
    nvcc = toolchain.cuda.nvcc
    lists = {name: plan.sources[name] for name in plan.sources if name.endswith(("CMakeLists.txt", ".cmake"))}
    own = cmake_lists(plan) if plan.extensions else ""
    cross = toolchain_file(toolchain)
    return [str(toolchain.torch.root), str(nvcc.root if nvcc else None), json.dumps(lists, sort_keys=True), own, cross]


def _cache(work: Path, plan: Plan, toolchain: Toolchain) -> dict[str, Any]:
    """The CMake cache entries that carry the Plan into KernelWheel.cmake."""
    target, platform = Version(plan.torch_target), PLATFORMS[plan.platform]
    cache: dict[str, Any] = {
        "CMAKE_CXX_COMPILER": str(toolchain.cxx.path),
        "KERNELWHEEL_CUDA": plan.cuda is not None,
        "KERNELWHEEL_TORCH": str(work / "torch"),
        "KERNELWHEEL_TORCH_TARGET": f"0x{target.major:02x}{target.minor:02x}000000000000",
        "KERNELWHEEL_BINDING": "python" if plan.binding and plan.binding.python else "torch" if plan.binding else "",
        "KERNELWHEEL_LIBRARIES": str(work / "libraries"),
        "KERNELWHEEL_CXX_FLAGS": as_one(plan.flags("cxx-flags")),
        "KERNELWHEEL_LINK_FLAGS": as_one(plan.flags("link-flags")),
        "KERNELWHEEL_LINK_OPTIONS": ";".join(platform.link_options),
        "KERNELWHEEL_LINK_COMPLETE": ";".join(platform.link_complete),
        "KERNELWHEEL_CUDART_LIBRARIES": ";".join(platform.cudart_libraries),
        "KERNELWHEEL_TAKEN": ";".join(sorted(plan.taken)),
        "KERNELWHEEL_OLDER": str(work / "older") if plan.glibc else "",
        "KERNELWHEEL_OUTPUT": str(work / "out"),
        "KERNELWHEEL_RECIPE": "../recipe",
    }
    if toolchain.cross:
        cache["CMAKE_TOOLCHAIN_FILE"] = str(work / "recipe" / "toolchain.cmake")
        if not plan.binding:  # which links to the target's torch
            cache["KERNELWHEEL_TORCH_STUBS"] = str(work / "torch-stubs")
    for language, folders in header_folders(plan, toolchain).items():
        links = [str(work / "headers" / f"{language}{number}") for number in range(len(folders))]
        cache[f"KERNELWHEEL_{language.upper()}_HEADERS"] = ";".join(links)
    if toolchain.launchers.cxx:
        cache["CMAKE_CXX_COMPILER_LAUNCHER"] = ";".join(toolchain.launchers.cxx)
    if toolchain.launchers.cuda:
        cache["CMAKE_CUDA_COMPILER_LAUNCHER"] = ";".join(toolchain.launchers.cuda)
    nvcc = toolchain.cuda.nvcc
    if plan.cuda and nvcc and nvcc.target:
        cache["KERNELWHEEL_LIBRARIES"] += f";{work / 'cuda' / 'targets' / nvcc.target.name / 'lib'}"
    if plan.cuda and nvcc:
        inside = work / "cuda" / "bin" / "nvcc"
        cache |= {
            "CMAKE_CUDA_COMPILER": str(inside if inside.is_file() else nvcc.path),
            "CMAKE_CUDA_HOST_COMPILER": str(toolchain.cxx.path),
            "CMAKE_CUDA_COMPILER_FORCED": True,  # no test program, which takes a second
            "KERNELWHEEL_NVCC": "" if nvcc.target else nvcc.version,
            "KERNELWHEEL_TOOLKIT": str(work / "cuda" if inside.is_file() else nvcc.root),
            "KERNELWHEEL_GENCODE": ";".join(plan.cuda.archs.gencode()),
            "KERNELWHEEL_CUDA_FLAGS": as_one(plan.flags("cuda-flags")),
        }
    return cache


def _compiler_failed(work: Work, plan: Plan, said: str, status: int) -> BuildError:
    failure = build_log.first_failure(said.splitlines())
    found = [str(failure).replace(f"{work.path}/src/", "")]
    remedies = []
    free = shutil.disk_usage(work.path).free
    if free < ROOM or "No space left on device" in str(failure):
        remedies.append(f"free some space in {work.path}: only {free} bytes are left")
    elif missing := _architectures_missing(work.path, plan, failure):
        found.append(f"nvcc exited without printing an error, before it had made code for {', '.join(missing)}")
        remedies.append(f"check whether it compiles without {missing[0]}: set TORCH_CUDA_ARCH_LIST")
    return BuildError(
        f"{plan.package} {plan.version} did not compile (exit status {status})",
        required="CMake and the compilers to succeed for " + plan.kernels,
        found="\n".join(found),
        remedies=[*remedies, f"read the whole log: {work.log}"],
    )


def _architectures_missing(work: Path, plan: Plan, failure: build_log.Failure) -> list[str]:
    """The architectures a crashed nvcc had not reached: it compiles them in turn and keeps the finished cubins."""
    if plan.cuda is None or failure.complained or not failure.output.endswith(".cu.o"):
        return []
    stem = Path(build_log.made_from(failure.output)).stem
    made = {path.name for path in work.glob(f"build/keep/*/{stem}.compute_*.cubin")}
    return [arch for arch in plan.cuda.sass if f"{stem}.compute_{arch.replace('.', '')}.cubin" not in made]
