"""Names of the kernels, which are functions in the namespace splat::kernels, as compilers mangle them."""

from __future__ import annotations

import re


def own_name(mangled: str) -> str:
    """A kernel's own name: `rasterize` of each of the template's functions."""
    match = re.match(r"_ZN5splat7kernelsL?(\d+)(\w+)", mangled)
    return match[2][: int(match[1])] if match else mangled


def in_ptx(mangled: str) -> str:
    """The name that nvcc gives a kernel, which has internal linkage in tests/simt."""
    return mangled.replace("kernelsL", "kernels", 1)
