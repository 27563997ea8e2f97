"""The search for nvcc and its toolkit: places, versions, and why a candidate is not usable."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...project.arch_choice import from_code
from ...project.build_platforms import HOST_PLATFORM
from ...project.build_settings import BuildSettings
from ...runtime.errors import BuildError
from ...runtime.machine.host import Arch
from ...runtime.machine.platforms import numbers
from ...runtime.record import remembered
from .clang_toolkit import CLANG, clang_toolkit, clang_version, clangs_on_path
from .cxx import any_cxx
from .distro_toolkit import distro_toolkit
from .programs import last_line, output_of
from .toolkit import CUDART, Nvcc, find_cudart
from .torch_files import Torch


class NvccLimits(NamedTuple):
    """Which CUDA majors an nvcc may be of."""

    # whether one of another major than torch's will do: for operators, which need a driver and not torch's CUDA
    any_major: bool = False
    # the CUDA version that the driver supports, if the kernels are for this machine; None if they are for others, or if
    # it is not known
    driver: tuple[int, int] | None = None
    # the CUDA version of the oldest driver that must be served, if the option `drivers` names one. Kernels run on every
    # driver for their CUDA major (CUDA Compatibility, "Minor Version Compatibility")
    oldest: tuple[int, ...] | None = None

    def against(self, version: str, torch_cuda: str) -> str:
        """What rules out an nvcc of this version beside a torch; empty if nothing does."""
        major = int(version.split(".")[0])
        if self.oldest is not None and self.oldest[0] < major:
            return f"is for CUDA {version}, the kernels must run on drivers for CUDA {{}}.{{}}".format(*self.oldest)
        if major == int(torch_cuda.split(".")[0]):
            return ""
        if not self.any_major:
            return f"is for CUDA {version}, torch is for CUDA {torch_cuda}"
        if self.driver is not None and self.driver[0] < major:
            return f"is for CUDA {version}, the driver is for CUDA {{}}.{{}}".format(*self.driver)
        return ""


LIKE_TORCH = NvccLimits()


@dataclass(frozen=True)
class NvccCandidate:
    """A place searched for nvcc, and the outcome; `nvcc` is None if none is usable there."""

    origin: str
    place: str
    nvcc: Nvcc | None
    outcome: str


@dataclass(frozen=True)
class NvccSearch:
    """What nvcc is looked for with, and what it must fit."""

    settings: BuildSettings
    torch: Torch
    environ: Mapping[str, str]
    path: Sequence[str] = ()  # sys.path, where pip may have installed a toolkit that is not beside a torch for CUDA
    limits: NvccLimits = LIKE_TORCH

    @property
    def sites(self) -> tuple[Path, ...]:
        """The folders where pip may have installed a toolkit: torch's first, then those on sys.path."""
        return tuple(dict.fromkeys([self.torch.root.parent, *(Path(folder) for folder in self.path if folder)]))

    @remembered
    def host(self) -> str:
        """The C++ compiler that an nvcc is asked with, if it finds none by itself."""
        return any_cxx(self.settings, self.environ)


def nvcc_places(search: NvccSearch) -> Iterator[tuple[str, str]]:
    """The places where nvcc may be, in order of precedence: (where, path); the paths need not exist."""
    settings, sites, environ = search.settings, search.sites, search.environ
    if settings.nvcc:
        yield str(settings.origin("nvcc")), settings.nvcc
    if settings.cuda_home:
        yield str(settings.origin("cuda-home")), str(Path(settings.cuda_home) / "bin" / "nvcc")
    packaged = _packaged(sites[0])
    for path in packaged or [sites[0] / "nvidia" / "cu*" / "bin" / "nvcc"]:
        yield "pip's cuda-toolkit beside torch", str(path)
    for site in sites[1:]:
        for path in _packaged(site):
            yield "pip's cuda-toolkit on sys.path", str(path)
    on_path = shutil.which("nvcc", path=environ.get("PATH", ""))
    yield "PATH", on_path or "nvcc"
    usual = sorted(Path(HOST_PLATFORM.toolkits).glob("cuda-*"), key=lambda path: numbers(path.name), reverse=True)
    for path in [Path(HOST_PLATFORM.toolkits) / "cuda", *usual]:
        yield "the usual folder", str(path / "bin" / "nvcc")
    for clang in clangs_on_path(environ):
        yield "clang on PATH", clang


def _packaged(site: Path) -> list[Path]:
    """The nvccs that pip installed in a folder, newest CUDA first."""
    try:
        found = list(site.glob("nvidia/cu*/bin/nvcc"))
    except OSError:  # a folder on sys.path that this user may not enter
        return []
    return sorted(found, key=lambda path: numbers(path.parents[1].name), reverse=True)


def inspect_nvcc(origin: str, place: str, search: NvccSearch) -> NvccCandidate:
    """Inspect the nvcc at `place`: whether it fits torch's CUDA (by default the same major) and is complete."""
    torch_cuda = str(search.torch.cuda)
    nvcc = _in_two_folders(place, search.environ) or _examine(origin, place, search)
    if isinstance(nvcc, str):
        return NvccCandidate(origin, place, None, nvcc)
    outcome = f"clang {nvcc.clang} with CUDA {nvcc.version}" if nvcc.clang else f"CUDA {nvcc.version}"
    if not f"{nvcc.version}.".startswith(f"{torch_cuda}."):
        same = str(nvcc.release[0]) == torch_cuda.split(".")[0]
        outcome += ", another release of torch's major" if same else ", of another major than torch's"
        outcome += f" ({torch_cuda})"
    return NvccCandidate(origin, place, nvcc, outcome)


