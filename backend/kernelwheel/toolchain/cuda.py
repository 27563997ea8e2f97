"""Whether CUDA kernels are built, and with which nvcc: from settings, torch.version.cuda and nvcc, never hardware."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import BuildError, SettingsError
from ..core.settings import Settings
from .nvcc import Nvcc, NvccCandidate, inspect_nvcc, nvcc_places
from .torch_files import Torch


@dataclass(frozen=True)
class CudaDecision:
    """Whether CUDA kernels are built, with which nvcc, and why; `reason` names no path of this machine."""

    nvcc: Nvcc | None
    reason: str
    candidates: tuple[NvccCandidate, ...]


def look_for_nvcc(
    settings: Settings, torch: Torch, environ: Mapping[str, str], path: Sequence[str]
) -> Iterator[NvccCandidate]:
    """Every place where nvcc may be, in the order in which they count, with what came of it. Runs each that is there.

    Args:
        settings: may name one.
        torch: has CUDA, of whose major nvcc must be.
        environ: for PATH.
        path: sys.path, where pip may have put a toolkit that is not beside torch.
    """
    sites = package_folders(torch, path)
    for origin, place in nvcc_places(settings, sites, environ):
        yield inspect_nvcc(origin, place, str(torch.cuda), sites, environ)


def decide_cuda(
    settings: Settings,
    torch: Torch,
    environ: Mapping[str, str],
    path: Sequence[str] = (),
    nvccs: Iterable[NvccCandidate] | None = None,
) -> CudaDecision:
    """Whether to build CUDA kernels: the setting `cuda`, then `torch.version.cuda`; never hardware.

    Args:
        settings: may ask for them or not, and name an nvcc.
        torch: what to build against.
        environ: for PATH.
        path: sys.path, where pip may have put a toolkit that is not beside torch.
        nvccs: what `look_for_nvcc` found; None: it is called here.

    Raises:
        BuildError: CUDA is wanted and torch has none, or no nvcc of torch's CUDA major is to be found.
        SettingsError: one place names an nvcc of one toolkit, and another toolkit.
    """
    origin = settings.origin("cuda")
    if settings.cuda == "off":
        return CudaDecision(None, f"cuda is off ({origin})", ())
    if torch.cuda is None:
        kind = f"a build for ROCm {torch.hip}" if torch.hip else "a build without CUDA"
        if settings.cuda == "auto":
            return CudaDecision(None, f"torch {torch.version} is {kind} (torch.version.cuda is None)", ())
        raise BuildError(
            "CUDA kernels are asked for, and the torch to build against has no CUDA",
            required=f"a torch with torch.version.cuda set, because cuda is on by {origin}",
            found=f"torch {torch.version}, {kind}",
            remedies=[
                "install a CUDA build of torch where this wheel is built",
                f"or do not ask for CUDA kernels: cuda is on by {origin}",
            ],
        )
    candidates: list[NvccCandidate] = []
    for candidate in look_for_nvcc(settings, torch, environ, path) if nvccs is None else nvccs:
        candidates.append(candidate)
        if candidate.nvcc:
            _refuse_two_toolkits(settings, candidate, torch.cuda, package_folders(torch, path), environ)
            reason = f"torch {torch.version} is built for CUDA {torch.cuda}"
            return CudaDecision(candidate.nvcc, reason, tuple(candidates))
    raise no_nvcc(torch, candidates, settings)


def _refuse_two_toolkits(
    settings: Settings, taken: NvccCandidate, torch_cuda: str, sites: Sequence[Path], environ: Mapping[str, str]
) -> None:
    """CUDACXX of one toolkit beside CUDA_HOME of another, or the same by `-C`: only a person knows which is meant.

    No contradiction: one of them does not fit torch, or `-C` puts another in the place of a variable.
    """
    origin, home = settings.origin("nvcc"), settings.origin("cuda-home")
    if taken.origin != str(origin) or not settings.cuda_home or origin.place != home.place:
        return
    other = inspect_nvcc(str(home), str(Path(settings.cuda_home) / "bin" / "nvcc"), torch_cuda, sites, environ)
    if taken.nvcc and other.nvcc and other.nvcc.root != taken.nvcc.root:
        raise SettingsError(
            f"{origin} and {home} name two CUDA toolkits",
            required=f"one toolkit of CUDA {torch_cuda.split('.')[0]}",
            found="\n".join(f"{c.origin}: {c.nvcc.root}: {c.outcome}" for c in (taken, other) if c.nvcc),
            remedies=[f"leave out {origin}, or {home}, whichever is not meant"],
        )


def package_folders(torch: Torch, path: Sequence[str]) -> tuple[Path, ...]:
    """The folders that pip may have put a toolkit into: torch's first, then those of sys.path."""
    return tuple(dict.fromkeys([torch.root.parent, *(Path(folder) for folder in path if folder)]))


def no_nvcc(torch: Torch, candidates: list[NvccCandidate], settings: Settings) -> BuildError:
    """torch has CUDA and no nvcc fits: never a silent CPU wheel."""
    major = str(torch.cuda).split(".")[0]
    packages = f"cuda-nvcc cuda-cudart-dev cuda-cudart-static cuda-cccl cuda-version={torch.cuda}"
    if int(major) >= 13:
        release = torch.toolkit or f"{torch.cuda}.*"
        bring = [f"beside torch: pip install 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm]=={release}'"]
    else:
        bring = [
            f"install the CUDA {torch.cuda} toolkit and set CUDA_HOME to it; pip has no whole nvcc before CUDA 13",
            "or build against a torch for CUDA 13: with its release, pip has a whole nvcc",
        ]
    return BuildError(
        f"torch {torch.version} is built for CUDA {torch.cuda}, and no usable nvcc of CUDA {major} was found",
        required=f"nvcc of CUDA {major}.x",
        found="\n".join(f"{c.origin}: {c.place}: {c.outcome}" for c in candidates),
        remedies=[
            *bring,
            f"or set CUDA_HOME or CUDACXX to a CUDA {major}.x toolkit (conda: conda install -c conda-forge {packages})",
            f"or do without CUDA kernels, on purpose: {settings.variable('cuda')}=off (pip: also -C cuda=off; "
            "cache build: --cuda off)",
        ],
    )
