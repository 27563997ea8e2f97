"""Compilers that crash, told from compilers that refuse: which one it was, and which releases do not."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..source_language import CUDA_SUFFIX
from .toolchain.toolchain import Toolchain

_BY_GCC_OR_CLANG = re.compile(r"internal compiler error|PLEASE submit a (?:full )?bug report")
_BY_NVCC = re.compile(r"\b(?:cudafe\+\+|cicc|ptxas|nvlink|fatbinary)'? died |internal error: |Internal error")
_BY_ANY = re.compile(r"Segmentation fault|\(core dumped\)|Aborted$", re.MULTILINE)
# Of releases of nvcc that are reported to crash: at what, and the nearest that do not.
REPORTED = {(13, 2): ("submdspan (alpaka's tests)", "13.1 and 13.3")}


class Crash(NamedTuple):
    """A compiler that crashed."""

    name: str  # `nvcc 13.2.86`
    remedy: str


def find_crash(failure: str, toolchain: Toolchain) -> Crash | None:
    """The crash in the output of a step that failed, which begins with the name of its source."""
    by_cxx, by_nvcc = _BY_GCC_OR_CLANG.search(failure), _BY_NVCC.search(failure)
    if not (by_cxx or by_nvcc or _BY_ANY.search(failure)):
        return None
    nvcc, cxx = toolchain.cuda.nvcc, toolchain.cxx
    if nvcc is None or (by_cxx and not by_nvcc) or not (by_nvcc or failure.partition("\n")[0].endswith(CUDA_SUFFIX)):
        return Crash(f"{cxx.kind} {cxx.version}", f"compile with another release of {cxx.kind}, which CXX names")
    remedy = "compile with another release of nvcc, which CUDACXX names"
    if nvcc.release in REPORTED and not nvcc.clang:
        remedy += ": {1} compile what this one is reported to crash at, {0}".format(*REPORTED[nvcc.release])
    return Crash(nvcc.name, remedy)
