"""What a build for another platform needs besides compilers: the toolkit's part for it, and torch's interface.

It is found by files alone. Operators are compiled with the headers of the torch on this machine; where the target's is
at hand, the two are compared. What uses all of torch is compiled for the target's.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from ...project.build_platforms import CROSS_BUILDS, HOST_PLATFORM, PLATFORMS, Platform
from ...project.build_settings import NATIVE, BuildSettings
from ...runtime.errors import BuildError, SettingsError
from ...runtime.platforms import platform_name, require_supported
from ..toolchain.linked_toolkit import CUDART
from ..toolchain.toolkit import CudaTarget, Nvcc
from ..toolchain.toolkit_identity import cudart_version
from ..toolchain.torch_files import Torch, read_torch
from .packaged_part import OLDEST, packaged_part, pip_words
from .target_python import TargetPython, read_python

if TYPE_CHECKING:
    from ..toolchain.toolchain import Toolchain

# The libraries of a toolkit that are linked in.
CUDA_LIBRARIES = (CUDART, HOST_PLATFORM.static("cudadevrt"))


@dataclass(frozen=True)
class CrossTarget:
    """The platform of a build that is not for this machine, and its torch, if that is at hand.

    Attributes:
        platform: the platform.
        torch: its torch.
        python: its Python, in a build of modules.
        site: in a build on all of its torch, the folder with the torch of this machine.
    """

    platform: Platform
    torch: Torch | None = None
    python: TargetPython | None = None
    site: Path | None = None


def platform_of(settings: BuildSettings) -> Platform:
    """The platform that the settings ask for.

    Raises:
        BuildError: kernels cannot be built on this machine.
        SettingsError: they can, but not for that platform.
    """
    require_supported()
    here = PLATFORMS[platform_name()]
    wanted = here if settings.platform == NATIVE else PLATFORMS[settings.platform]
    if wanted != here and (here.name, wanted.name) not in CROSS_BUILDS:
        others = [f", and for {target}" for builder, target in CROSS_BUILDS if builder == here.name]
        raise SettingsError(
            f"kernels for {wanted.name} cannot be built on {here.name}",
            required=f"a builder with {wanted.name}, as set by {settings.origin('platform')}",
            found=f"{here.name}, which builds for itself{''.join(others)}",
            remedies=[f"build it natively, on a machine with {wanted.name}"],
        )
    return wanted


def cross_platform(settings: BuildSettings) -> Platform | None:
    """The platform that the settings ask for, if it is another than this machine's; raises as `platform_of`."""
    wanted = platform_of(settings)
    return wanted if wanted.name != platform_name() else None


def find_target(settings: BuildSettings, platform: Platform, torch: Torch) -> CrossTarget:
    """The target of a build, compared with the torch on this machine, whose headers are compiled in.

    Raises:
        BuildError: the target's torch is of another version.
    """
    root = Path(settings.target_packages) / "torch"
    if not settings.target_packages or not root.is_dir():
        return CrossTarget(platform)
    theirs = read_torch(root)
    if Version(theirs.version).release != Version(torch.version).release:
        raise BuildError(
            "the torch on this machine is of another version than the one for the target",
            required=f"torch {theirs.version}, as in {root}",
            found=f"torch {torch.version}, whose headers would be compiled in",
            remedies=[
                f"in the environment that builds: pip install 'torch=={Version(theirs.version).public}'",
                f"or put torch {Version(torch.version).public} for {platform.name} into that folder",
            ],
        )
    return CrossTarget(platform, theirs)


def on_its_torch(tools: Toolchain, *, python: bool) -> Toolchain:
    """The same Toolchain with the target's torch in place of this machine's, for what uses all of torch's C++ API.

    Such headers say how that torch was built, and its libraries are linked to. A Toolchain for this machine is not
    changed.

    Args:
        tools: what was found.
        python: whether there are modules, which need the target's Python too.

    Raises:
        BuildError: the target's torch or Python is not there, or they do not belong together.
    """
    if tools.cross is None:
        return tools
    settings, platform, theirs = tools.settings, tools.cross.platform, tools.cross.torch
    if theirs is None or (python and not settings.target_python):
        raise _incomplete(tools, platform, python=python)
    if tools.cuda.nvcc and theirs.cuda_major != tools.torch.cuda_major:
        raise BuildError(
            f"the torch for {platform.name} is not for the CUDA of the torch here",
            required=f"one for CUDA {tools.torch.cuda}",
            found=f"torch {theirs.version}, for {f'CUDA {theirs.cuda}' if theirs.cuda else 'CPUs alone'}",
            remedies=[f"put such a torch into {settings.target_packages}", "or build without CUDA: -C cuda=off"],
        )
    found = read_python(Path(settings.target_python), platform) if python else None
    modules = sorted(path.name for path in theirs.root.glob(f"_C.*{platform.suffix}"))
    wanted = (f"_C.{found.soabi}{platform.suffix}", f"lib/{platform.shared('torch_python')}") if found else ()
    if not all((theirs.root / name).is_file() for name in wanted):
        raise BuildError(
            f"the torch for {platform.name} is not one for the Python that modules are built for",
            required=f"{' and '.join(wanted)} in {theirs.root}",
            found=", ".join(modules) or f"no _C.*{platform.suffix}",
            remedies=["install the torch for that Python there: pip install --target ... --python-version"],
        )
    return replace(tools, torch=theirs, cross=replace(tools.cross, python=found, site=tools.torch.root.parent))


