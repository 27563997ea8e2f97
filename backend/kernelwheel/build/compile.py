"""Plan -> Artifact, by CMake and Ninja. The only place that compiles, for the wheel and for the JIT alike."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from packaging.version import Version

from ..core import manifest as manifests
from ..core.errors import BuildError, way_out
from ..core.manifest import Library, Manifest, Requires
from ..core.variables import own_variable
from ..store.artifact import Artifact
from ..store.entries import Store
from ..store.permissions import NOBODY_ELSE, Trust
from ..toolchain.toolchain import Toolchain
from ..toolchain.toolkit import cccl_version
from . import cmake_build as driving
from . import readback, resources
from .plan import Plan
from .work_folder import claimed, lay_out, mark_whole, tidy

Say = Callable[[str], None]
# What the system answers where nothing more can be written.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def compile_plan(
    plan: Plan,
    toolchain: Toolchain,
    source_root: Path,
    destination: Path,
    *,
    jobs: int,
    say: Say,
    known_peak_mb: int | None = None,
    store: Store | None = None,
    trust: Trust = NOBODY_ELSE,
) -> Artifact:
    """Compile a Plan.

    The work is done in a folder of the user's cache, named after the Plan, with torch and the toolkit reached through
    links inside it. Objects that an earlier compile left there are used again. Wherever it lies, the same Plan gives
    the same bytes.

    Args:
        plan: what to compile.
        toolchain: what to compile with; its identities are in the Plan.
        source_root: the folder with the Plan's sources.
        destination: an empty folder, or one to be made, that becomes the Artifact.
        jobs: compilers at once; 0 for as many as this process has cores and memory for.
        say: receives one line of progress at a time.
        known_peak_mb: the memory that one compiler of the package took before, from `resources.known_peak`.
        store: the user's own, whose cache folder has room for the work; None for the temporary folder.
        trust: who may write to the temporary folder, where that is used.

    Raises:
        BuildError: a compiler failed (its first error and the log are named), one alone had too little memory, or
            what they made is not the Plan's.
    """
    with ExitStack() as held:
        place = store.builds if store else Path(tempfile.gettempdir())
        try:
            work = held.enter_context(claimed(plan, store, store.trust if store else trust, say))
            place = work.path
            lay_out(work, plan, toolchain, source_root)
            say(f"compiling {plan.package} {plan.version}, {plan.kernels}: {work.path}")
            at_once = resources.plan_jobs(jobs, resources.find_resources(), known_peak_mb)
            say(f"compilers at once: {at_once.count}: {at_once.because}")
            drivers = driving.run(work, plan, toolchain, at_once.count, say)
            libraries = _read_back(plan, toolchain, sorted((work.path / "out").iterdir()))
            manifest = _describe_artifact(plan, toolchain, drivers, libraries, work.path / "out")
            mark_whole(work, plan, toolchain)
        except OSError as error:
            raise _refused_by_the_system(error, place, own_variable(plan.package, "cache-dir")) from error
        destination.mkdir(parents=True, exist_ok=True)
        for library in manifest.libraries:
            shutil.copy2(work.path / "out" / library.file, destination)
        manifests.write(manifest, destination)  # last: a folder without a manifest is no Artifact
        tidy(work)
    return Artifact(destination, manifest)


def _refused_by_the_system(error: OSError, place: Path, variable: str) -> BuildError:
    """The error for a file that cannot be read, or written; of the folder that is compiled in, or any other."""
    path = Path(error.filename) if isinstance(error.filename, str) else place
    if error.errno in NO_ROOM or (isinstance(error, PermissionError) and path.is_relative_to(place)):
        return BuildError(
            "the kernels cannot be compiled: a file cannot be written",
            required=f"a folder that this user can write to, with room: {place}",
            found=f"{type(error).__name__}: {error}",
            remedies=[f"make room there, or set {variable} to another folder"],
        )
    return BuildError(
        "the kernels cannot be compiled: a file cannot be read or written",
        required=f"a file that this user can read and write: {path}",
        found=f"{type(error).__name__}: {error}",
        remedies=[way_out(error)],
    )


def _read_back(plan: Plan, toolchain: Toolchain, paths: list[Path]) -> tuple[Library, ...]:
    """Describe the libraries, and refuse them where their device code is not the Plan's."""
    libraries = tuple(readback.read_library(path, toolchain.cuobjdump) for path in paths)
    wanted = (plan.cuda.sass, plan.cuda.ptx) if plan.cuda else ((), ())
    made = [(library.sass, library.ptx) for library in libraries if library.device == "cuda"]
    if not libraries or bool(made) != (plan.cuda is not None) or any(targets != wanted for targets in made):
        raise BuildError(
            "the compilers did not make what the Plan says",
            required=f"libraries for {plan.kernels}",
            found="\n".join(f"{lib.file}: SASS {lib.sass or 'none'}, PTX {lib.ptx or 'none'}" for lib in libraries)
            or "no library at all",
            remedies=["correct the targets in CMakeLists.txt: kernelwheel_add_op_library(<name> CUDA SOURCES ...)"],
        )
    _check_abi(plan, libraries)
    return libraries


