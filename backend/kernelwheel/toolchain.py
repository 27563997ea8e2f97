"""What a machine can compile with: torch's files, nvcc and its toolkit, the host C++ compiler.

Everything is read from files and `--version` output. torch is not imported, and no GPU is ever asked for: what a
builder has in its slots says nothing about where the wheel will run.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .archs import Arch
from .errors import BuildError
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
class Nvcc:
    """A CUDA compiler and the toolkit that it uses.

    Attributes:
        path: the nvcc inside the toolkit; where that is not `root/bin/nvcc`, the one that was found.
        root: the toolkit's root as nvcc itself sees it, whatever wrapper leads there.
        version: `13.0.88`.
        supported: the architectures of `nvcc --list-gpu-code`.
        origin: where it was found, in words.
    """

    path: Path
    root: Path
    version: str
    supported: tuple[Arch, ...]
    origin: str

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor of the CUDA release."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


@dataclass(frozen=True)
class Candidate:
    """A place where nvcc was looked for, and what came of it; `nvcc` is None where it was not usable."""

    origin: str
    place: str
    nvcc: Nvcc | None
    outcome: str


@dataclass(frozen=True)
class CudaDecision:
    """Whether CUDA kernels are built, with which nvcc, and why; `reason` names no path of this machine."""

    nvcc: Nvcc | None
    reason: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Toolchain:
    """All that `compile()` needs of this machine."""

    torch: Torch
    cxx: Cxx
    cuda: CudaDecision
    cuobjdump: Path | None


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
    cuobjdump = find_cuobjdump(cuda.nvcc, torch, environ) if cuda.nvcc else None
    return Toolchain(torch, find_cxx(settings, environ), cuda, cuobjdump)


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
    for where, place in nvcc_places(settings, torch, environ):
        candidate = inspect_nvcc(where, place, torch.cuda, environ)
        candidates.append(candidate)
        if candidate.nvcc:
            reason = f"torch {torch.version} is built for CUDA {torch.cuda}"
            return CudaDecision(candidate.nvcc, reason, tuple(candidates))
    raise no_nvcc(torch, candidates)


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


def nvcc_places(settings: Settings, torch: Torch, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Where nvcc may be, in the order in which they count: (where, path); a path may be empty or not exist."""
    site = torch.root.parent
    if settings.nvcc:
        yield settings.origin("nvcc"), settings.nvcc
    if settings.cuda_home:
        yield settings.origin("cuda-home"), str(Path(settings.cuda_home) / "bin" / "nvcc")
    packaged = sorted(site.glob("nvidia/cu*/bin/nvcc"), reverse=True)
    for path in packaged or [site / "nvidia" / "cu*" / "bin" / "nvcc"]:
        yield "pip's cuda-toolkit beside torch", str(path)
    on_path = shutil.which("nvcc", path=environ.get("PATH", ""))
    yield "PATH", on_path or "nvcc"
    usual = sorted(Path("/usr/local").glob("cuda-*"), key=_version_key, reverse=True)
    for path in [Path("/usr/local/cuda"), *usual]:
        yield "the usual folder", str(path / "bin" / "nvcc")


def _version_key(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path.name))


