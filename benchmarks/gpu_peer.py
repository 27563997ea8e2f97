"""Compile gsplat's kernels where gsplat is installed, as its first import does.

Ninja must be on PATH, TORCH_EXTENSIONS_DIR says where to, TORCH_CUDA_ARCH_LIST what for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from pathlib import Path

from gpu_rows import SKIPPED

LIBRARY = "gsplat_cuda"


def main() -> int:
    """Import it, which compiles."""
    if importlib.util.find_spec("gsplat") is None:
        print("skipped: gsplat is not installed")
        return SKIPPED
    begin = time.perf_counter()
    backend = importlib.import_module("gsplat.cuda._backend")
    if backend._C is None:
        print("skipped: gsplat finds no CUDA toolkit to compile its kernels with")
        return SKIPPED
    print(f"compiled or found after {time.perf_counter() - begin:.0f} s")
    return 0


def is_ready() -> bool:
    """Whether gsplat can be imported without compiling."""
    spec = importlib.util.find_spec("gsplat")
    if spec is None or spec.origin is None:
        return False
    if list(Path(spec.origin).parent.glob("csrc.*.so")):
        return True
    from torch.utils.cpp_extension import _get_build_directory

    return Path(_get_build_directory(LIBRARY, verbose=False), f"{LIBRARY}.so").exists()


if __name__ == "__main__":
    sys.exit(main())
