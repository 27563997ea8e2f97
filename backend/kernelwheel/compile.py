"""Plan -> Artifact, by CMake and Ninja. The only place that compiles, for the wheel and for the JIT alike."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from . import buildlog, readback, resources
from . import manifest as manifests
from .errors import BuildError
from .locks import NO_LOCKS, exclusive
from .manifest import Library, Manifest, Requires
from .nvcc import find_cudart
from .plan import Plan
from .resources import Jobs
from .toolchain import Toolchain
from .toolkit import cccl_version

Say = Callable[[str], None]

# What a compiler may see of the caller's environment. Flags in CXXFLAGS or NVCC_APPEND_FLAGS are options of the
# registry and come through the Plan; anything else could change the binary behind its back.
PASSED_ON = ("HOME", "LD_LIBRARY_PATH", "PATH")
# Bytes; with less left, that is what a compiler failed for, whatever CMake says.
ROOM = 1 << 20


@dataclass(frozen=True)
class Artifact:
    """A folder with libraries and a manifest. It takes no options: they were all spent in the Plan."""

    folder: Path
    manifest: Manifest


def compile_plan(
    plan: Plan,
    toolchain: Toolchain,
    source_root: Path,
    destination: Path,
    *,
    jobs: int,
    say: Say,
    known_peak_mb: int | None = None,
) -> Artifact:
    """Compile a Plan.

    The work is done in a folder whose path is made from the fingerprint alone, with torch and the toolkit reached
    through links inside it: nvcc hashes the current folder into the names of internal symbols, and so the same Plan
    gives the same bytes on every machine.

    Args:
        plan: what to compile.
        toolchain: what to compile with; its identities are in the Plan.
        source_root: the folder with the Plan's sources.
        destination: an empty folder, or one to be made, that becomes the Artifact.
        jobs: compilers at once; 0 for as many as this process has cores and memory for.
        say: receives one line of progress at a time.
        known_peak_mb: the memory that one compiler of the package took before, from `resources.known_peak`.

    Raises:
        BuildError: a compiler failed (its first error and the log are named), one alone had too little memory, or
            what they made is not the Plan's.
    """
    with ExitStack() as held:
        try:
            work, locks = _work_folder(plan, held, say)
            at_once = resources.plan_jobs(jobs, resources.find(), known_peak_mb)
            manifest = _build(work, plan, toolchain, source_root, at_once, locks, say)
        except OSError as error:
            raise BuildError(
                "the kernels cannot be compiled in the temporary folder",
                required="a temporary folder that this user can write to, with room",
                found=f"{type(error).__name__}: {error}",
                remedies=["make room there, or set TMPDIR to another folder"],
            ) from error
        destination.mkdir(parents=True, exist_ok=True)
        for library in manifest.libraries:
            shutil.copy2(work / "out" / library.file, destination)
        manifests.write(manifest, destination)  # last: a folder without a manifest is no Artifact
        shutil.rmtree(work)
    return Artifact(destination, manifest)


def _work_folder(plan: Plan, held: ExitStack, say: Say) -> tuple[Path, tuple[int, ...]]:
    """A new `<temporary folder>/kernelwheel-<fingerprint>`, and the lock that is held while it is in use.

    Where another user was there first, or the filesystem has no locks: a folder of a random name, for this once.
    """
    work = work_path(plan)
    try:
        lock = held.enter_context(exclusive(work.with_suffix(".lock"), lambda: say(f"waiting for the build in {work}")))
        with suppress(FileNotFoundError):
            info = work.lstat()
            if stat.S_ISDIR(info.st_mode) and info.st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it is another user's", str(work))
            if not stat.S_ISDIR(info.st_mode):
                raise _not_ours(work, info)
            shutil.rmtree(work)
        work.mkdir(mode=0o700)
    except OSError as error:
        if not isinstance(error, PermissionError) and error.errno not in NO_LOCKS:
            raise
        return Path(tempfile.mkdtemp(prefix=f"{work.name}.")), ()
    return work, (lock,)


def work_path(plan: Plan) -> Path:
    """The folder that a Plan is compiled in; the log `build.log` is in it."""
    return Path(tempfile.gettempdir()) / f"kernelwheel-{plan.fingerprint[:32]}"


def _not_ours(work: Path, info: os.stat_result) -> BuildError:
    return BuildError(
        "the folder to build in is not ours",
        required=f"{work}: a folder of this user, or nothing",
        found=f"owner {info.st_uid}, mode {stat.filemode(info.st_mode)}",
        remedies=["remove it, or set TMPDIR to a folder of your own"],
    )


def _build(
    work: Path, plan: Plan, toolchain: Toolchain, source_root: Path, jobs: Jobs, locks: tuple[int, ...], say: Say
) -> Manifest:
    """Compile into `<work>/out`, and describe what is there."""
    _lay_out(work, plan, toolchain, source_root)
    say(f"compiling {plan.package} {plan.version}, {_describe(plan)}: {work}")
    say(f"compilers at once: {jobs.count}: {jobs.because}")
    drivers = _drive_in_memory(work, plan, toolchain, jobs.count, locks, say)
    libraries = _read_back(plan, toolchain, sorted((work / "out").iterdir()))
    return _describe_artifact(plan, toolchain, drivers, libraries, work / "out")


def _lay_out(work: Path, plan: Plan, toolchain: Toolchain, source_root: Path) -> None:
    for name in plan.sources:
        target = work / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source_root / name, target)
    (work / "recipe").mkdir()
    for path in (Path(__file__).parent / "cmake").glob("*.cmake"):
        shutil.copyfile(path, work / "recipe" / path.name)  # without its mode: it may be read-only
    (work / "torch").symlink_to(toolchain.torch.root)
    for name in ("out", "tmp"):
        (work / name).mkdir()
    if toolchain.cuda.nvcc:
        (work / "cuda").symlink_to(toolchain.cuda.nvcc.root)


def _drive_in_memory(
    work: Path, plan: Plan, toolchain: Toolchain, jobs: int, locks: tuple[int, ...], say: Say
) -> dict[str, Any]:
    """Run the driver; where a compiler gets too little memory, again with half as many at once, at last with one.

    Returns:
        What the manifest says of it: the versions of cmake and ninja, and the memory of the largest compiler.
    """
    log = work / "build.log"
    log.write_text("", encoding="utf-8")  # then each attempt adds to it
    while True:
        start = log.stat().st_size
        kills = resources.oom_kills()
        status, programs = _drive(work, plan, toolchain, jobs, locks, say)
        file = work / "build" / "peak"
        peak_mb = resources.rounded_peak(int(file.read_text(encoding="ascii")) if file.exists() else 0)
        if status == 0:
            return {**programs, "peak_mb": peak_mb}
        said = log.read_bytes()[start:].decode("utf-8", errors="replace")
        lack = resources.lack_of_memory(said, resources.oom_kills() - kills)
        if not lack:
            raise _compiler_failed(plan, log, said, status)
        if jobs == 1:
            raise resources.out_of_memory(f"{plan.package} {plan.version}", lack, peak_mb, resources.find(), log)
        steps = re.findall(r"^\[\d+/(\d+)\]", said, re.MULTILINE)
        jobs = resources.fewer(jobs, int(steps[-1]) if steps else None)
        say(f"{lack}; going on with fewer compilers at once: {jobs}")


def _drive(
    work: Path, plan: Plan, toolchain: Toolchain, jobs: int, locks: tuple[int, ...], say: Say
) -> tuple[int, dict[str, str]]:
    """Run the driver, its output into the log; returns its exit status, and the versions of cmake and ninja.

    The driver leads a session of its own and ends it when this process is gone: no compiler writes on into the work
    folder after that. Until then it shares the lock.
    """
    job = {
        "source": str(work / "src"),
        "build": str(work / "build"),
        "modules": str(work / "recipe"),
        "jobs": jobs,
        "cache": _cache(work, plan, toolchain),
    }
    (work / "job.json").write_text(json.dumps(job), encoding="utf-8")
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {
        "LC_ALL": "C.UTF-8",  # in C, Python 3.11 stops at a .pth file of an environment in a folder such as "Müller"
        "NINJA_STATUS": "[%f/%t] ",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TMPDIR": str(work / "tmp"),  # what a killed compiler leaves there goes with the folder
    }
    if toolchain.cuda.nvcc and (cudart := find_cudart(toolchain.cuda.nvcc.root)):
        environment["LIBRARY_PATH"] = str(cudart.parent)  # pip's nvcc 13.0 looks in lib64, where pip puts nothing
    log = work / "build.log"
    programs: dict[str, str] = {}
    command = [sys.executable, "-u", str(Path(__file__).parent / "drive.py"), str(work / "job.json"), str(os.getpid())]
    with (
        log.open("a", encoding="utf-8") as lines,
        subprocess.Popen(
            command,
            cwd=work,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=locks,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            lines.write(line)
            lines.flush()
            if match := re.match(r"cmake (\S+), ninja (\S+)$", line):
                programs = {"cmake": match[1], "ninja": match[2]}
            elif line.startswith("["):
                say(buildlog.progress(line))
    return process.returncode, programs


def _cache(work: Path, plan: Plan, toolchain: Toolchain) -> dict[str, Any]:
    """The CMake cache entries that carry the Plan into KernelWheel.cmake."""
    target = Version(plan.torch_target)
    cache: dict[str, Any] = {
        "CMAKE_CXX_COMPILER": str(toolchain.cxx.path),
        "KERNELWHEEL_CUDA": plan.cuda is not None,
        "KERNELWHEEL_TORCH": str(work / "torch"),
        "KERNELWHEEL_TORCH_TARGET": f"0x{target.major:02x}{target.minor:02x}000000000000",
        "KERNELWHEEL_CXX_FLAGS": ";".join(plan.cxx_flags),
        "KERNELWHEEL_LINK_FLAGS": ";".join(plan.link_flags),
        "KERNELWHEEL_OUTPUT": str(work / "out"),
    }
    nvcc = toolchain.cuda.nvcc
    if plan.cuda and nvcc:
        inside = work / "cuda" / "bin" / "nvcc"
        cache |= {
            "CMAKE_CUDA_COMPILER": str(inside if inside.is_file() else nvcc.path),
            "CMAKE_CUDA_HOST_COMPILER": str(toolchain.cxx.path),
            "KERNELWHEEL_GENCODE": ";".join(plan.cuda.archs.gencode()),
            "KERNELWHEEL_CUDA_FLAGS": ";".join(plan.cuda.flags),
        }
    return cache


def _compiler_failed(plan: Plan, log: Path, said: str, status: int) -> BuildError:
    work = log.parent
    failure = buildlog.first_failure(said.splitlines())
    found = [str(failure).replace(f"{work}/src/", "")]
    remedies = []
    free = shutil.disk_usage(work).free
    if free < ROOM or "No space left on device" in str(failure):
        remedies.append(f"make room in {tempfile.gettempdir()}, where {free} bytes are left")
    elif missing := _architectures_missing(work, plan, failure):
        found.append(f"nvcc ended without an error of its own; it had made no code yet for {', '.join(missing)}")
        remedies.append(f"see whether it compiles without {missing[0]}: set TORCH_CUDA_ARCH_LIST")
    return BuildError(
        f"{plan.package} {plan.version} did not compile (exit status {status})",
        required="CMake and the compilers to succeed for " + _describe(plan),
        found="\n".join(found),
        remedies=[*remedies, f"read the whole log: {log}"],
    )


def _architectures_missing(work: Path, plan: Plan, failure: buildlog.Failure) -> list[str]:
    """Those that a crashed nvcc had not come to: it makes one after the other, and keeps what it made."""
    if plan.cuda is None or failure.complained or not failure.output.endswith(".cu.o"):
        return []
    stem = Path(buildlog.made_from(failure.output)).stem
    made = {path.name for path in work.glob(f"build/keep/*/{stem}.compute_*.cubin")}
    return [arch for arch in plan.cuda.sass if f"{stem}.compute_{arch.replace('.', '')}.cubin" not in made]


def _read_back(plan: Plan, toolchain: Toolchain, paths: list[Path]) -> tuple[Library, ...]:
    """Describe the libraries, and refuse them where their device code is not the Plan's."""
    libraries = tuple(readback.read_library(path, toolchain.cuobjdump) for path in paths)
    wanted = (plan.cuda.sass, plan.cuda.ptx) if plan.cuda else ((), ())
    made = [(library.sass, library.ptx) for library in libraries if library.device == "cuda"]
    if not libraries or bool(made) != (plan.cuda is not None) or any(targets != wanted for targets in made):
        raise BuildError(
            "the compilers did not make what the Plan says",
            required=f"libraries for {_describe(plan)}",
            found="\n".join(f"{lib.file}: SASS {lib.sass or 'none'}, PTX {lib.ptx or 'none'}" for lib in libraries)
            or "no library at all",
            remedies=["correct the targets in CMakeLists.txt: kernelwheel_add_op_library(<name> CUDA SOURCES ...)"],
        )
    return libraries


