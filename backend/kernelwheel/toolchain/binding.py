"""What a module of Python needs beyond torch's stable ABI: one Python, one torch, and the headers of both.

torch's CUDA headers include those of cuBLAS, cuSPARSE and cuSOLVER. A toolkit for compiling need not have them, but
torch depends on the wheels of these libraries, and their headers are in there: in `nvidia/cu13/include` beside torch,
or for CUDA 12 in a folder for each, `nvidia/cublas/include`.
"""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import BuildError
from ..core.host import python_abi
from .nvcc import Nvcc

if TYPE_CHECKING:
    from .toolchain import Toolchain

# What ATen/cuda/CUDAContext.h includes of other libraries than the CUDA runtime, and the library that it is of.
CUDA_HEADERS = {"cublas_v2.h": "cublas", "cublasLt.h": "cublas", "cusparse.h": "cusparse", "cusolverDn.h": "cusolver"}


@dataclass(frozen=True)
class Binding:
    """What a module is compiled for, and bound to: its headers decide the bytes.

    Attributes:
        python: the ABI tag, `cp312`.
        torch: the whole version, `2.13.0+cpu`.
    """

    python: str
    torch: str


def bind(toolchain: Toolchain) -> Binding:
    """What a module that is compiled with this toolchain, for the running Python, is bound to.

    Raises:
        BuildError: headers or libraries are missing for it; says which, and what brings them.
    """
    assert toolchain.module_headers
    if not (toolchain.torch.root / "lib" / "libtorch_python.so").is_file():
        raise BuildError(
            "the installed torch is not whole",
            required="lib/libtorch_python.so, which a module of Python is linked to",
            found=f"not there in {toolchain.torch.root}",
            remedies=[f"pip install --force-reinstall 'torch=={toolchain.torch.version}'"],
        )
    return Binding(python_abi(), toolchain.torch.version)


def header_folders(nvcc: Nvcc | None, site: Path) -> tuple[Path, ...]:
    """The folders of headers that a module needs beside torch's own, in the order in which to look in them.

    Args:
        nvcc: compiles it; None: it has no CUDA.
        site: the folder that torch is in.

    Raises:
        BuildError: Python's headers, or those of a CUDA library, are in none of them.
    """
    return (*_python_folders(), *(_cuda_folders(nvcc, site) if nvcc else ()))


def _python_folders() -> tuple[Path, ...]:
    folders = tuple(dict.fromkeys(Path(sysconfig.get_path(name)) for name in ("include", "platinclude")))
    if not any((folder / "Python.h").is_file() for folder in folders):
        version = sysconfig.get_python_version()
        raise BuildError(
            "the headers of this Python are not installed",
            required=f"Python.h of Python {version}, for a module that Python imports",
            found="\n".join(f"{folder}: has no Python.h" for folder in folders),
            remedies=[
                f"install them (Debian, Ubuntu: apt-get install python{version}-dev; Fedora: python3-devel)",
                "or build with a Python that has its headers, such as those of uv and pyenv",
            ],
        )
    return folders


def _cuda_folders(nvcc: Nvcc, site: Path) -> tuple[Path, ...]:
    """The toolkit's headers, which are of one piece with nvcc, and then those of the libraries beside torch."""
    major, minor = nvcc.release
    whole = site / "nvidia" / f"cu{major}" / "include"
    single = (path for path in sorted(site.glob("nvidia/*/include")) if not re.fullmatch(r"cu\d+", path.parent.name))
    folders = tuple(dict.fromkeys([nvcc.include, *([whole] if whole.is_dir() else []), *single]))
    missing = [name for name in CUDA_HEADERS if not any((folder / name).is_file() for folder in folders)]
    if missing:
        names = list(dict.fromkeys(CUDA_HEADERS[name] for name in missing))
        packages = (
            f"'cuda-toolkit[{','.join(names)}]=={major}.{minor}.*'"
            if major >= 13
            else " ".join(f"nvidia-{name}-cu{major}" for name in names)
        )
        raise BuildError(
            "headers of CUDA's libraries are not there, and torch's own headers include them",
            required=f"{', '.join(missing)} of CUDA {major}",
            found="\n".join(f"{folder}: has not all of them" for folder in folders),
            remedies=[
                f"pip install {packages} (beside torch)",
                f"or install a whole CUDA {major}.{minor} toolkit, and set CUDA_HOME to it",
            ],
        )
    return folders
