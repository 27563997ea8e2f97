"""The toolkit's part for another platform, as pip unpacks it: the wheels that have it, and the folder to compile with.

Since CUDA 13 the wheels put all of it in one folder, `nvidia/cu13`. Before that each had a folder of its own, such as
`nvidia/cuda_runtime`; these are put together here.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...project.build_platforms import Platform
from ..toolchain.clang_headers import HEADERS
from ..toolchain.linked_toolkit import linked_folder
from ..toolchain.toolkit import Nvcc

# The first release whose wheels have the static CUDA runtime.
OLDEST = (12, 9)
WHEELS_12 = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-cccl-cu12", "nvidia-cuda-nvcc-cu12")
WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-nvcc")  # since CUDA 13


def pip_words(release: str, platform: Platform) -> tuple[str, ...]:
    """The words of a `pip install` that unpack the part of a CUDA release, such as 12.9, besides `--target`."""
    names = WHEELS if int(release.split(".")[0]) >= 13 else WHEELS_12
    tag = f"manylinux_2_17_{platform.machine}"
    return ("--no-deps", "--only-binary=:all:", "--platform", tag, *(f"{name}=={release}.*" for name in names))


def packaged_part(packages: Path, nvcc: Nvcc) -> tuple[Path, Path | str]:
    """Where pip's part for a platform is in a folder of packages, for messages, and the folder to compile with.

    Returns:
        In place of the second, in words, why it cannot be put together.
    """
    if nvcc.release[0] >= 13:
        whole = packages / "nvidia" / f"cu{nvcc.release[0]}"
        return whole, whole
    nvidia = packages / "nvidia"
    single = [path for path in sorted(nvidia.glob("*")) if not re.fullmatch(r"cu\d+", path.name)]
    parts = {f"include/{path.name}": path for folder in single for path in folder.glob("include/[!_]*")}
    parts |= {f"lib/{path.name}": path for folder in single for path in folder.glob("lib/lib*")}
    return nvidia, linked_folder(parts, HEADERS)
