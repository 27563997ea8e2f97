"""The decision whether to build CUDA kernels, and with which nvcc: from settings and torch, never hardware."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...requirements import install
from ...runtime.errors import BuildError
from .clang_toolkit import FATBINARY, OLDEST, missing_parts
from .nvcc import NvccCandidate, NvccLimits, NvccSearch, inspect_nvcc, nvcc_places
from .toolkit import Nvcc
from .torch_files import Torch


@dataclass(frozen=True)
class CudaDecision:
    """Whether CUDA kernels are built, with which nvcc, and why; `reason` contains no path of this machine."""

    nvcc: Nvcc | None
    reason: str
    candidates: tuple[NvccCandidate, ...]


def look_for_nvcc(search: NvccSearch) -> Iterator[NvccCandidate]:
    """Every place where nvcc may be, in order of precedence, with the outcome. Runs every nvcc that exists."""
    return (inspect_nvcc(origin, place, search) for origin, place in nvcc_places(search))


def decide_cuda(search: NvccSearch, nvccs: Iterable[NvccCandidate] | None = None) -> CudaDecision:
    """Whether to build CUDA kernels: the setting `cuda`, then `torch.version.cuda`; never hardware.

    The first nvcc of torch's CUDA major is taken. One of another major, if `limits` allow it, is taken if the settings
    name it, or if there is no other.

    `nvccs` is the result of `look_for_nvcc`, if it is known.

    Raises:
        BuildError: CUDA is required but torch has none, or there is no nvcc that will do.
    """
    settings, torch = search.settings, search.torch
    origin = settings.origin("cuda")
    if settings.cuda == "off":
        return CudaDecision(None, f"cuda is off ({origin})", ())
    if torch.cuda is None:
        kind = f"a build for ROCm {torch.hip}" if torch.hip else "a build without CUDA"
        if settings.cuda == "auto":
            return CudaDecision(None, f"torch {torch.version} is {kind} (torch.version.cuda is None)", ())
        raise BuildError(
            "CUDA kernels are required, but the torch to build against has no CUDA",
            required=f"a torch with torch.version.cuda set, because cuda is on ({origin})",
            found=f"torch {torch.version}, {kind}",
            remedies=[
                "install a CUDA build of torch in the environment that builds the wheel",
                f"or do not require CUDA kernels: cuda is on ({origin})",
            ],
        )
    named = {str(settings.origin("nvcc")), str(settings.origin("cuda-home"))}
    candidates: list[NvccCandidate] = []
    taken = None
    for candidate in look_for_nvcc(search) if nvccs is None else nvccs:
        candidates.append(candidate)
        if candidate.nvcc and (candidate.origin in named or candidate.nvcc.release[0] == torch.cuda_major):
            taken = candidate
            break
        taken = taken or (candidate if candidate.nvcc else None)
    if taken is None or taken.nvcc is None:
        raise no_nvcc(search, candidates)
    nvcc, reason = taken.nvcc, f"torch {torch.version} is built for CUDA {torch.cuda}"
    if nvcc.release[0] != torch.cuda_major:
        reason += f"; with {nvcc.name}, the kernels need a driver for CUDA {nvcc.release[0]}.0 or later"
    return CudaDecision(nvcc, reason, tuple(candidates))


def no_nvcc(search: NvccSearch, candidates: Sequence[NvccCandidate]) -> BuildError:
    """The error if torch has CUDA but no nvcc will do: a CPU-only wheel is never built silently."""
    settings, torch, limits = search.settings, search.torch, search.limits
    wanted, required = _wanted(torch, limits)
    major = min(torch.cuda_major or 0, limits.oldest[0]) if limits.oldest else torch.cuda_major
    release = f"cuda-version={torch.cuda}" if major == torch.cuda_major else f"'cuda-version={major}.*'"
    packages = f"cuda-nvcc cuda-cudart-dev cuda-cudart-static cuda-cccl {release}"
    toolkit = f"a CUDA {major}.x toolkit (conda: conda install -c conda-forge {packages})"
    return BuildError(
        f"torch {torch.version} is built for CUDA {torch.cuda}, but no usable nvcc{wanted} was found",
        required=required,
        found="\n".join(f"{c.origin}: {c.place}: {c.outcome}" for c in candidates),
        remedies=[
            *_bring_nvcc(search),
            f"or set CUDA_HOME or CUDACXX to {toolkit}",
            f"or build without CUDA kernels: {settings.variable('cuda')}=off (pip: also -C cuda=off; "
            "cache build: --cuda off)",
        ],
    )


def parts_for_clang(search: NvccSearch) -> tuple[str, ...]:
    """What pip must install for a clang to compile with CUDA 12: nothing if CUDA 13 will do, or an nvcc is there."""
    torch, oldest = search.torch, search.limits.oldest
    major = oldest[0] if oldest else torch.cuda_major or 0
    if search.settings.cuda == "off" or torch.cuda is None or major != 12:
        return ()
    if any(each.nvcc for each in look_for_nvcc(search)):
        return ()
    return tuple(missing_parts(search.sites))


def _wanted(torch: Torch, limits: NvccLimits) -> tuple[str, str]:
    """What is missing, as part of a sentence, and what is required."""
    if limits.oldest:
        version = "{}.{}".format(*limits.oldest)
        required = f"nvcc from CUDA {limits.oldest[0]}.x, because drivers is {version}"
        return f" for drivers from CUDA {version} on", required
    if not limits.any_major:
        return f" for CUDA {torch.cuda_major}", f"nvcc from CUDA {torch.cuda_major}.x"
    other = "which the kernels then need a driver for"
    if limits.driver is not None:
        other = "which the driver, for CUDA {}.{}, serves".format(*limits.driver)
    return "", f"nvcc from CUDA {torch.cuda_major}.x, or of another major, {other}"


def _bring_nvcc(search: NvccSearch) -> list[str]:
    """How to get an nvcc that will do; pip has a whole one since CUDA 13."""
    settings, torch, limits = search.settings, search.torch, search.limits
    clang = f"install clang {OLDEST} or later (Debian, Ubuntu: apt-get install clang-{OLDEST}), and in torch's "
    clang += (
        f"environment, which a build in isolation does by itself: {install([*missing_parts(search.sites), FATBINARY])}"
    )
    if limits.oldest and limits.oldest[0] < 13:
        return [
            clang,
            f"or install a CUDA {limits.oldest[0]}.x toolkit (Debian 13: apt-get install nvidia-cuda-toolkit, from its "
            "non-free packages); pip has no complete nvcc before CUDA 13",
            f"or leave out drivers before CUDA 13.0: drivers is {settings.drivers} ({settings.origin('drivers')})",
        ]
    from_pip = "in torch's environment: pip install 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm]=={}'"
    if (torch.cuda_major or 0) >= 13:
        return [from_pip.format(f"{torch.cuda}.*")]
    own = f"install the CUDA {torch.cuda} toolkit and set CUDA_HOME to it; pip has no complete nvcc before CUDA 13"
    brings = [clang, f"or {own}"] if torch.cuda_major == 12 else [own]
    if limits.any_major and (limits.driver is None or limits.driver[0] >= 13):
        first, *others = brings
        return [from_pip.format("13.0.*") + "; the kernels then need a driver for CUDA 13", f"or {first}", *others]
    return [*brings, "or build against a torch for CUDA 13, for which pip has a complete nvcc"]
