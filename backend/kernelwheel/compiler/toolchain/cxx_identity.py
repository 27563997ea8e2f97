"""The identity of a C++ compiler: its version, and digests of what it runs and links in.

A version alone does not tell one compiler from another: two distributions build gcc 12.2.0 with other defaults, and
beside another assembler, linker and startup files it makes other bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from ...runtime.files import file_sha256, json_sha256
from .cxx import Cxx

# What becomes part of every shared library (GCC Internals, "Initialization"; ld(1), "crti.o").
LINKED_IN = ("crti.o", "crtbeginS.o", "crtendS.o", "crtn.o", "libgcc.a", "libc_nonshared.a")
# The program behind the driver, which is in `cc1plus` for gcc and in the driver itself for clang.
COMPILERS = {"gcc": "cc1plus", "clang": "clang"}


def cxx_identity(cxx: Cxx) -> dict[str, str]:
    """The compiler's kind, version and target, and one digest for each part that shapes its output.

    Returns:
        `{"kind": "gcc", "version": "12.2.0", "target": …, "compiler": sha256, "assembler": sha256, "linker": sha256,
        "linked_in": sha256}`. A part that the compiler does not name is left out.
    """
    identity = {"kind": cxx.kind, "version": cxx.version, "target": cxx.target}
    for part, name in {"compiler": COMPILERS[cxx.kind], "assembler": "as", "linker": "ld"}.items():
        said = cxx.answer(f"-print-prog-name={name}")
        program = shutil.which(said, path=cxx.environ.get("PATH", "")) if said else None
        if program:
            identity[part] = file_sha256(Path(program))
    if linked := list(_linked_in(cxx)):
        identity["linked_in"] = json_sha256(linked)
    return identity


def _linked_in(cxx: Cxx) -> Iterator[tuple[str, str]]:
    for name in LINKED_IN:
        path = Path(cxx.answer(f"-print-file-name={name}"))
        if path.is_absolute() and path.is_file():
            yield name, file_sha256(path)