def _incomplete(tools: Toolchain, platform: Platform, *, python: bool) -> BuildError:
    lacking, remedies = [], []
    if tools.cross is None or tools.cross.torch is None:
        lacking.append("no torch for it: target-packages names no folder with one")
        remedies.append(
            f"pip install --target DIR --no-deps --only-binary=:all: --platform manylinux_2_28_{platform.machine} "
            f"--python-version 3.N 'torch=={Version(tools.torch.version).public}', and -C target-packages=DIR"
        )
    if python and not tools.settings.target_python:
        lacking.append("no Python for it: target-python is not set")
        remedies.append("unpack a Python for it, with its headers, and name its folder: -C target-python=DIR")
    return BuildError(
        f"what is compiled on all of torch cannot be built for {platform.name} with what is here",
        required=f"torch for {platform.name}" + (", and the headers of the Python that imports it" if python else ""),
        found="\n".join(lacking),
        remedies=[*remedies, f"or build it natively, on a machine with {platform.name}"],
    )


def for_target(nvcc: Nvcc, settings: BuildSettings, platform: Platform) -> Nvcc:
    """The same nvcc with the headers and libraries that it compiles for a platform with.

    Raises:
        BuildError: there are none; lists the folders and what each lacks.
    """
    inside = nvcc.root / "targets" / platform.cuda_target
    places: list[tuple[Path, Path | str]] = [] if nvcc.clang else [(inside, inside)]
    found = []
    if settings.target_packages:
        places.append(packaged_part(Path(settings.target_packages), nvcc))
    elif nvcc.clang:
        found.append("target-packages is not set")
    for place, part in places:
        if isinstance(part, str):
            found.append(f"{place}: {part}")
        elif lacks := list(_lacks(part, nvcc)):
            found.append(f"{place}: no {', '.join(lacks)}")
        else:
            target = CudaTarget(platform.cuda_target, part / "include", part / "lib")
            return replace(nvcc, include=target.include, target=target)
    release = "{}.{}".format(*nvcc.release)
    ways = [f"build without CUDA kernels: -C cuda=off ({settings.variable('cuda')}=off)"]
    if not nvcc.clang:
        cross = f"cuda-cross-{platform.cuda_target.partition('-')[0]}"
        ways.insert(0, f"install the toolkit's packages for it ({cross}), which make targets/{platform.cuda_target}")
    if nvcc.release >= OLDEST:
        words = shlex.join(pip_words(release, platform))
        ways.insert(0, f"pip install --target DIR {words}, and -C target-packages=DIR")
    raise BuildError(
        f"the CUDA toolkit has no part for {platform.name}",
        required=f"headers, {' and '.join(CUDA_LIBRARIES)} for {platform.name}, of CUDA {release}.*",
        found="\n".join(found),
        remedies=[ways[0], *(f"or {way}" for way in ways[1:])],
    )


def _lacks(place: Path, nvcc: Nvcc) -> Iterator[str]:
    """What a target's part of a toolkit lacks, by file name; or that it is of another release than nvcc."""
    include = place / "include"
    for name in ("cuda_runtime.h", "crt/host_config.h", "fatbinary_section.h"):
        if not (include / name).is_file():
            yield f"include/{name}"
    if not any((include / name).is_file() for name in ("nv/target", "cccl/nv/target")):
        yield "include/nv/target"
    for name in CUDA_LIBRARIES:
        if not (place / "lib" / name).is_file():
            yield f"lib/{name}"
    if (cudart := cudart_version(include)) and cudart != "{}.{}".format(*nvcc.release):
        yield f"CUDA {nvcc.version}, as nvcc (its cudart is for {cudart})"
