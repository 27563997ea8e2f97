"""Compiles the kernels and what executes them into a Python module, and loads it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import torch
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
NAME = "splat_simt"


def build(folder: Path) -> ModuleType:
    """Compile into `folder` and load the result.

    Raises:
        RuntimeError: CMake or a compiler failed; with its output.
    """
    torch_folder = Path(torch.__file__).parent
    _run(
        "cmake", "-S", str(HERE), "-B", str(folder), "-G", "Ninja",
        f"-DCMAKE_MODULE_PATH={REPOSITORY / 'backend' / 'kernelwheel' / 'cmake'}",
        f"-DKERNELWHEEL_TORCH={torch_folder}", "-DKERNELWHEEL_TORCH_TARGET=0", f"-DKERNELWHEEL_OUTPUT={folder}",
        "-DKERNELWHEEL_BINDING=python", f"-DKERNELWHEEL_PYTHON_HEADERS={sysconfig.get_path('include')}",
    )  # fmt: skip
    _run("cmake", "--build", str(folder))
    library = folder / f"{NAME}.so"
    spec = importlib.util.spec_from_file_location(NAME, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.set_shared(*shared_memory(library))
    module.set_kernels(kernels(library))
    return module


def symbols(library: Path, kind: str) -> list[tuple[str, int, int]]:
    """The symbols of a kind that a library defines: name, value, size."""
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return [
            (symbol.name, symbol["st_value"], symbol["st_size"])
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == kind and symbol["st_shndx"] != "SHN_UNDEF"
        ]


def kernels(library: Path) -> dict[int, str]:
    """The functions in the namespace splat::kernels: their own names, by their offsets."""
    found = {}
    for name, offset, _ in symbols(library, "STT_FUNC"):
        if match := re.match(r"_ZN5splat7kernelsL?(\d+)(\w+)", name):
            found[offset] = match[2][: int(match[1])]
    return found


def shared_memory(library: Path) -> tuple[list[tuple[str, int, int, bool]], int]:
    """What simt.h made thread-local: name, offset, bytes and whether it is `extern`; and the anchor's offset."""
    found = symbols(library, "STT_TLS")
    (anchor,) = (offset for name, offset, _ in found if name == "simt_anchor")
    # A variable of a function has a mangled name that begins so; its last part is its own name.
    shared = [(_own_name(name), offset, size, not name.startswith("_ZZ")) for name, offset, size in found]
    return [entry for entry in shared if entry[1] != anchor], anchor


def _run(*command: str) -> None:
    # The programs of this Python's environment, as pip installs them.
    scripts = sysconfig.get_path("scripts")
    environ = {**os.environ, "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")])}
    done = subprocess.run(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}")


def _own_name(mangled: str) -> str:
    """The variable's own name: the last one, each with its length before it."""
    for start in range(len(mangled) - 1, 0, -1):
        digits = mangled[start:]
        length = len(digits) - len(digits.lstrip("0123456789"))
        name = digits[length:].removesuffix("E")
        if length and int(digits[:length]) == len(name):
            return name
    return mangled
