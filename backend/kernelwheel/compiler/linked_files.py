"""The archives, objects and scripts outside a package that are linked in, as far as flags and compilers name them.

A shared library is none of them: which one a process gets is decided when it is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..flags.words import options_of, values_of
from ..project.source_files import file_sha256
from ..readable import readable
from ..runtime.machine.files import is_file
from .headers import Reached
from .plan import Plan
from .toolchain.binding import find_cuda_library
from .toolchain.cxx import LINKED_IN
from .toolchain.toolchain import Toolchain

# What compilers link by themselves, besides what is in their identity: archives, scripts or shared libraries.
_OF_COMPILERS = (
    *("c", "m", "mvec", "gcc", "gcc_s", "gcc_eh", "stdc++", "stdc++_nonshared", "pthread", "rt", "dl", "util"),
    *("anl", "gomp", "atomic", "atomic_asneeded", "quadmath", "gcov", "cudadevrt", "cudart_static"),
)


def linked_files(plan: Plan, toolchain: Toolchain) -> Reached:
    """The files that a Plan's libraries can be linked with.

    Raises:
        BuildError: one cannot be read.
    """
    flags = plan.linker_flags
    named = [*values_of(flags, ("-l",), linker=True), *(name for each in plan.built for name in each.libraries)]
    folders = toolchain.cxx.linker_folders()
    origins: dict[str, str] = {}
    of_flags = [file for name in named for file in _files(name)]
    of_compilers = {*(file for name in _OF_COMPILERS for file in _files(name)), *LINKED_IN, "crtfastmath.o"}
    for place in (*values_of(flags, ("-L",), linker=True), *folders):
        is_own = place in folders and is_file(Path(place, "libgcc.a"))  # the folder of a compiler's own archives
        for file in (*of_flags, *of_compilers):
            # Of a script, what it names counts, not itself.
            of_system = is_own or (place in folders and (file in of_compilers or file.endswith(".so")))
            origins[os.path.realpath(f"{place}/{file}")] = "system" if of_system else "flags"
    if nvcc := toolchain.cuda.nvcc if plan.cuda else None:
        found = (find_cuda_library(name, nvcc, toolchain.torch.root.parent) for name in (*named, *_OF_COMPILERS))
        origins |= {os.path.realpath(path): "cuda" for path in found if path}
    origins |= {path: "flags" for path in files_in(options_of(flags), Path("/"))}
    origins = {path: origin for path, origin in origins.items() if is_file(Path(path)) and not is_shared(path)}
    digests: dict[str, str] = {}
    with readable("a library that is linked in", "files that this user can read"):
        for path in origins:
            name = Path(path).name
            digests[name] = " ".join(sorted({*digests.get(name, "").split(), file_sha256(Path(path))}))
    return Reached({"linked": digests} if digests else {}, origins)


def files_in(words: Iterable[str], folder: Path) -> Iterator[str]:
    """The files that options name, by their real paths: `/a/x.map` of `--version-script=/a/x.map`.

    Relative ones are those in `folder`.
    """
    for word in words:
        if word.startswith("-D") or "/" not in word:
            continue
        at = [-1, *(match.start() for match in re.finditer("[,=@:]", word)), len(word)]
        for path in {word[start + 1 : end] for start in at for end in at}:
            if "/" in path and is_file(folder / path):
                yield os.path.realpath(folder / path)


def is_shared(path: str) -> bool:
    """Whether a file is a shared library: ELF's ET_DYN (System V ABI, "ELF Header")."""
    head = beginning(path, 18)
    if len(head) < 18 or head[:4] != b"\x7fELF":
        return False
    return int.from_bytes(head[16:], "big" if head[5] == 2 else "little") == 3


def beginning(path: str, size: int) -> bytes:
    """The first bytes of a file."""
    with open(path, "rb") as stream:  # noqa: PTH123
        return stream.read(size)


def _files(name: str) -> tuple[str, ...]:
    """The files that `-lNAME` may stand for (ld(1), `-l`)."""
    return (name[1:],) if name.startswith(":") else (f"lib{name}.so", f"lib{name}.a")
