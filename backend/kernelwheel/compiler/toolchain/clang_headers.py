"""Headers of a toolkit that has clang in nvcc's place: what nvcc's own give host code, and clang's do not."""

from __future__ import annotations

from ..nvcc_on_clang.passes import HEADER

# libdevice's square root is an approximation unless nvcc says otherwise (libdevice user's guide, "__CUDA_PREC_SQRT"),
# and clang has no way to say it. clang's own root is IEEE's.
ROOT = """#if NVCC_PREC_SQRT
extern "C" inline __device__ float __nv_sqrtf(float x) { return __builtin_sqrtf(x); }
#endif"""


def _prelude() -> str:
    """What is included before each source: some of C's headers, and `min` and `max` for the host.

    clang makes those of CUDA's headers for the GPU alone. Besides, the square root.
    """
    lines = [f"#include <{name}>" for name in ("assert.h", "math.h", "stdio.h", "string.h", "time.h", "new")]
    for name, sign in (("min", "<"), ("max", ">")):
        function = "static inline __host__ {0} " + name + "({1} a, {2} b) {{ return {3}; }}"
        for signed in ("int", "long", "long long"):
            unsigned = f"unsigned {signed}"
            lines.append(function.format(signed, signed, signed, f"a {sign} b ? a : b"))
            for types in ((unsigned, unsigned), (signed, unsigned), (unsigned, signed)):
                either = f"({unsigned})a {sign} ({unsigned})b ? ({unsigned})a : ({unsigned})b"
                lines.append(function.format(unsigned, *types, either))
        lines.append(function.format("float", "float", "float", f"f{name}f(a, b)"))
        for types in (("double", "double"), ("float", "double"), ("double", "float")):
            lines.append(function.format("double", *types, f"f{name}(a, b)"))
    return "\n".join([*lines, ROOT, ""])


# The second is one of curand's, which clang's headers include, whether it is used or not.
HEADERS = {HEADER: _prelude(), "include/curand_mtgp32_kernel.h": ""}