def _check_abi(plan: Plan, libraries: tuple[Library, ...]) -> None:
    """The wheel's tag and the checks at run time follow `abi`: what was built must be of that kind."""
    modules = [f"{library.file}: Python imports it as {library.module}" for library in libraries if library.module]
    if modules and not plan.binding:
        raise BuildError(
            f"{plan.package} says that it uses the stable ABI alone, and has modules that are bound to one Python",
            required="libraries of operators, made by kernelwheel_add_op_library",
            found="\n".join(modules),
            remedies=['write abi = "torch" into [tool.kernelwheel] of pyproject.toml'],
        )
    if plan.binding and not modules:
        raise BuildError(
            f"{plan.package} says that it has modules which are bound to one Python and one torch, and has none",
            required="a module, made by kernelwheel_add_pybind11_module",
            found="\n".join(f"{library.file}: a library of operators" for library in libraries),
            remedies=['take abi = "torch" out of [tool.kernelwheel] of pyproject.toml: one wheel serves every Python'],
        )


def decisions(plan: Plan, toolchain: Toolchain) -> dict[str, Any]:
    """The part of `built_with` that says who decided what: two builds may come to one Plan for different reasons."""
    return {
        "cuda": {"enabled": plan.cuda is not None, "because": toolchain.cuda.reason},
        "settings": toolchain.settings.record(str(plan.cuda.archs) if plan.cuda else None),
    }


def _describe_artifact(
    plan: Plan, toolchain: Toolchain, drivers: dict[str, Any], libraries: tuple[Library, ...], folder: Path
) -> Manifest:
    paths = [folder / library.file for library in libraries]
    nvcc = toolchain.cuda.nvcc
    cuda = plan.cuda is not None and nvcc is not None
    built_for = Version(toolchain.torch.version)
    glibc = readback.newest_symbol_version(paths, "GLIBC_")
    built_with = {
        "torch": toolchain.torch.version,
        "torch_cuda": toolchain.torch.cuda,
        "cxx": f"{toolchain.cxx.kind} {toolchain.cxx.version}",
        "nvcc": nvcc.version if cuda and nvcc else None,
        "cccl": cccl_version(nvcc) if cuda and nvcc else None,
        **drivers,
        **decisions(plan, toolchain),
    }
    requires = Requires(
        torch=f"{built_for.major}.{built_for.minor}.*" if plan.binding else plan.torch_target,
        platform=plan.platform,
        libc=glibc.replace("GLIBC_", "glibc "),
        libstdcxx=readback.newest_symbol_version(paths, "GLIBCXX_"),
        cuda=nvcc.release[0] if cuda and nvcc else None,
        driver=f"{nvcc.release[0]}.0" if cuda and nvcc else None,
        driver_for_ptx="{}.{}".format(*nvcc.release) if cuda and nvcc else None,
        python=plan.binding.python if plan.binding else None,
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
