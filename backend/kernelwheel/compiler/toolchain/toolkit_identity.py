"""The identity of a CUDA toolkit: digests of its parts, wherever they are installed.

nvcc's version alone does not determine the code that it makes: the same nvcc with another CCCL gave different machine
code. Each part that can affect the binary is therefore identified by the digest of its content.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path

from ...project.source_files import file_sha256
from ..nvcc_on_clang.passes import HEADER
from .clang_toolkit import CLANG
from .toolkit import Nvcc

# Where clang is in nvcc's place (clang_toolkit.py): what calls it, its libraries and its own headers.
CLANG_PARTS = (
    *("bin/nvcc_on_clang/*.py", HEADER, "bin/fatbinary", "bin/ptxas"),
    *(CLANG, "clang/lib/*", "clang/include/**/*", "include/windows/crt/*"),
)
# Part -> its files, as patterns below the toolkit's root. cudart's headers are listed one by one: pip installs those of
# cuBLAS and others in the same folder, and they must not count here.
PARTS: dict[str, tuple[str, ...]] = {
    "nvcc": ("bin/nvcc", "bin/cudafe++", "bin/fatbinary", "bin/ptxas", "bin/nvlink"),
    "nvvm": ("nvvm/bin/cicc", "nvvm/libdevice/*.bc"),
    "crt": ("include/crt/*", "bin/crt/*"),
    "cudart": tuple(f"include/{name}" for name in (
        "builtin_types*", "channel_descriptor*", "common_functions*", "cooperative_groups*", "cooperative_groups/**/*",
        "cuda.h*", "cuda_awbarrier*", "cuda_bf16*", "cuda_device_runtime*", "cuda_fp*", "cuda_occupancy*",
        "cuda_pipeline*", "cuda_runtime*", "cuda_surface*", "cuda_texture*", "device_*", "driver_*", "fatbinary*",
        "host_*", "library_types*", "math_*", "mma*", "sm_*", "surface_*", "texture_*", "vector_*",
    )),
    # In include/cccl since CUDA 13; before that, in include.
    "cccl": tuple(f"include/{folder}/**/*" for folder in ("cccl", "cub", "thrust", "cuda", "nv")),
}  # fmt: skip


_PATTERNS = (pattern for part in PARTS.values() for pattern in part if pattern.startswith("include/"))
# fnmatch's * takes slashes too: what is below a folder of the toolkit's belongs to it.
_IDENTIFIED = re.compile("|".join(translate(pattern.replace("/**/*", "/*")) for pattern in _PATTERNS))


def toolkit_identity(nvcc: Nvcc) -> dict[str, str]:
    """The toolkit's version and one digest for each of its parts.

    Returns:
        `{"version": "13.0.88", "nvcc": sha256, "nvvm": …, "crt": …, "cudart": …, "cccl": …}`.
    """
    identity = {"version": nvcc.version}
    if nvcc.clang:
        identity["clang"] = nvcc.clang
    for part, patterns in _parts(nvcc).items():
        identity[part] = _digest(_files(nvcc, patterns))
    if cudart := nvcc.cudart:
        identity["cudart_static"] = file_sha256(cudart)
    return identity


def identified_files(nvcc: Nvcc) -> Iterator[Path]:
    """The files that these digests are of."""
    return (path for patterns in _parts(nvcc).values() for _, path in _files(nvcc, patterns))


def is_identified(header: str) -> bool:
    """Whether a header is in the identity, by its name in the folder that nvcc searches: `cub/cub.cuh`."""
    return _IDENTIFIED.match(f"include/{header}") is not None


def cccl_version(nvcc: Nvcc) -> str | None:
    """CCCL's version as stated in its headers, for display: `3.2.0`."""
    headers = ("cuda/std/__cccl/version.h", "cuda/std/detail/libcxx/include/__cccl/version.h")  # since CCCL 2.4; before
    for folder in (nvcc.include / "cccl", nvcc.include):
        for header in (folder / name for name in headers if (folder / name).is_file()):
            match = re.search(r"#\s*define CCCL_VERSION (\d+)", header.read_text(encoding="utf-8"))
            if match:
                number = int(match[1])
                return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"
    return None


def cudart_version(include: Path) -> str:
    """The version of the CUDA runtime as stated in its header in a folder, `13.0`; empty if there is none."""
    header = include / "cuda_runtime_api.h"
    text = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
    match = re.search(r"#\s*define CUDART_VERSION\s+(\d+)", text)
    return f"{int(match[1]) // 1000}.{int(match[1]) // 10 % 100}" if match else ""


def _parts(nvcc: Nvcc) -> dict[str, tuple[str, ...]]:
    return {**PARTS, **({"nvcc": CLANG_PARTS} if nvcc.clang else {})}


def _files(nvcc: Nvcc, patterns: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """The files that match these patterns, by their names below the root; the location of headers does not matter."""
    for pattern in patterns:
        inside = pattern.removeprefix("include/")
        folder, prefix = (nvcc.root, "") if inside == pattern else (nvcc.include, "include/")
        for path in folder.glob(inside):
            if path.is_file():
                yield prefix + path.relative_to(folder).as_posix(), path
    if "bin/nvcc" in patterns and not (nvcc.root / "bin" / "nvcc").is_file():
        yield "bin/nvcc", nvcc.path


def _digest(files: Iterator[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(files):
        digest.update(f"{name}\0{file_sha256(path)}\n".encode())
    return digest.hexdigest()
