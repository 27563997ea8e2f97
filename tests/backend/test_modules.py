"""Modules of Python: an existing torch extension in a wheel that is bound to one Python and one torch, and says so."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import TORCH, Wheel, build, contents, needs_cuda_torch, refused_build
from editables import REQUIRE, Editable, make_editable
from folders import BACKEND
from kernelwheel.cli.manifest_text import manifest_text
from kernelwheel.compiler.binary_inspect import library_at
from kernelwheel.compiler.cmake_driver import CMAKE_VERSION
from kernelwheel.runtime.artifact import manifest as manifests
from packaging.specifiers import SpecifierSet
from processes import Done, RunPython, run
from samples import bind_modules, flip, rewrite_manifest
from scikit_build_core.cmake import CMake

pytestmark = [pytest.mark.slow]

Checkout = Callable[..., Path]
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
MINOR = re.match(r"\d+\.\d+", TORCH.version)[0]  # type: ignore[index]
SCALE = "classic.scale(torch.arange(4.0), 2.5).tolist() == [0.0, 2.5, 5.0, 7.5]"


# The wheel of an existing extension


def test_the_wheel_is_for_this_python_and_this_minor_release_of_torch_and_says_so(classic_wheel: Wheel) -> None:
    tag = f"{PYTHON}-{PYTHON}-manylinux_2_28_{platform.machine()}"

    assert classic_wheel.file.name == f"classic-0.5.0-{''.join(MINOR.split('.'))}torch-{tag}.whl"
    assert f"\nTag: {tag}\n" in (classic_wheel.unpacked / "classic-0.5.0.dist-info/WHEEL").read_text()
    manifest = manifests.read(classic_wheel.native)
    assert manifest is not None
    assert (manifest.requires.python, manifest.requires.torch) == (PYTHON, f"{MINOR}.*")
    assert manifest.plan["target"]["binding"] == {"python": PYTHON, "torch": TORCH.version}
    (library,) = manifest.libraries
    assert (library.file, library.module, library.device) == ("_C.so", "_C", "cuda" if TORCH.cuda else "cpu")
    assert f"torch {MINOR}.*, Python {PYTHON}, linux" in (text := manifest_text(manifest))
    assert "imported as _C" in text


def test_the_module_names_torch_s_libraries_and_not_python_s(classic_wheel: Wheel) -> None:
    libraries = library_at(classic_wheel.native / "_C.so").needed

    assert {"libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so"} <= set(libraries)
    assert ({"libtorch_cuda.so", "libc10_cuda.so"} <= set(libraries)) == (TORCH.cuda is not None)
    assert [name for name in libraries if re.match(r"lib(python|cudart|cublas|cusparse|cusolver)", name)] == []


def test_no_path_of_the_builder_is_in_the_module(classic_wheel: Wheel, build_root: Path) -> None:
    data = (classic_wheel.native / "_C.so").read_bytes()
    marks = (str(TORCH.root.parent), sys.prefix, sys.base_prefix, "/usr/local/cuda", str(build_root), "/kernelwheel-")

    assert b"./torch/include/" in data  # torch's checks name the header that they stand in
    assert [mark for mark in marks if mark.encode() in data] == []


def test_the_wheel_has_the_loader_and_the_sources(classic_wheel: Wheel) -> None:
    packed = contents(classic_wheel.unpacked / "classic/_kernelwheel")

    lines = sum(data.count(b"\n") for data in packed.values() if data is not None)

    assert packed == contents(BACKEND / "kernelwheel/runtime")
    assert len([name for name, data in packed.items() if data is not None and not name.endswith("/__init__.py")]) <= 31
    assert lines <= 4300
    assert {"scale.cpp", "scale_cuda.cu", "CMakeLists.txt"} <= set(contents(classic_wheel.native / "src"))


# Installed


@pytest.fixture
def site(classic_wheel: Wheel, tmp_path: Path) -> Path:
    """The wheel's files in a folder of their own, which a test may spoil."""
    return Path(shutil.copytree(classic_wheel.unpacked, tmp_path / "site"))


def test_the_extension_works_on_the_cpu_and_an_import_loads_and_says_nothing(
    site: Path, run_with_torch: RunPython
) -> None:
    script = f"""
import sys, torch, classic
assert "_C.so" not in open("/proc/self/maps").read()
assert not torch.cuda.is_initialized()
assert "classic._kernelwheel.settings" not in sys.modules
assert {SCALE}
module = classic.KERNELS.module("_C")
assert module is classic.KERNELS.module("_C")
assert module.with_cuda is {TORCH.cuda is not None}
assert module.__name__ == "classic._native._C", module.__name__
try:
    classic.scale(torch.zeros(1, dtype=torch.int32), 1.0)
except RuntimeError as error:
    assert "float32" in str(error)
"""
    done = run_with_torch(script, path=[site])

    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.minutes
