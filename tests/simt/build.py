"""Compiles the kernels and what executes them into a Python module, and loads it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import torch
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

HERE = Path(__file__).resolve().parent
CSRC = HERE.parents[1] / "csrc"
NAME = "splat_simt"

# -ffp-contract=off: the kernels ask for fused operations by name. Optimised only so far that the kernels run fast enough:
# what the sanitizer reports must be what the source says.
COMMON = ["-std=c++17", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-unused-function"]
SOURCES = {
    "kernels.cpp": ["-O1", "-fsanitize=thread"],
    "engine.cpp": ["-O2", "-U_FORTIFY_SOURCE"],
    "module.cpp": ["-O0", "-fvisibility=hidden"],
}


def build(folder: Path) -> ModuleType:
    """Compile into `folder`, all files at once, and load the result.

    Raises:
        RuntimeError: a compiler failed; with its output.
    """
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    # torch's pybind11, so that none need be installed.
    headers = [str(Path(torch.__file__).parent / "include"), sysconfig.get_path("include")]
    options = [*COMMON, f"-I{HERE}", f"-I{CSRC}", *(part for header in headers for part in ("-isystem", header))]
    compiling = [
        subprocess.Popen(
            [*compiler, *options, *own, "-c", str(HERE / source), "-o", str(folder / f"{source}.o")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for source, own in SOURCES.items()
    ]
    outputs = [process.communicate()[0] for process in compiling]
    if any(process.returncode for process in compiling) or any(outputs):
        raise RuntimeError("".join(outputs) or "a compiler failed without a message")
    library = folder / f"{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run([*compiler, "-shared", "-o", library, *(folder / f"{source}.o" for source in SOURCES)], check=True)
    spec = importlib.util.spec_from_file_location(NAME, library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shared, anchor = shared_memory(library)
    module.set_shared(shared, anchor)
    return module


def shared_memory(library: Path) -> tuple[list[tuple[str, int, int, bool]], int]:
    """What simt.h made thread-local: name, offset, bytes and whether it is `extern`; and the anchor's offset."""
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        found = [
            (symbol.name, symbol["st_value"], symbol["st_size"])
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_TLS" and symbol["st_shndx"] != "SHN_UNDEF"
        ]
    (anchor,) = (offset for name, offset, _ in found if name == "simt_anchor")
    # A variable of a function has a mangled name that begins so; its last part is its own name.
    shared = [(_own_name(name), offset, size, not name.startswith("_ZZ")) for name, offset, size in found]
    return [entry for entry in shared if entry[1] != anchor], anchor


def _own_name(mangled: str) -> str:
    """The variable's own name: the last one, each with its length before it."""
    for start in range(len(mangled) - 1, 0, -1):
        digits = mangled[start:]
        length = len(digits) - len(digits.lstrip("0123456789"))
        name = digits[length:].removesuffix("E")
        if length and int(digits[:length]) == len(name):
            return name
    return mangled
