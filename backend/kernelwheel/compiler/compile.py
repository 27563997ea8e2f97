"""The one function that compiles a Plan into an Artifact, for wheels and for the JIT."""

from __future__ import annotations

import errno
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from ..project.extension import refuse
from ..runtime.artifact import manifest as manifests
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.content import part_of_library
from ..runtime.artifact.manifest import Library, Manifest, Requires
from ..runtime.errors import BuildError, way_out
from ..runtime.machine.files import json_sha256
from ..runtime.machine.host import torch_required
from ..runtime.progress import Say
from ..runtime.store.store import Store, trust_of
from ..runtime.variables import own_variable
from ..store import manifest_file
from ..version import __version__
from . import binary_inspect, cmake_build
from .binary_inspect import library_at
from .cmake_inputs import generated_sources
from .cpu import check_commands
from .cross.cmake_files import stub_files
from .device_code import host_code_digest
from .files_read import check_read
from .jobs import plan_jobs
from .missing_symbols import refuse_missing_symbols
from .parent_watch import Caller
from .plan import Plan
from .resources import find_resources
from .taken_libraries import take
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit_identity import cccl_version
from .tools import CMAKE_VERSION, NINJA_VERSION
from .work_folder import locked_workdir, mark_reusable, prepare_workdir, remove_temporary

# Errors that mean nothing more can be written.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Planned(NamedTuple):
    """What is compiled."""

    plan: Plan
    toolchain: Toolchain
    wheel: Artifact | None = None  # the Artifact that has what the Plan takes
    by_content: bool = False  # whether it is found by its content alone, as all but what a wheel's build makes


def compile_plan(
    planned: Planned, source_root: Path, destination: Path, store: Store | None, caller: Caller, say: Say
) -> Artifact:
    """Compile a Plan.

    It is compiled in a folder of the user's cache named after the Plan, with torch and the toolkit reached through
    links inside it; without a Store, or if that cannot be used, in the temporary folder. Objects left by an earlier
    compile are reused. The same Plan gives the same bytes, wherever that folder is.

    `destination` becomes the folder of the Artifact.

    Raises:
        BuildError: a compiler failed (the error quotes its first error and names the log), a single compiler ran out
            of memory, or the libraries are not what the Plan specifies.
        OtherHostCode: the wheel's host code is not for the device code that was compiled.
    """
    plan, toolchain, wheel, by_content = planned
    with ExitStack() as held:
        folder = store.builds if store else Path(tempfile.gettempdir())
        try:
            work = held.enter_context(locked_workdir(plan, store, trust_of(toolchain.settings), say))
            folder = work
            generated = generated_sources(plan, toolchain)
            if toolchain.target:
                stubs = stub_files(toolchain.torch, toolchain.target)
                generated |= {f"torch-stubs/{name}": text for name, text in stubs.items()}
            prepare_workdir(work, plan, toolchain, source_root, generated)
            say(f"compiling {plan.package} {plan.version}, {plan.kernels}: {work}")
            at_once, because = plan_jobs(toolchain.settings.jobs, find_resources())
            say(f"compilers at once: {at_once}: {because}")
            cmake_build.run(work, plan, toolchain, at_once, caller, say)
            check_read(plan, toolchain, work, by_content=by_content)
            mark_reusable(work, plan)
            if wheel:
                take(plan, wheel, work, toolchain.cuobjdump)
            libraries = _read_back(plan, toolchain, work)
            refuse_missing_symbols(plan, toolchain, work, say)
            check_commands(plan, toolchain, work)
            manifest = _describe_artifact(plan, toolchain, libraries, work / "out")
        except OSError as error:
            raise _refused_by_the_system(error, folder, own_variable(plan.package, "cache-dir")) from error
        destination.mkdir(parents=True, exist_ok=True)
        for library in manifest.libraries:
            shutil.copy2(work / "out" / library.file, destination)
        # Last: without a manifest, a folder is not an Artifact.
        (destination / manifests.FILE).write_bytes(manifest_file.to_bytes(manifest))
        remove_temporary(work)
    return Artifact(destination, manifest)