@needs_cuda_torch
def test_off_keeps_the_module_from_looking_for_a_gpu(site: Path, run_with_torch: RunPython) -> None:
    script = f"import torch, classic; torch.cuda.is_available = None; assert {SCALE}"

    run_with_torch(script, path=[site], env={"CLASSIC_CUDA": "off"})


@pytest.mark.minutes
@needs_cuda_torch
def test_the_extension_works_on_a_gpu(site: Path, run_with_torch: RunPython) -> None:
    script = """
import torch, classic
if not torch.cuda.is_available():
    raise SystemExit(77)
assert classic.scale(torch.arange(4.0, device="cuda"), 2.5).tolist() == [0.0, 2.5, 5.0, 7.5]
"""
    done = run_with_torch(script, path=[site], env={"CLASSIC_JIT": "never"}, check=False)
    if done.returncode == 77:
        pytest.skip("this machine has no GPU")

    assert done.returncode == 0, done.stderr


REFUSED = """
import classic
from classic._kernelwheel.errors import IncompatibleArtifactError
try:
    classic.KERNELS.module("_C")
except IncompatibleArtifactError as error:
    print(error)
else:
    raise SystemExit("the module was imported")
assert "_C.so" not in open("/proc/self/maps").read()
"""


def test_a_module_for_another_torch_is_refused(site: Path, run_with_torch: RunPython) -> None:
    rewrite_manifest(site / "classic/_native", lambda values: bind_modules(values, torch="2.1.0"))

    error = run_with_torch(REFUSED, path=[site], env={"CLASSIC_JIT": "never"}).stdout

    for words in ("torch == 2.1.* (torch)", f"torch {TORCH.version}", "pip install 'torch==2.1.*'"):
        assert words in error


def test_a_module_with_a_flipped_byte_is_not_imported(site: Path, run_with_torch: RunPython) -> None:
    library = site / "classic/_native/_C.so"
    flip(library)

    error = run_with_torch(REFUSED, path=[site]).stdout

    assert "damaged" in error
    assert str(library) in error


def test_a_module_that_does_not_exist_is_an_error_that_names_those_that_do(
    site: Path, run_with_torch: RunPython
) -> None:
    error = run_with_torch(REFUSED.replace('module("_C")', 'module("_D")'), path=[site]).stdout

    assert "no module _D" in error
    assert f"{site}/classic/_native: _C" in error


# Compiled at first use: a module by Python's own API, which takes no time


MODULE = """#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_small", "Small.", 0, nullptr};
PyMODINIT_FUNC PyInit__small() { return PyModule_Create(&definition); }
"""
LISTS = """cmake_minimum_required(VERSION 3.24)
project(tiny LANGUAGES CXX)
include(KernelWheel)
"""
SMALL_MODULE = {
    "CMakeLists.txt": LISTS + "kernelwheel_add_pybind11_module(_small SOURCES small.cpp)\n",
    "small.cpp": MODULE,
}
IMPORT = 'import tiny; print(tiny.KERNELS.module("_small").__file__)'


def bind(checkout: Path) -> None:
    """Say in a checkout of tiny that it has modules."""
    file = checkout / "pyproject.toml"
    moved = 'dynamic = ["dependencies"]\n\n[tool.kernelwheel]\nabi = "torch"\n\\1'
    file.write_text(
        re.sub(r"^(dependencies = .*\n)\n\[tool.kernelwheel\]\n", moved, file.read_text(), flags=re.MULTILINE)
    )


@pytest.fixture
def editable(tmp_path: Path) -> Editable:
    """A checkout with one small module, which was never compiled."""
    (tmp_path / "small").mkdir()
    made = make_editable(tmp_path / "small", SMALL_MODULE)
    bind(made.checkout)
    return made


def test_what_a_module_itself_raises_at_import_is_not_damage(editable: Editable) -> None:
    raising = 'PyErr_SetString(PyExc_ImportError, "no such plug-in"); return nullptr; }'
    editable.change("native/small.cpp", "return PyModule_Create(&definition); }", raising)
    script = "import tiny\ntry:\n    tiny.KERNELS.module('_small')\nexcept ImportError as error:\n    print(error)"

    assert editable.python(script).stdout == "no such plug-in\n"
    assert not (editable.store.root / ".quarantine").exists()


# What a package says of itself is what is built


def rewrite(checkout: Path, sources: dict[str, str]) -> Path:
    shutil.rmtree(checkout / "native")
    (checkout / "native").mkdir()
    for name, text in sources.items():
        (checkout / "native" / name).write_text(text)
    return checkout


@pytest.fixture
def out(build_root: Path, request: pytest.FixtureRequest) -> Path:
    return build_root / re.sub(r"\W+", "-", request.node.name)


