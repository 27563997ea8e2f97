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
from torch import library as operators

from .ptx_translator import kernels_in, translate

HOST_PLATFORM = Path(__file__).resolve().parent
REPOSITORY = HOST_PLATFORM.parents[1]
PTX = "splat_ptx"  # the name of the module and of its operators, where there is one


def build(folder: Path, name: str, ptx: str, kernels: str = "5splat7kernels", count: bool = False) -> ModuleType:
    """Compile into `folder` and load the result. Its attributes `ptx` and `in_ptx` have the PTX and the kernels in it.

    Args:
        folder: where; made if there is none.
        name: of the module and of its operators, of which a process has only one.
        ptx: the PTX to execute, as cuobjdump prints it.
        kernels: a part of the mangled names of those to execute, as a regular expression.
        count: whether to count what warps do (`counts`, `clear_counts`) in place of checking it.

    Raises:
        UnknownInstruction: there is PTX that the translator does not know.
        RuntimeError: CMake or a compiler failed; with its output.
    """
    torch_folder = Path(torch.__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "ptx_kernels.cpp"
    found = kernels_in(ptx, kernels)
    source = translate(found, count)
    if not (made.exists() and made.read_text(encoding="utf-8") == source):  # what is up to date stays compiled
        made.write_text(source, encoding="utf-8")
    _run(
        "cmake", "-S", str(HOST_PLATFORM), "-B", str(folder), "-G", "Ninja",
        f"-DCMAKE_MODULE_PATH={REPOSITORY / 'backend' / 'kernelwheel' / 'cmake'}",
        f"-DKERNELWHEEL_TORCH={torch_folder}", "-DKERNELWHEEL_TORCH_TARGET=0", f"-DKERNELWHEEL_OUTPUT={folder}",
        "-DKERNELWHEEL_TORCH_STANDARD=20", "-DKERNELWHEEL_BINDING=python",
        f"-DKERNELWHEEL_PYTHON_HEADERS={sysconfig.get_path('include')}",
        f"-DSIMT_NAME={name}", f"-DSIMT_PTX={made}",
        f"-DSIMT_COUNT={int(count)}",
    )  # fmt: skip
    _run("cmake", "--build", str(folder))
    library = folder / f"{name}.so"
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    define_operators(name)
    spec.loader.exec_module(module)
    module.set_shared(*shared_memory(library))
    # nvcc does not give kernels internal linkage, as simt.h does.
    module.set_kernels(
        {offset: mangled.replace("kernelsL", "kernels", 1) for offset, mangled in functions(library).items()}
    )
    module.in_ptx, module.ptx = set(found), ptx  # type: ignore[attr-defined]
    return module


def define_operators(namespace: str) -> None:
    """Define splat's operators in another namespace, where a module implements them."""
    from splat._schemas import SCHEMAS

    for schema in SCHEMAS:
        name, opening, rest = schema.partition("(")
        operators.define(f"{namespace}::{name}", opening + rest)


def cuda_libraries(folder: Path) -> list[Path]:
    """Those of all parts in the folder of an Artifact, or a file itself."""
    return sorted(folder.glob("libsplat_cuda*.so")) if folder.is_dir() else [folder]


def ptx_of(folder: Path, cuobjdump: str) -> dict[str, str]:
    """The PTX in the CUDA libraries of a folder by architecture, `9.0`; the newest last.

    Raises:
        RuntimeError: cuobjdump cannot read one.
    """
    text = ""
    for library in cuda_libraries(folder):
        done = subprocess.run([cuobjdump, "--dump-ptx", library], capture_output=True, text=True, check=False)
        if done.returncode or ".entry" not in done.stdout:
            raise RuntimeError(f"{cuobjdump} finds no PTX in {library}: {done.stderr or done.stdout[:200]}")
        text += done.stdout
    found: dict[int, str] = {}
    for module in re.split(r"^(?=\.version )", text, flags=re.MULTILINE)[1:]:  # one for each source
        target = re.search(r"^\.target sm_(\d+)", module, re.MULTILINE)
        assert target is not None
        found[int(target[1])] = found.get(int(target[1]), "") + module
    return {f"{number // 10}.{number % 10}": found[number] for number in sorted(found)}


def newest_ptx(folder: Path, cuobjdump: str) -> str:
    """The PTX for the newest architecture, which drivers compile for GPUs that there is no SASS for."""
    return [*ptx_of(folder, cuobjdump).values()][-1]


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


def functions(library: Path) -> dict[int, str]:
    """The functions in the namespace splat::kernels: their mangled names, by their offsets."""
    found = {offset: name for name, offset, _ in symbols(library, "STT_FUNC")}
    return {offset: name for offset, name in found.items() if name.startswith("_ZN5splat7kernels")}


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
