"""The binding of a module to one Python and one torch, and what it needs beside torch: headers and CUDA libraries.

torch's CUDA headers include those of cuBLAS, cuSPARSE and cuSOLVER. A toolkit for compiling need not have them, but
torch depends on the wheels of these libraries, which contain the headers: in `nvidia/cu13/include` beside torch, or for
CUDA 12 in one folder per library, such as `nvidia/cublas/include`.
"""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from ...project.build_platforms import HOST_PLATFORM
from ...runtime.errors import BuildError
from ...runtime.machine.host import python_abi
from .toolchain import Toolchain
from .toolkit import LIBRARY_FOLDERS, Nvcc

# Headers that ATen/cuda/CUDAContext.h includes beyond the CUDA runtime's, and the library of each.
CUDA_HEADERS = {"cublas_v2.h": "cublas", "cublasLt.h": "cublas", "cusparse.h": "cusparse", "cusolverDn.h": "cusolver"}


@dataclass(frozen=True)
class Binding:
    """The Python and torch that a module is compiled for and bound to: their headers decide its bytes."""

    python: str | None  # the ABI tag, `cp312`; None for libraries that use no Python symbol
    torch: str  # the full version, `2.13.0+cpu`


def bind(toolchain: Toolchain, python: bool) -> Binding:
    """The Binding of what this Toolchain compiles on all of torch's C++ API; for its Python if `python` is set.

    Raises:
        BuildError: headers or libraries are missing; says which, and how to install them.
    """
    if toolchain.cuda.nvcc:
        cuda_folders(toolchain.cuda.nvcc, toolchain.torch.root.parent)
    if python:
        python_folders()
    library = f"lib/{HOST_PLATFORM.shared('torch_python')}"
    if python and not (toolchain.torch.root / library).is_file():
        raise BuildError(
            "the installed torch is incomplete",
            required=f"{library}, which a Python module is linked to",
            found=f"not found in {toolchain.torch.root}",
            remedies=[f"pip install --force-reinstall 'torch=={toolchain.torch.version}'"],
        )
    return Binding(python_abi() if python else None, toolchain.torch.version)


def python_folders() -> tuple[Path, ...]:
    """The folders of the headers of the running Python.

    Raises:
        BuildError: they are not installed.
    """
    folders = tuple(dict.fromkeys(Path(sysconfig.get_path(name)) for name in ("include", "platinclude")))
    if not any((folder / "Python.h").is_file() for folder in folders):
        version = sysconfig.get_python_version()
        raise BuildError(
            "the headers of this Python are not installed",
            required=f"Python.h of Python {version}, for a module that Python imports",
            found="\n".join(f"{folder}: no Python.h" for folder in folders),
            remedies=[
                f"install them (Debian, Ubuntu: apt-get install python{version}-dev; Fedora: python3-devel)",
                "or build with a Python that includes its headers, such as those installed by uv or pyenv",
            ],
        )
    return folders


def cuda_folders(nvcc: Nvcc, site: Path) -> tuple[Path, ...]:
    """The folders of the CUDA headers that torch's own include: the toolkit's, then those of libraries beside torch.

    Raises:
        BuildError: none of them has the headers of a CUDA library.
    """
    major, minor = nvcc.release
    packaged = site / "nvidia" / f"cu{major}" / "include"
    single = (path for path in sorted(site.glob("nvidia/*/include")) if not re.fullmatch(r"cu\d+", path.parent.name))
    folders = tuple(dict.fromkeys([*nvcc.header_folders, *([packaged] if packaged.is_dir() else []), *single]))
    missing = [name for name in CUDA_HEADERS if not any((folder / name).is_file() for folder in folders)]
    if missing:
        names = list(dict.fromkeys(CUDA_HEADERS[name] for name in missing))
        packages = (
            f"'cuda-toolkit[{','.join(names)}]=={major}.{minor}.*'"
            if major >= 13
            else " ".join(f"nvidia-{name}-cu{major}" for name in names)
        )
        raise BuildError(
            "headers of CUDA libraries are missing, and torch's own headers include them",
            required=f"{', '.join(missing)} for CUDA {major}",
            found="\n".join(f"{folder}: does not have all of them" for folder in folders),
            remedies=[
                f"in torch's environment: pip install {packages}",
                f"or install the full CUDA {major}.{minor} toolkit, and set CUDA_HOME to it",
            ],
        )
    return folders


def find_cuda_library(name: str, nvcc: Nvcc, site: Path) -> Path | None:
    """The file of a CUDA library such as `cublas`: in the toolkit, or in the wheels that torch depends on.

    Those have no `libcublas.so`, which a linker looks for, only `libcublas.so.13`. None if there is no such library; a
    name may be that of a system library.
    """
    beside_torch = [site / "nvidia" / f"cu{nvcc.release[0]}" / "lib", *sorted(site.glob("nvidia/*/lib"))]
    ours = [*(nvcc.root / folder for folder in LIBRARY_FOLDERS), *beside_torch]
    places = [nvcc.target.lib] if nvcc.target else ours  # for another platform, none of this machine's will do
    for folder in places:
        for pattern in HOST_PLATFORM.linkable(name):
            if found := sorted(folder.glob(pattern)):
                return found[0]
    return None