def test_a_module_in_a_package_that_says_nothing_of_it_is_refused_with_the_line_to_write(
    checkout: Checkout, out: Path
) -> None:
    said = refused_build(rewrite(checkout(), SMALL_MODULE), out, env={"TINY_CUDA": "off"})

    assert 'set abi = "torch" in [tool.kernelwheel]' in re.sub(r"\s+", " ", said.rpartition("did not compile")[2])


@pytest.mark.minutes
def test_a_library_that_turns_out_to_be_a_module_is_refused(checkout: Checkout, out: Path) -> None:
    exported = 'extern "C" __attribute__((visibility("default"))) void* PyInit_hidden() { return nullptr; }\n'
    sources = {"CMakeLists.txt": LISTS + "kernelwheel_add_op_library(tiny_cpu SOURCES one.cpp)\n", "one.cpp": exported}

    said = refused_build(rewrite(checkout(), sources), out, env={"TINY_CUDA": "off"})

    assert "libtiny_cpu.so: Python imports it as hidden" in said
    assert 'set abi = "torch"' in said


@pytest.mark.minutes
def test_operators_and_modules_may_be_in_one_package(checkout: Checkout, out: Path, run_with_torch: RunPython) -> None:
    sources = {
        "CMakeLists.txt": LISTS
        + "kernelwheel_add_op_library(tiny_cpu SOURCES one.cpp)\n"
        + "kernelwheel_add_pybind11_module(_small SOURCES small.cpp)\n",
        "one.cpp": 'extern "C" int tiny_one() { return 1; }\n',
        "small.cpp": MODULE,
    }
    folder = rewrite(checkout(), sources)
    bind(folder)

    built = build(folder, out, env={"TINY_CUDA": "off"})
    script = f"""
{REQUIRE}
maps = open("/proc/self/maps").read()
assert "libtiny_cpu.so" in maps and "_small.so" not in maps
{IMPORT}
assert "_small.so" in open("/proc/self/maps").read()
"""
    run_with_torch(script, path=[built.unpacked])


# What a CMakeLists.txt is answered


def configure(folder: Path, lines: str) -> Done:
    """CMake itself answers; without a language it makes the target's properties and no build."""
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(tiny LANGUAGES NONE)\ninclude(KernelWheel)\n" + lines
    )
    cache = {
        "CMAKE_MODULE_PATH": BACKEND / "kernelwheel" / "cmake",
        "KERNELWHEEL_TORCH": folder / "torch", "KERNELWHEEL_OUTPUT": folder,
        "KERNELWHEEL_TORCH_TARGET": "0", "KERNELWHEEL_BINDING": "python", "KERNELWHEEL_TORCH_STANDARD": "20",
    }  # fmt: skip
    cmake = CMake.default_search(version=SpecifierSet(CMAKE_VERSION)).cmake_path

    definitions = [f"-D{name}={value}" for name, value in cache.items()]
    return run([cmake, "-GNinja", "-S", folder, "-B", folder / "build", *definitions], cwd=folder, check=False)


def test_a_module_is_compiled_by_the_standard_of_the_plan_before_flags_that_may_name_a_later_one(
    tmp_path: Path,
) -> None:
    lines = (
        "kernelwheel_add_pybind11_module(_small SOURCES small.cpp)\n"
        "get_target_property(standard _small KERNELWHEEL_CUDA_STANDARD)\n"
        "get_target_property(options _small COMPILE_OPTIONS)\n"
        'message(STATUS "standard: ${standard}, first: ${options}")\n'
    )

    done = configure(tmp_path, lines)

    assert "standard: -std=c++20, first: $<$<COMPILE_LANGUAGE:CUDA>:$<TARGET_PROPERTY:" in done.stdout


ADDED = "kernelwheel_add_torch_library(_small SOURCES small.cpp)\n"
REPLACED = ADDED + "set_target_properties(_small PROPERTIES COMPILE_OPTIONS -O2)\n"
APPENDED = ADDED + "target_compile_options(_small PRIVATE -O2)\n"
# What kernelwheel_add_... does for each CUDA file; CUDA itself is not enabled here.
OF_A_FILE = ADDED + "_kernelwheel_make_reproducible(_small one.cu)\n"
SET = "set_source_files_properties(one.cu PROPERTIES COMPILE_OPTIONS -O2)\n"
AFTER = "set_property(SOURCE one.cu APPEND PROPERTY COMPILE_OPTIONS -O2)\n"


@pytest.mark.parametrize(
    ("lines", "name"), [(APPENDED, ""), (REPLACED, "_small"), (OF_A_FILE + AFTER, ""), (OF_A_FILE + SET, "one.cu")]
)
def test_options_that_replace_those_that_make_bytes_reproducible_are_refused(
    tmp_path: Path, lines: str, name: str
) -> None:
    said = " ".join(configure(tmp_path, lines).stderr.split())

    assert (f"COMPILE_OPTIONS of {name} was replaced" in said) == bool(name)
