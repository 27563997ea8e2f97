"""The toolkit's part for another platform than this machine's: headers and libraries, found by files alone.

It is in the toolkit itself, or pip unpacks it. Since CUDA 13, pip's wheels put all of it in one folder, `nvidia/cu13`;
before that each had a folder of its own, such as `nvidia/cuda_runtime`, and these are put together here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...project.build_platforms import CROSS_BUILDS, PLATFORMS, Platform, WindowsBuild
from ...project.build_settings import NATIVE, BuildSettings
from ...runtime.errors import BuildError, SettingsError
from ...runtime.machine.platforms import platform_name, require_supported
from ..toolchain.clang_toolkit import HEADERS
from ..toolchain.toolkit import CudaTarget, Nvcc, linked_folder
from ..toolchain.toolkit_identity import cudart_version

CUDA_LIBRARIES = ("cudart_static", "cudadevrt")  # of a toolkit, which are linked in
# The first release whose wheels have the static CUDA runtime.
OLDEST = (12, 9)
WHEELS_12 = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-cccl-cu12", "nvidia-cuda-nvcc-cu12")
WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-nvcc")  # since CUDA 13


def cross_platform(settings: BuildSettings) -> Platform | None:
    """The platform that the settings ask for, if it is another than this machine's.

    Raises:
        BuildError: kernels cannot be built on this machine.
        SettingsError: they can, but not for that platform.
    """
    require_supported()
    here = platform_name()
    if settings.platform in (NATIVE, here):
        return None
    wanted = PLATFORMS[settings.platform]
    if (here, wanted.name) not in CROSS_BUILDS:
        others = [f", and for {target}" for builder, target in CROSS_BUILDS if builder == here]
        raise SettingsError(
            f"kernels for {wanted.name} cannot be built on {here}",
            required=f"a builder with {wanted.name}, as set by {settings.origin('platform')}",
            found=f"{here}, which builds for itself{''.join(others)}",
            remedies=[f"build it on a machine with {wanted.builder}"],
        )
    return wanted


def refuse_libraries_on_all_of_torch(platform: Platform) -> BuildError:
    """The error for modules and libraries that use more than torch's stable ABI: the torch here is for this machine."""
    return BuildError(
        f"what is compiled on all of torch cannot be built for {platform.name} here",
        required="operators on torch's stable ABI alone",
        found="a module, or a library on all of torch, which is compiled with the target's own torch and Python",
        remedies=[
            "register operators on the stable ABI instead, which Python needs no module for"
            if isinstance(platform, WindowsBuild)
            else f"build it on a machine with {platform.name}"
        ],
    )


def for_target(nvcc: Nvcc, settings: BuildSettings, platform: Platform) -> Nvcc:
    """The same nvcc with the headers and libraries that it compiles for a platform with.

    Raises:
        BuildError: there are none; lists the folders and what each lacks.
    """
    if isinstance(platform, WindowsBuild) and not nvcc.clang:
        raise BuildError(
            f"nvcc compiles no CUDA kernels for {platform.name} on Linux",
            required="clang, which is taken for CUDA 12",
            found=f"{nvcc.name}, {nvcc.origin}",
            remedies=[
                f"ask for drivers from CUDA 12.0 on: -C drivers=12.0 ({settings.variable('drivers')}=12.0)",
                "or name a clang: CUDACXX=clang++-19",
            ],
        )
    inside = nvcc.root / "targets" / platform.cuda_target
    places: list[tuple[Path, Path | str]] = [] if nvcc.clang else [(inside, inside)]
    found = []
    if settings.target_packages:
        places.append(_packaged_part(Path(settings.target_packages), nvcc))
    elif nvcc.clang:
        found.append("target-packages is not set")
    for place, part in places:
        if isinstance(part, str):
            found.append(f"{place}: {part}")
        elif lacks := list(_lacks(part, nvcc, platform)):
            found.append(f"{place}: no {', '.join(lacks)}")
        else:
            target = CudaTarget(platform.cuda_target, part / "lib")
            cudart = target.lib / platform.static(CUDA_LIBRARIES[0])
            return replace(nvcc, include=part / "include", cudart=cudart, target=target)
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
        required=f"headers, {' and '.join(map(platform.static, CUDA_LIBRARIES))} for {platform.name}, "
        f"of CUDA {release}.*",
        found="\n".join(found),
        remedies=[ways[0], *(f"or {way}" for way in ways[1:])],
    )


def pip_words(release: str, platform: Platform) -> tuple[str, ...]:
    """The words of a `pip install` that unpack the part of a CUDA release, such as 12.9, besides `--target`."""
    names = WHEELS if int(release.split(".")[0]) >= 13 else WHEELS_12
    tag = platform.tag.replace("linux_", "manylinux_2_17_")
    return ("--no-deps", "--only-binary=:all:", "--platform", tag, *(f"{name}=={release}.*" for name in names))


def _packaged_part(packages: Path, nvcc: Nvcc) -> tuple[Path, Path | str]:
    """Where pip's part is in a folder of packages, for messages, and the folder to compile with.

    In place of the second, in words, why it cannot be put together.
    """
    nvidia = packages / "nvidia"
    if nvcc.release[0] >= 13:
        packaged = nvidia / f"cu{nvcc.release[0]}"
        return packaged, packaged
    single = [path for path in sorted(nvidia.glob("*")) if not re.fullmatch(r"cu\d+", path.name)]
    parts = {f"include/{path.name}": path for folder in single for path in folder.glob("include/[!_]*")}
    libraries = (path for folder in single for pattern in ("lib/lib*", "lib/x64/*") for path in folder.glob(pattern))
    parts |= {f"lib/{path.name}": path for path in libraries}
    return nvidia, linked_folder(parts, HEADERS)


def _lacks(place: Path, nvcc: Nvcc, platform: Platform) -> Iterator[str]:
    """What a target's part of a toolkit lacks, by file name; or that it is of another release than nvcc."""
    include = place / "include"
    for name in ("cuda_runtime.h", "crt/host_config.h", "fatbinary_section.h"):
        if not (include / name).is_file():
            yield f"include/{name}"
    if not any((include / name).is_file() for name in ("nv/target", "cccl/nv/target")):
        yield "include/nv/target"
    for name in map(platform.static, CUDA_LIBRARIES):
        if not (place / "lib" / name).is_file():
            yield f"lib/{name}"
    if (cudart := cudart_version(include)) and cudart != "{}.{}".format(*nvcc.release):
        yield f"CUDA {nvcc.version}, as nvcc (its cudart is for {cudart})"