def _refused_by_the_system(error: OSError, place: Path, variable: str) -> BuildError:
    """The error for a file that cannot be read or written, in the work folder or anywhere else."""
    path = Path(error.filename) if isinstance(error.filename, str) else place
    if error.errno in NO_ROOM or (isinstance(error, PermissionError) and path.is_relative_to(place)):
        return BuildError(
            "the kernels cannot be compiled: a file cannot be written",
            required=f"a folder with enough free space that this user can write to: {place}",
            found=f"{type(error).__name__}: {error}",
            remedies=[f"free some space there, or set {variable} to another folder"],
        )
    return BuildError(
        "the kernels cannot be compiled: a file cannot be read or written",
        required=f"a file that this user can read and write: {path}",
        found=f"{type(error).__name__}: {error}",
        remedies=[way_out(error)],
    )


def _read_back(plan: Plan, toolchain: Toolchain, work: Path) -> tuple[Library, ...]:
    """Describe the libraries, and reject them if their device code is not what the Plan specifies."""
    paths = sorted((work / "out").iterdir())
    libraries = tuple(
        binary_inspect.read_library(path, toolchain.cuobjdump)._replace(host_code=host_code_digest(work, path.name))
        for path in paths
    )
    made = [library for library in libraries if library.device == "cuda"]
    unlike = any((library.sass, library.ptx) != plan.targets(library.file) for library in made) if plan.cuda else made
    lacks = not libraries and bool(plan.built or not plan.extensions)
    if lacks or bool(made) != (plan.cuda is not None) or unlike:
        raise BuildError(
            "the compilers did not produce what the Plan specifies",
            required=f"libraries for {plan.kernels}",
            found="\n".join(f"{lib.file}: SASS {lib.sass or 'none'}, PTX {lib.ptx or 'none'}" for lib in libraries)
            or "no libraries",
            remedies=[_fix_targets(plan)],
        )
    _refuse_libraries_of_another_major(plan, toolchain, paths)
    _refuse_unique_symbols(paths)
    if plan.extensions:
        return tuple(_of_extension(plan, library, path) for library, path in zip(libraries, paths, strict=True))
    _refuse_unbound_modules(plan, libraries)
    _refuse_other_parts(plan, libraries)
    return libraries


def _refuse_libraries_of_another_major(plan: Plan, toolchain: Toolchain, paths: list[Path]) -> None:
    """Reject operators made by an nvcc of another CUDA major than torch's, if they need libraries of that major too."""
    needed = binary_inspect.libraries_of_cuda_major(paths)
    nvcc, torch = toolchain.cuda.nvcc, toolchain.torch
    if needed and nvcc and nvcc.release[0] != torch.cuda_major:
        raise BuildError(
            f"{plan.package} needs CUDA libraries, and nvcc is for another CUDA than torch",
            required=f"nvcc and CUDA libraries for CUDA {torch.cuda_major}, as torch {torch.version}",
            found=f"{nvcc.name}; needed by what it made: {', '.join(needed)}",
            remedies=["build with an nvcc for torch's CUDA", "or link these libraries statically"],
        )


def _refuse_unique_symbols(paths: list[Path]) -> None:
    """Reject a library that would share objects with every other library in the process that has the same symbol."""
    found = {path.name: symbols for path in paths if (symbols := sorted(library_at(path).unique()))}
    if found:
        raise BuildError(
            "a library has symbols that a process has only once, so two packages would share what they stand for",
            required="no symbol of the type STB_GNU_UNIQUE",
            found="\n".join(f"{file}: {', '.join(symbols[:3])}" for file, symbols in found.items()),
            remedies=[
                "remove -fgnu-unique from the flags; compile static libraries that are linked in with -fno-gnu-unique"
            ],
        )


def _of_extension(plan: Plan, library: Library, path: Path) -> Library:
    """Check a library against its extension's `kind`, and give it the name that it is imported by."""
    extension = next(each for each in plan.extensions if each.file(plan.platform) == library.file)
    if extension.kind == "module":
        if library.module != extension.module:
            refuse(
                extension.name,
                "kind",
                f"PyInit_{extension.module}, as from PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)",
                f"PyInit_{library.module}" if library.module else "no function PyInit_...",
                "name the extension as its sources do, or, if they register operators only, set its kind",
            )
        return library._replace(module=extension.name)
    symbols = sorted(name for name in library_at(path).used() if name.startswith(("Py", "_Py")))
    if library.module or symbols:  # of Python (Python/C API)
        found = f"PyInit_{library.module}" if library.module else ", ".join(symbols[:3])
        refuse(extension.name, "kind", f"no symbol of Python, for {extension.kind}", found, 'set kind to "module"')
    return library


