"""What a machine can compile with: torch's files, nvcc and its toolkit, the host C++ compiler.

Everything is read from files and `--version` output. torch is not imported, and no GPU is ever asked for: what a
builder has in its slots says nothing about where the wheel will run.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError, SettingsError
from .nvcc import Candidate, Nvcc, find_cuobjdump, inspect_nvcc, nvcc_places
from .programs import last_line, output_of
from .settings import Settings

STABLE_HEADER = "include/torch/csrc/stable/library.h"


@dataclass(frozen=True)
class Torch:
    """An installed torch, known from its files.

    Attributes:
        root: the package folder, with include/ and lib/.
        version: `2.15.0+cu132`.
        cuda: `torch.version.cuda`, for example `13.2`; None for a build without CUDA.
        hip: `torch.version.hip`; None for a build without ROCm.
    """

    root: Path
    version: str
    cuda: str | None
    hip: str | None


@dataclass(frozen=True)
class Cxx:
    """A host C++ compiler: `path`, and what it is: kind (`gcc`, `clang`), full version, target triple."""

    path: Path
    kind: str
    version: str
    target: str


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
    settings: Settings


def find(settings: Settings, environ: Mapping[str, str]) -> Toolchain:
    """Look for everything that the settings ask for.

    Args:
        settings: the effective settings.
        environ: the process environment, for PATH.

    Raises:
        BuildError: for whatever is missing or does not fit, with the places that were looked at and the ways out.
    """
    torch = find_torch()
    cuda = decide_cuda(settings, torch, environ)
    cuobjdump = find_cuobjdump(cuda.nvcc, torch.root.parent, environ) if cuda.nvcc else None
    return Toolchain(torch, find_cxx(settings, environ), cuda, cuobjdump, settings)


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
    return Torch(root, str(values["__version__"]), values.get("cuda"), values.get("hip"))


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


def decide_cuda(settings: Settings, torch: Torch, environ: Mapping[str, str]) -> CudaDecision:
    """Whether to build CUDA kernels: the setting `cuda`, then `torch.version.cuda`; never hardware.

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
            required=f"a torch with torch.version.cuda set, because cuda is on ({origin})",
            found=f"torch {torch.version}, {kind}",
            remedies=[
                "install a CUDA build of torch where this wheel is built",
                f"or do not ask for CUDA: unset {origin.split()[-1]}, or set it to auto or off",
            ],
        )
    candidates: list[Candidate] = []
    for where, place in nvcc_places(settings, torch.root.parent, environ):
        candidate = inspect_nvcc(where, place, torch.cuda, environ)
        candidates.append(candidate)
        if candidate.nvcc:
            _refuse_two_toolkits(settings, candidate, torch.cuda, environ)
            reason = f"torch {torch.version} is built for CUDA {torch.cuda}"
            return CudaDecision(candidate.nvcc, reason, tuple(candidates))
    raise no_nvcc(torch, candidates)


def _refuse_two_toolkits(settings: Settings, taken: Candidate, torch_cuda: str, environ: Mapping[str, str]) -> None:
    """CUDACXX of one toolkit beside CUDA_HOME of another, or the same by `-C`: only a person knows which is meant.

    No contradiction: one of them does not fit torch, or `-C` puts another in the place of a variable.
    """
    origin, home = settings.origin("nvcc"), settings.origin("cuda-home")
    if taken.origin != origin or not settings.cuda_home or settings.place("nvcc") != settings.place("cuda-home"):
        return
    other = inspect_nvcc(home, str(Path(settings.cuda_home) / "bin" / "nvcc"), torch_cuda, environ)
    if taken.nvcc and other.nvcc and other.nvcc.root != taken.nvcc.root:
        raise SettingsError(
            f"{origin} and {home} name two CUDA toolkits",
            required=f"one toolkit of CUDA {torch_cuda.split('.')[0]}",
            found="\n".join(f"{c.origin}: {c.nvcc.root}: {c.outcome}" for c in (taken, other) if c.nvcc),
            remedies=[f"leave out {origin}, or {home}, whichever is not meant"],
        )


def no_nvcc(torch: Torch, candidates: list[Candidate]) -> BuildError:
    """torch has CUDA and no nvcc fits: never a silent CPU wheel."""
    major = str(torch.cuda).split(".")[0]
    if int(major) >= 13:
        pip = f"pip install 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm,cuobjdump]=={torch.cuda}.*' (beside torch)"
    else:
        pip = f"install the CUDA {torch.cuda} toolkit (pip has no whole nvcc before CUDA 13) and set CUDA_HOME to it"
    return BuildError(
        f"torch {torch.version} is built for CUDA {torch.cuda}, and no usable nvcc of CUDA {major} was found",
        required=f"nvcc of CUDA {major}.x",
        found="\n".join(f"{c.origin}: {c.place}: {c.outcome}" for c in candidates),
        remedies=[
            pip,
            f"or set CUDA_HOME or CUDACXX to a CUDA {major}.x toolkit",
            "or build without CUDA kernels, on purpose: set cuda to off (-C cuda=off)",
        ],
    )


def find_cxx(settings: Settings, environ: Mapping[str, str]) -> Cxx:
    """The C++ compiler: the setting `cxx`, else c++, g++ or clang++ on PATH.

    Raises:
        BuildError: there is none, or it is neither gcc nor clang.
    """
    names = [settings.cxx] if settings.cxx else ["c++", "g++", "clang++"]
    path = next((found for name in names if (found := shutil.which(name, path=environ.get("PATH", "")))), None)
    version = output_of(path, "--version") if path else ""
    kind = "clang" if "clang" in version else "gcc" if re.search(r"\b(gcc|g\+\+|GCC|Free Software)", version) else ""
    if path is None or not kind:
        raise BuildError(
            "no C++ compiler",
            required="gcc or clang with C++17" + (f", as {settings.origin('cxx')} says" if settings.cxx else ""),
            found=", ".join(names) + (": not on PATH" if path is None else f": {last_line(version)}"),
            remedies=["install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++)", "or set CXX"],
        )
    full = output_of(path, "-dumpfullversion") if kind == "gcc" else version
    number = re.search(r"\d+\.\d+(\.\d+)?", full)
    target = output_of(path, "-dumpmachine").strip()
    return Cxx(Path(path), kind, number[0] if number else version.splitlines()[0], target)
