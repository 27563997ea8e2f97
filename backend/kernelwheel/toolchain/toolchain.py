"""What a machine can compile with: torch's files, nvcc and its toolkit, the host C++ compiler.

Everything is read from files and `--version` output. torch is not imported, and no GPU is ever asked for: what a
builder has in its slots says nothing about where the wheel will run.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from ..core.errors import BuildError, SettingsError
from ..core.settings import Settings
from .cxx import Cxx, find_cxx
from .launchers import Launchers, find_launchers
from .nvcc import Candidate, Nvcc, find_cuobjdump, inspect_nvcc, nvcc_places

STABLE_HEADER = "include/torch/csrc/stable/library.h"


@dataclass(frozen=True)
class Torch:
    """An installed torch, known from its files.

    Attributes:
        root: the package folder, with include/ and lib/.
        version: `2.15.0+cu132`.
        cuda: `torch.version.cuda`, for example `13.2`; None for a build without CUDA.
        hip: `torch.version.hip`; None for a build without ROCm.
        toolkit: the release of pip's cuda-toolkit that its metadata asks for, `13.0.2`; None where it names none.
    """

    root: Path
    version: str
    cuda: str | None
    hip: str | None
    toolkit: str | None = None


@dataclass(frozen=True)
class CudaDecision:
    """Whether CUDA kernels are built, with which nvcc, and why; `reason` names no path of this machine."""

    nvcc: Nvcc | None
    reason: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Toolchain:
    """All that `compile()` needs of this machine, and the settings that it was looked for with."""

    torch: Torch
    cxx: Cxx
    cuda: CudaDecision
    cuobjdump: Path | None
    launchers: Launchers
    settings: Settings


def find_toolchain(settings: Settings, environ: Mapping[str, str]) -> Toolchain:
    """Look for everything that the settings ask for.

    Args:
        settings: the effective settings.
        environ: the process environment, for PATH.

    Raises:
        BuildError: for whatever is missing or does not fit, with the places that were looked at and the ways out.
    """
    torch = find_torch()
    cuda = decide_cuda(settings, torch, environ, sys.path)
    cuobjdump = find_cuobjdump(cuda.nvcc, torch.root.parent, environ) if cuda.nvcc else None
    launchers = find_launchers(settings, environ, cuda.nvcc is not None)
    return Toolchain(torch, find_cxx(settings, environ, cuda.nvcc), cuda, cuobjdump, launchers, settings)


def find_torch() -> Torch:
    """The torch that this Python would import, read from its files; its import may be slow or broken."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError(
            "torch's headers are needed to compile, and this Python has no torch",
            required="torch >= 2.10 in the environment that builds",
            found="no package torch on sys.path",
            remedies=[
                "build with isolation (the default of pip, uv and build), which installs torch for the build",
                "or, without isolation: pip install torch",
            ],
        )
    root = Path(next(iter(spec.submodule_search_locations)))
    return read_torch(root)


def read_torch(root: Path) -> Torch:
    """Read a torch from its package folder.

    Raises:
        BuildError: where files are missing that a compile needs.
    """
    needed = ["version.py", STABLE_HEADER, "lib/libtorch_cpu.so"]
    missing = [name for name in needed if not (root / name).is_file()]
    values = {} if "version.py" in missing else _assigned_strings(root / "version.py")
    if not missing and values.get("cuda") and not (root / "lib/libtorch_cuda.so").is_file():
        missing.append("lib/libtorch_cuda.so")
    if missing or not values.get("__version__"):
        raise BuildError(
            "the installed torch is not whole, or older than 2.10",
            required="a torch with its headers, libraries and version.py",
            found="missing in torch's folder: " + (", ".join(missing) or "__version__ in version.py"),
            remedies=["pip install --force-reinstall 'torch>=2.10'"],
        )
    return Torch(root, str(values["__version__"]), values.get("cuda"), values.get("hip"), _pinned_toolkit(root.parent))


def _pinned_toolkit(site: Path) -> str | None:
    """The release of cuda-toolkit that the torch installed in `site` requires (Core metadata, Requires-Dist)."""
    # Its folder is torch-2.11.0.dist-info for 2.11.0+cu130 too, from PyPI: found by the name alone.
    for distribution in importlib.metadata.distributions(name="torch", path=[str(site)]):
        for line in distribution.requires or []:
            try:
                requirement = Requirement(line)
            except InvalidRequirement:  # it concerns something else: torch is installed all the same
                continue
            exact = [specifier.version for specifier in requirement.specifier if specifier.operator == "=="]
            if requirement.name == "cuda-toolkit" and exact:
                return exact[0]
    return None


def _assigned_strings(path: Path) -> dict[str, str | None]:
    """The module-level `name = 'literal'` of a Python file, annotated or not."""
    found: dict[str, str | None] = {}
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):  # cut off, or not text: there is nothing to be known from it
        return found
    for node in module.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        if isinstance(value, ast.Constant) and isinstance(value.value, (str, type(None))):
            found.update({target.id: value.value for target in targets if isinstance(target, ast.Name)})
    return found


def decide_cuda(settings: Settings, torch: Torch, environ: Mapping[str, str], path: Sequence[str] = ()) -> CudaDecision:
    """Whether to build CUDA kernels: the setting `cuda`, then `torch.version.cuda`; never hardware.

    Args:
        settings: may ask for them or not, and name an nvcc.
        torch: what to build against.
        environ: for PATH.
        path: sys.path, where pip may have put a toolkit that is not beside torch.

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
    candidates: list[Candidate] = []
    sites = package_folders(torch, path)
    for where, place in nvcc_places(settings, sites, environ):
        candidate = inspect_nvcc(where, place, torch.cuda, sites, environ)
        candidates.append(candidate)
        if candidate.nvcc:
            _refuse_two_toolkits(settings, candidate, torch.cuda, sites, environ)
            reason = f"torch {torch.version} is built for CUDA {torch.cuda}"
            return CudaDecision(candidate.nvcc, reason, tuple(candidates))
    raise no_nvcc(torch, candidates, settings)


def _refuse_two_toolkits(
    settings: Settings, taken: Candidate, torch_cuda: str, sites: Sequence[Path], environ: Mapping[str, str]
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


def no_nvcc(torch: Torch, candidates: list[Candidate], settings: Settings) -> BuildError:
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