def _fix_targets(plan: Plan) -> str:
    if plan.extensions:
        return "report this, with the build log: the extensions were not compiled as they were declared"
    fix = "fix the targets in CMakeLists.txt: kernelwheel_add_op_library(<name> CUDA SOURCES ...)"
    if plan.cuda and plan.cuda.archs.ptx:  # nvlink makes machine code alone
        fix += "; where device code is linked (CUDA_SEPARABLE_COMPILATION), there is no PTX: set archs without +PTX"
    return fix


def _refuse_unbound_modules(plan: Plan, libraries: tuple[Library, ...]) -> None:
    """Reject modules for Python where `abi`, which decides the wheel's tag and the checks at run time, is stable."""
    modules = [f"{library.file}: Python imports it as {library.module}" for library in libraries if library.module]
    if modules and not plan.binding:
        raise BuildError(
            f'{plan.package} has modules that are bound to one Python, but its abi is not "torch"',
            required="operator libraries, added by kernelwheel_add_op_library",
            found="\n".join(modules),
            remedies=['set abi = "torch" in [tool.kernelwheel] of pyproject.toml'],
        )


def _refuse_other_parts(plan: Plan, libraries: tuple[Library, ...]) -> None:
    """Reject libraries that are not those of the parts that were to be made."""
    parts = plan.content["parts"]
    found = {library.file: part_of_library(library.file, plan.content) for library in libraries}
    if {*found.values()} != ({*parts} or {""}):
        raise BuildError(
            "the libraries are not those of the parts that are declared",
            required=f"libraries of {', '.join(sorted(parts))}, called <name>_<part>; the others are main's",
            found=", ".join(f"{file} of {part}" for file, part in found.items()),
            remedies=['in CMakeLists.txt, add those of a part PART within if("PART" IN_LIST KERNELWHEEL_PARTS)'],
        )


def decisions(plan: Plan, toolchain: Toolchain) -> dict[str, Any]:
    """The part of `built_with` that records reasons: different settings may lead to the same Plan."""
    return {
        "cuda": {"enabled": plan.cuda is not None, "because": toolchain.cuda.reason},
        "settings": toolchain.settings.record(str(plan.cuda.archs) if plan.cuda else None),
    }


def _describe_artifact(plan: Plan, toolchain: Toolchain, libraries: tuple[Library, ...], folder: Path) -> Manifest:
    paths = [folder / library.file for library in libraries]
    with_ptx = [folder / library.file for library in libraries if library.ptx]
    nvcc = toolchain.cuda.nvcc if plan.cuda else None
    binds_cuda = plan.binding is not None or binary_inspect.libraries_of_cuda_major(paths)
    glibc, libstdcxx = binary_inspect.newest_symbol_versions(paths, "GLIBC_", "GLIBCXX_")
    built_with = {
        "kernelwheel": __version__,
        "torch": toolchain.torch.version,
        "torch_cuda": toolchain.torch.cuda,
        "cxx": f"{toolchain.cxx.kind} {toolchain.cxx.version}",
        "nvcc": nvcc.name.removeprefix("nvcc ") if nvcc else None,
        "cccl": cccl_version(nvcc) if nvcc else None,
        # Which release it was reaches no byte of a library, so it stays out of the wheel; the build's log has it.
        "cmake": CMAKE_VERSION,
        "ninja": NINJA_VERSION,
        **decisions(plan, toolchain),
    }
    requires = Requires(
        torch=torch_required(toolchain.torch.version) if plan.binding else plan.content["torch_target"],
        platform=plan.platform,
        libc=glibc.replace("GLIBC_", "glibc "),
        libstdcxx=libstdcxx,
        cuda=nvcc.release[0] if nvcc and binds_cuda else None,
        driver=f"{nvcc.release[0]}.0" if nvcc else None,
        driver_for_ptx=binary_inspect.driver_for_ptx(with_ptx, toolchain.cuobjdump, nvcc.release) if nvcc else None,
        python=plan.binding.python if plan.binding else None,
    )
    return Manifest(
        package=plan.package,
        version=plan.version,
        fingerprint=plan.fingerprint,
        sources=json_sha256(plan.sources),
        plan=plan.to_json(),
        digests=plan.digests,
        built_with=built_with,
        requires=requires,
        libraries=libraries,
    )