def _examine(origin: str, place: str, search: NvccSearch) -> Nvcc | str:
    """The nvcc at `place`; in words, why it cannot be used."""
    environ = search.environ
    path = shutil.which(place, path=environ.get("PATH", ""))
    if path is None:
        return _why_not(Path(place))
    version = output_of(path, "--version")
    if clang := clang_version(version):
        linked = clang_toolkit(path, clang, search.sites, environ)
        if isinstance(linked, str):
            return linked
        path = str(linked / "bin/nvcc")
        version = output_of(path, "--version")
    match = re.search(r"\bV(\d+\.\d+\.\d+)\b", version)
    if not match:
        return f"does not answer --version as nvcc does ({last_line(version)})"
    if unfit := search.limits.against(match[1], str(search.torch.cuda)):
        return unfit
    # --dryrun prints the profile variables: TOP is the root that nvcc itself uses, behind any wrapper script, and
    # INCLUDES has the folder of its headers.
    profile, top = _profile(path, search.host)
    if not top:
        linked = distro_toolkit(path)
        if isinstance(linked, str):
            return linked
        path = str(linked / "bin/nvcc")
        profile, top = _profile(path, search.host)
    root = Path(top).resolve()
    searched = re.search(r'^#\$ INCLUDES=.*?"-I([^"]+)"', profile, re.MULTILINE)
    include = Path(searched[1]).resolve() if searched else root / "include"
    if missing := _missing(root, include):
        return f"its toolkit {root} lacks {', '.join(missing)}"
    supported, virtual = _archs(path, "--list-gpu-code"), _archs(path, "--list-gpu-arch")
    if not supported:
        return "does not answer --list-gpu-code"
    inner = root / "bin" / "nvcc"
    real = inner if inner.is_file() else Path(path)
    return Nvcc(
        real, root, include, match[1], supported, origin, find_cudart(root), virtual=virtual or supported, clang=clang
    )


def _in_two_folders(place: str, environ: Mapping[str, str]) -> str:
    """Why the nvcc at `place` is not even started: it puts its own folder on PATH, where a colon makes two of it."""
    path = shutil.which(place, path=environ.get("PATH", "")) or place
    odd = next((each for each in (path, str(Path(path).resolve())) if os.pathsep in each), "")
    return odd and f"in a folder with a colon in its name, which nvcc takes for two: {odd}"


def _archs(path: str, option: str) -> tuple[Arch, ...]:
    """The architectures that an nvcc lists."""
    listed = re.findall(r"\b(?:sm|compute)_\d+[af]?\b", output_of(path, option))
    return tuple(sorted({from_code(code) for code in listed}))


def _profile(path: str, host: str) -> tuple[str, str]:
    """nvcc's variables as it prints them, and TOP among them; empty if there is none."""
    output = output_of(path, "--dryrun", *(("-ccbin", host) if host else ()), "-E", "-x", "cu", os.devnull)
    top = re.search(r"^#\$ TOP=(.+)$", output, re.MULTILINE)
    return output, top[1].strip() if top else ""


def _why_not(place: Path) -> str:
    """Why nothing at `place` can be run."""
    if os.path.exists(place):
        return "not executable"
    try:
        return "a broken link" if place.is_symlink() else "not found"
    except OSError as error:
        return f"cannot be accessed: {error.strerror}"


def _missing(root: Path, include: Path) -> list[str]:
    """The parts that a compile needs, by file name, and that a toolkit lacks: nvcc searches only its own."""
    headers = {
        "cuda_runtime.h (of cudart)": ("cuda_runtime.h",),
        "crt/host_config.h (of crt)": ("crt/host_config.h",),
        "nv/target (of cccl)": ("nv/target", "cccl/nv/target"),  # in include/cccl since CUDA 13
    }
    there = {
        **{name: any(os.path.exists(include / file) for file in files) for name, files in headers.items()},
        "cicc (of nvvm)": any(os.path.exists(root / file) for file in ("nvvm/bin/cicc", CLANG)),
        f"{CUDART} (of cudart)": find_cudart(root) is not None,
    }
    return [name for name, found in there.items() if not found]


def find_cuobjdump(nvcc: Nvcc, site: Path, environ: Mapping[str, str]) -> Path:
    """The tool that reads the SASS and PTX targets back from a built library.

    Raises:
        BuildError: it is not in the toolkit, in triton or on PATH.
    """
    triton = site / "triton" / "backends" / "nvidia" / "bin" / "cuobjdump"
    on_path = shutil.which("cuobjdump", path=environ.get("PATH", ""))
    places = [nvcc.root / "bin" / "cuobjdump", triton, *([Path(on_path)] if on_path else [])]
    for place in places:
        if os.access(place, os.X_OK):
            return place
    raise BuildError(
        "cuobjdump is needed to read the compiled architectures back from the library",
        required="cuobjdump in the CUDA toolkit, in triton (a dependency of torch) or on PATH",
        found="\n".join(f"{place}: not found" for place in places),
        remedies=["in torch's environment: pip install triton"],
    )