def _describe_artifact(
    plan: Plan, toolchain: Toolchain, drivers: dict[str, Any], libraries: tuple[Library, ...], folder: Path
) -> Manifest:
    paths = [folder / library.file for library in libraries]
    nvcc = toolchain.cuda.nvcc
    cuda = plan.cuda is not None and nvcc is not None
    glibc = readback.newest_symbol_version(paths, "GLIBC_")
    built_with = {
        "torch": toolchain.torch.version,
        "torch_cuda": toolchain.torch.cuda,
        "cxx": f"{toolchain.cxx.kind} {toolchain.cxx.version}",
        "cuda": {"enabled": cuda, "because": toolchain.cuda.reason},
        "nvcc": nvcc.version if cuda and nvcc else None,
        "cccl": cccl_version(nvcc) if cuda and nvcc else None,
        "settings": toolchain.settings.record(str(plan.cuda.archs) if plan.cuda else None),
        **drivers,
    }
    requires = Requires(
        torch=plan.torch_target,
        platform=plan.platform,
        libc=glibc.replace("GLIBC_", "glibc "),
        libstdcxx=readback.newest_symbol_version(paths, "GLIBCXX_"),
        cuda=nvcc.release[0] if cuda and nvcc else None,
        driver=f"{nvcc.release[0]}.0" if cuda and nvcc else None,
        driver_for_ptx="{}.{}".format(*nvcc.release) if cuda and nvcc else None,
    )
    return Manifest(
        package=plan.package,
        version=plan.version,
        fingerprint=plan.fingerprint,
        sources=plan.sources_digest,
        plan=plan.to_json(),
        built_with=built_with,
        requires=requires,
        libraries=libraries,
    )


def _describe(plan: Plan) -> str:
    return f"CPU and CUDA {plan.cuda.toolkit['version']} ({plan.cuda.archs})" if plan.cuda else "CPU only"
