"""What the native sources promise and a compiler does not check."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from folders import REPOSITORY
from programs import find_optional

from splat._schemas import SCHEMAS

CSRC = REPOSITORY / "csrc"
SOURCES = sorted(path for path in CSRC.rglob("*") if path.suffix in {".h", ".cuh", ".cpp", ".cu"})
INSTRUCTION_SETS = sorted((CSRC / "cpu").glob("lanes_*.cpp"))
INNER_LOOPS = dict(re.findall(r"add_part\((\w+) INNER_LOOPS (\w+\.h)", (CSRC / "CMakeLists.txt").read_text()))
FLAGS = {"avx2": ["-mavx2", "-mfma"], "avx512": ["-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq"]}


def includes(path: Path) -> list[str]:
    """What a file includes, with its brackets or quotes."""
    return re.findall(r'^\s*#\s*include\s+([<"][^>"]+[>"])', path.read_text(), re.MULTILINE)


def included_files(path: Path) -> set[Path]:
    """A file and all files of ours that it includes."""
    found = {path}
    for name in includes(path):
        if name.startswith('"'):
            found |= included_files((path.parent / name.strip('"')).resolve())
    return found


def code(path: Path) -> str:
    """A file's text without its comments."""
    return re.sub(r"//.*", "", path.read_text())


def schemas() -> list[str]:
    return [schema.partition("(")[0] for schema in SCHEMAS]


def implemented(file: str) -> list[str]:
    """Names of the operators that a file registers."""
    text = (CSRC / "operators" / file).read_text()
    found = re.findall(r'm\.impl\("(\w+)"|^  SPLAT_(OPERATOR|GRADIENT)\((\w+)', text, re.M)
    return [name or other + "_backward" * (kind == "GRADIENT") for name, kind, other in found]


def test_the_sources_were_found() -> None:
    assert len(SOURCES) > 20
    assert len(INSTRUCTION_SETS) == 3
    assert len(INNER_LOOPS) == 4
    assert set(schemas()) >= {"project", "spherical_harmonics", "intersect", "rasterize"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CSRC)))
def test_only_the_stable_parts_of_torch_are_used(path: Path) -> None:
    stable = ("<torch/csrc/stable/", "<torch/headeronly/", "<torch/csrc/inductor/aoti_torch/c/shim.h>")
    unstable = [
        name
        for name in includes(path)
        if re.match(r"<(torch|ATen|c10|caffe2|pybind11|Python\.h)", name) and not name.startswith(stable)
    ]
    assert not unstable


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CSRC)))
def test_only_the_operators_include_torch(path: Path) -> None:
    """Its headers, and what is made of them, take longer to compile than a kernel; nvcc reads them twice."""
    torch = {name for name in includes(path) if name.startswith("<torch")}
    threads = {"<torch/csrc/stable/c/shim.h>", "<torch/headeronly/util/shim_utils.h>"}
    assert path.parent.name == "operators" or torch <= (threads if path.name == "parallel.h" else set())


@pytest.mark.parametrize("path", sorted((CSRC / "cuda").iterdir()), ids=lambda path: path.name)
def test_files_for_nvcc_need_what_cuda_brings_only(path: Path) -> None:
    """CUB's headers take three times as long as our kernels that sort, mostly on the host's side."""
    libraries = {name for name in includes(path) if name.startswith("<")}
    assert libraries <= {"<cuda_runtime.h>", "<cuda_runtime_api.h>", "<stdint.h>"}


@pytest.mark.parametrize("path", sorted((CSRC / "math").glob("*.h")), ids=lambda path: path.name)
def test_mathematics_needs_neither_torch_nor_the_standard_library(path: Path) -> None:
    assert {name for name in includes(path) if name.startswith("<")} <= {"<stdint.h>"}


@pytest.mark.parametrize("path", sorted((CSRC / "cuda").glob("*.cuh")), ids=lambda path: path.name)
def test_cuda_kernels_need_mathematics_only(path: Path) -> None:
    assert {file.parent.name for file in included_files(path)} == {"cuda", "math"}