def inspect_nvcc(origin: str, place: str, torch_cuda: str, environ: Mapping[str, str]) -> Candidate:
    """Ask the nvcc at `place` what it is, and whether it fits `torch_cuda` (one CUDA major, any minor)."""
    path = shutil.which(place, path=environ.get("PATH", ""))
    if path is None:
        state = "a broken link" if Path(place).is_symlink() else "not there"
        return Candidate(origin, place, None, state if not Path(place).exists() else "not executable")
    version = _run(path, "--version")
    match = re.search(r"\bV(\d+\.\d+\.\d+)\b", version)
    if not match:
        return Candidate(origin, place, None, f"does not answer --version as nvcc does ({_last_line(version)})")
    if match[1].split(".")[0] != torch_cuda.split(".")[0]:
        return Candidate(origin, place, None, f"is of CUDA {match[1]}, torch is of CUDA {torch_cuda}")
    # --dryrun prints the profile variables: TOP is the root that nvcc itself works with, behind any wrapper script.
    top = re.search(r"^#\$ TOP=(.+)$", _run(path, "--dryrun", "-E", "-x", "cu", os.devnull), re.MULTILINE)
    if not top:
        return Candidate(origin, place, None, "does not say where its toolkit is (--dryrun prints no TOP)")
    root = Path(top[1].strip()).resolve()
    missing = [part for part in ("include/cuda_runtime.h", "nvvm/bin/cicc") if not (root / part).exists()]
    if find_cudart(root) is None:
        missing.append("lib/libcudart_static.a")
    if missing:
        return Candidate(origin, place, None, f"its toolkit {root} lacks {', '.join(missing)}")
    codes = re.findall(r"\bsm_\w+", _run(path, "--list-gpu-code"))
    if not codes:
        return Candidate(origin, place, None, "does not answer --list-gpu-code")
    inner = root / "bin" / "nvcc"
    real = inner if inner.is_file() else Path(path)
    nvcc = Nvcc(real, root, match[1], tuple(sorted(Arch.from_code(code) for code in set(codes))), origin)
    return Candidate(origin, place, nvcc, f"CUDA {match[1]}")


def find_cudart(root: Path) -> Path | None:
    """The static CUDA runtime of a toolkit, in any of the usual layouts."""
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
        path = root / folder / "libcudart_static.a"
        if path.is_file():
            return path
    return None


def find_cuobjdump(nvcc: Nvcc, torch: Torch, environ: Mapping[str, str]) -> Path:
    """The tool that reads the SASS and PTX targets back out of a built library.

    Raises:
        BuildError: it is neither in the toolkit nor in triton nor on PATH.
    """
    triton = torch.root.parent / "triton" / "backends" / "nvidia" / "bin" / "cuobjdump"
    on_path = shutil.which("cuobjdump", path=environ.get("PATH", ""))
    places = [nvcc.root / "bin" / "cuobjdump", triton, *([Path(on_path)] if on_path else [])]
    for place in places:
        if os.access(place, os.X_OK):
            return place
    raise BuildError(
        "cuobjdump is needed to read the compiled architectures back out of the library",
        required="cuobjdump in the CUDA toolkit, in triton (a dependency of torch) or on PATH",
        found="\n".join(f"{place}: not there" for place in places),
        remedies=[f"pip install 'cuda-toolkit[cuobjdump]=={torch.cuda}.*' (beside torch)"],
    )


def find_cxx(settings: Settings, environ: Mapping[str, str]) -> Cxx:
    """The C++ compiler: the setting `cxx`, else c++, g++ or clang++ on PATH.

    Raises:
        BuildError: there is none, or it is neither gcc nor clang.
    """
    names = [settings.cxx] if settings.cxx else ["c++", "g++", "clang++"]
    path = next((found for name in names if (found := shutil.which(name, path=environ.get("PATH", "")))), None)
    version = _run(path, "--version") if path else ""
    kind = "clang" if "clang" in version else "gcc" if re.search(r"\b(gcc|g\+\+|GCC|Free Software)", version) else ""
    if path is None or not kind:
        raise BuildError(
            "no C++ compiler",
            required="gcc or clang with C++17" + (f", as {settings.origin('cxx')} says" if settings.cxx else ""),
            found=", ".join(names) + (": not on PATH" if path is None else f": {_last_line(version)}"),
            remedies=["install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++)", "or set CXX"],
        )
    full = _run(path, "-dumpfullversion") if kind == "gcc" else version
    number = re.search(r"\d+\.\d+(\.\d+)?", full)
    return Cxx(Path(path), kind, number[0] if number else version.splitlines()[0], _run(path, "-dumpmachine").strip())


def _run(program: str, *arguments: str) -> str:
    """What a program prints, stdout and stderr together; what went wrong, where it cannot be run."""
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    return done.stdout


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