@pytest.mark.parametrize("loops", INNER_LOOPS.values())
def test_code_for_one_instruction_set_cannot_leak_into_another(loops: str) -> None:
    """An inline function that two objects share is kept once: it must not be the one for the newer CPU."""
    libraries = {
        name for file in included_files(CSRC / "cpu" / loops) for name in includes(file) if name.startswith("<")
    }
    assert libraries <= {"<stdint.h>", "<immintrin.h>", "<arm_neon.h>"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction sets are those of x86-64")
@pytest.mark.skipif(not (shutil.which("c++") and shutil.which("nm")), reason="needs a C++ compiler and nm")
def test_an_object_of_an_instruction_set_defines_its_functions_alone(tmp_path: Path) -> None:
    """The newest one's, of all parts; each is the same sources with other names
    (test_code_for_one_instruction_set_cannot_leak).
    """
    name, path, every = "avx512", CSRC / "cpu/lanes_avx512.cpp", tmp_path / "every_part.h"
    every.write_text("".join(f'#include "{CSRC / "cpu" / loops}"\n' for loops in INNER_LOOPS.values()))
    given = [*FLAGS[name], f'-DSPLAT_INNER_LOOPS="{every}"']
    # Without optimisation nothing is inlined away that could have been shared.
    subprocess.run(["c++", "-std=c++17", "-O0", *given, "-c", path, "-o", tmp_path / "object"], check=True)
    listed = subprocess.run(
        ["nm", "--defined-only", "--extern-only", "--demangle", tmp_path / "object"],
        check=True,
        capture_output=True,
        text=True,
    )
    symbols = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    functions = sorted(symbol.partition("(")[0] for _, kind, symbol in symbols if kind in "TtWw")
    loops = ("image_loss_strip", "project_rows", "rasterize_block", "rasterize_rays", "rasterize_surfels")
    assert functions == [f"splat::{name}::{loop}{suffix}" for loop in loops for suffix in ("", "_backward")]


@pytest.mark.minutes
@pytest.mark.every_program
@pytest.mark.skipif(not find_optional("aarch64-linux-gnu-g++"), reason="needs aarch64-linux-gnu-g++")
@pytest.mark.parametrize("path", sorted((CSRC / "cpu").glob("*_baseline.cpp")), ids=lambda path: path.stem)
def test_on_arm_vectors_are_neon_s_and_only_what_the_source_names_is_fused(path: Path, tmp_path: Path) -> None:
    """aarch64 always has fused operations: what a compiler fuses by itself, it fuses on one machine alone."""
    text = (CSRC / "CMakeLists.txt").read_text()
    options = re.search(r"PRIVATE (-ffp-contract=off [^)]+)\)", text)
    assert options is not None

    def assembly(*more: str) -> str:
        command = ["aarch64-linux-gnu-g++", "-std=c++17", "-O3", *more, f'-DSPLAT_INNER_LOOPS="{INNER_LOOPS["main"]}"']
        command += ["-S", "-o", tmp_path / "assembly", path]
        subprocess.run(command, check=True)
        return (tmp_path / "assembly").read_text()

    made = assembly(*options[1].split())
    assert not re.search(r"\bfn?m(add|sub)\b", made)  # one number at a time: none is named
    fused = r"\bfml[as]\tv\d+\.4s"
    assert 0 < len(re.findall(fused, made)) < len(re.findall(fused, assembly("-ffp-contract=fast")))
    assert re.search(r"\baddv\ts\d+, v\d+\.4s", made)


def test_every_operator_is_implemented_on_every_device() -> None:
    selects = [f"instruction_set_{part}" for part in INNER_LOOPS if part != "main"]
    assert implemented("cpu.cpp") == ["instruction_set", "available_memory"]
    assert [name for part in INNER_LOOPS if part != "main" for name in implemented(f"cpu_{part}.cpp")] == selects
    on_devices = [name for path in (CSRC / "operators").glob("*_operators.h") for name in implemented(path.name)]
    assert sorted(on_devices) == sorted(schemas())
    for part in INNER_LOOPS:
        for device, key in (("cpu", "CPU"), ("cuda", "CUDA")):
            text = (CSRC / "operators" / (f"{device}.cpp" if part == "main" else f"{device}_{part}.cpp")).read_text()
            functions = "rasterization" if part == "main" else part
            assert f"STABLE_TORCH_LIBRARY_IMPL(splat, {key}, m) {{ splat::implement_{functions}<" in text
    registered = (REPOSITORY / "splat" / "ops" / "registration.py").read_text()
    assert [name for name in on_devices if f'register_fake("splat::{name}"' not in registered] == []


def test_no_kernel_asks_for_its_architecture() -> None:
    """Those that do would get the answer of another one: nvcc's front end runs once for several (CMakeLists.txt)."""
    for path in SOURCES:
        assert "__CUDA_ARCH" not in code(path).replace("defined(__CUDA_ARCH__)", ""), path


def test_every_source_is_compiled() -> None:
    listed = set(re.findall(r"(?:\w+/)?\w+\.(?:cpp|cu)\b", (CSRC / "CMakeLists.txt").read_text()))
    assert listed == {str(path.relative_to(CSRC)) for path in SOURCES if path.suffix in {".cpp", ".cu"}}


@pytest.mark.parametrize("literal", ["255", "3.33f"])
def test_constants_of_the_picture_are_written_once(literal: str) -> None:
    pattern = re.compile(rf"(?<![\w.]){re.escape(literal)}(?!\w)|(?<![\w.]){re.escape(literal)}\.0f")
    assert [path.name for path in SOURCES if pattern.search(code(path))] == ["constants.h"]
