"""`kernelwheel.load`, `load_inline` and `prepare`: kernels that are in no package."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import kernelwheel
import pytest
import torch
import warm_python
from builds import build, device_code, needs_cuda_torch
from declared import HEAD
from editables import Editable, make_user
from kernelwheel.__main__ import main
from kernelwheel.jit import loaded_library
from kernelwheel.runtime.errors import BuildError
from kernelwheel.runtime.store.store import Store
from kernelwheel.version import LOADED
from loadable import FILES, MODULE, PARTS, load_light, refusal_of, write
from processes import Done, clean_environment

BACKEND = Path(kernelwheel.__file__).parents[1]
LOAD = "import kernelwheel; m = kernelwheel.load('light', ['csrc/light.cpp'], extra_cflags=['-I include'])\n"
# A warm start imports none of the rooms that know how to compile.
ROOMS = """
import sys
print([each for each in ("cli", "compiler", "packing", "project", "store") if f"kernelwheel.{each}" in sys.modules])
"""
NO_ROOMS = "[]\n"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editable:
    """A user who has compiled nothing, and whose compiler counts its calls."""
    made = make_user(BACKEND, tmp_path / "user")
    monkeypatch.setenv("CXX", made.environment["CXX"])
    monkeypatch.setenv("KERNELWHEEL_CACHE_DIR", str(made.cache))
    return made


def entries(user: Editable, name: str = "light") -> list[Path]:
    return [each.folder for each in Store(user.cache, f"kernelwheel.{name}", LOADED).entries()]


def run(user: Editable, folder: Path, script: str, **env: str) -> Done:
    """Run a script as that user, in a folder."""
    environ = {**user.environment, "KERNELWHEEL_CACHE_DIR": str(user.cache), **env}
    return warm_python.run_python(script, cwd=folder, env=environ)


@pytest.mark.slow
def test_content_decides_and_neither_folder_nor_time_nor_process(
    user: Editable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = write(tmp_path / "here"), write(tmp_path / "there/deeper")

    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # programs that start it may inherit this
    try:
        module = load_light(here)
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert module.answer() == 42
    assert user.compiled() == ["light.cpp"]
    assert load_light(there) is importlib.import_module("light") is module
    assert run(user, there, LOAD + "print(m.answer())" + ROOMS).stdout == f"42\n{NO_ROOMS}"
    assert user.compiled() == ["light.cpp"]
    assert "since the last compile" not in capsys.readouterr().err
    # Another user, who may read that store.
    others = {"KERNELWHEEL_CACHE_DIR": str(tmp_path / "others"), "KERNELWHEEL_CACHE_PATH": str(user.cache)}
    assert run(user, there, LOAD + "print(m.answer())", CXX="/nowhere/c++", **others).stdout == "42\n"
    assert not (tmp_path / "others").exists()

    # A header that a header includes is edited. What was loaded before stays as it is.
    (there / "include/detail/value.h").write_text("#define ANSWER 43\n")
    os.utime(there / "include/detail/value.h", (0, 0))
    edited = load_light(there, verbose=True)

    assert (module.answer(), edited.answer()) == (42, 43)
    # pybind11 remembers modules by their names, and gives a second one of the same name what the first one was.
    assert module.__spec__.name != edited.__spec__.name
    assert importlib.import_module("light") is edited  # the last one
    said = capsys.readouterr().err
    assert "since the last compile: sources: 1 file changed: include1/detail/value.h\n" in said
    assert "-O3 -DNDEBUG" in said  # the commands
    assert load_light(here) is module
    assert len(entries(user)) == 2
    assert main(["cache", "explain", "kernelwheel.light"]) == 0
    _, _, _, why = capsys.readouterr().out.splitlines()
    assert why == "  sources: 1 file changed: include1/detail/value.h"
    assert list((user.cache / "kernelwheel.light" / LOADED / ".work").iterdir()) == []


@pytest.mark.minutes
@pytest.mark.slow
def test_an_archive_that_is_linked_counts_by_its_content(user: Editable, tmp_path: Path) -> None:
    folder = write(tmp_path, {"light.cpp": MODULE.replace('#include "answer.h"', 'extern "C" int own();')})
    (folder / "light.cpp").write_text((folder / "light.cpp").read_text().replace("ANSWER", "own()"))
    for number, flags in enumerate([f"{folder}/libown.a", f"-L{folder} -lown"]):
        for value in (2 * number, 2 * number + 1):
            (folder / "own.c").write_text(f"int own(void) {{ return {value}; }}\n")
            (folder / "libown.a").unlink(missing_ok=True)
            subprocess.run(["gcc", "-fPIC", "-c", "own.c"], cwd=folder, check=True)
            subprocess.run(["ar", "rcs", "libown.a", "own.o"], cwd=folder, check=True)
            assert kernelwheel.load("light", folder / "light.cpp", extra_ldflags=flags).answer() == value


DOCSTRING = 'A "number" \\1 😀 é ??/ \x01\n\t2.'


@pytest.mark.slow
def test_what_could_not_be_loaded_is_not_stored_and_the_next_try_compiles_what_changed(
    user: Editable, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By a C++ standard that torch takes, if the call asks for an earlier one, which it is told."""
    call = "namespace ns { int value(float); }\n#define ANSWER ns::value(1)\n"
    source = f'{MODULE}static_assert(__cplusplus >= 201703L, "torch asks for more");\n'
    changed = {"csrc/light.cpp": source, "include/detail/value.h": call, "csrc/value.cpp": "int other;\n"}
    folder = write(tmp_path, {**FILES, **changed})
    sources = [folder / "csrc/light.cpp", folder / "csrc/value.cpp"]
    options: dict[str, Any] = {"extra_cflags": ["-O1 -std=c++14"], "extra_include_paths": [folder / "include"]}

    said = refusal_of("light", *sources, **options)
    assert "light.so: ns::value(float), used by sources/light.cpp" in said
    assert "-std=c++14 in extra_cflags of light is raised to c++" in capfd.readouterr().err
    assert entries(user) == []

    (folder / "csrc/value.cpp").write_text("namespace ns { int value(float) { return 43; } }\n")
    assert kernelwheel.load("light", sources, **options).answer() == 43
    assert user.compiled() == ["light.cpp", "value.cpp", "value.cpp"]
    (entry,) = entries(user)
    assert json.loads((entry / "manifest.json").read_text())["plan"]["target"]["standard"]["torch"] >= "c++17"


@pytest.mark.slow
def test_functions_are_bound_in_a_module_that_takes_nobody_s_place(
    user: Editable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a name that CMake keeps for a target of its own, and Python's library has, too."""
    source = "#include <pybind11/pybind11.h>\nint f() { return 2; }"
    options: dict[str, Any] = {"no_implicit_headers": True, "with_pytorch_error_handling": False, "gil_not_used": True}
    options["extra_cflags"] = "-O0"  # pybind11's headers take long
    somebody_s = ModuleType("test")
    for there in (None, somebody_s):  # Python's own, which is not imported yet, and one that is
        monkeypatch.delitem(sys.modules, "test", raising=False)
        if there:
            monkeypatch.setitem(sys.modules, "test", there)
        module = kernelwheel.load_inline("test", source, functions={"f": DOCSTRING}, **options)

        assert module.f() == 2
        assert module.f.__doc__.endswith(f"\n{DOCSTRING}\n")
        assert sys.modules.get("test") is there


STABLE = """#include <torch/csrc/stable/library.h>
int64_t answer() { return 42; }
void boxed(StableIValue* stack, uint64_t, uint64_t) { stack[0] = torch::stable::detail::from(answer()); }
STABLE_TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) { m.def("answer() -> int"); }
STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CompositeExplicitAutograd, m) { m.impl("answer", &boxed); }
"""


@pytest.mark.minutes
@pytest.mark.slow
def test_versions_of_operators_on_the_stable_abi_live_side_by_side_and_serve_every_python_and_torch(
    user: Editable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(text: str, unique: bool) -> Any:
        options = {"abi": "stable", "is_python_module": False, "unique_namespace": unique}
        return kernelwheel.load_inline("ops", text, **options)

    load(STABLE, unique=False)
    second = load(STABLE.replace("42", "43"), unique=True)

    assert (torch.ops.ops.answer(), second.answer()) == (42, 43)
    made = [entry.manifest.requires for entry in Store(user.cache, "kernelwheel.ops", LOADED).entries()]
    assert [(requires.python, requires.torch) for requires in made] == [(None, "2.10")] * 2
    # A library that registers a namespace again would end the process.
    monkeypatch.setattr(loaded_library, "_loaded", {})
    with pytest.raises(BuildError, match="pass unique_namespace=True") as refused:
        load(STABLE, unique=False)
    assert "ops, which another library registers" in refused.value.found


def test_other_names_are_compiled_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(loaded_library, "_loaded_now", lambda *_: (both.wait(), Path()))
    source = write(tmp_path) / "csrc/light.cpp"

    with ThreadPoolExecutor(2) as threads:
        loads = [threads.submit(kernelwheel.load, name, source) for name in ("one", "two")]
        assert {each.result() for each in loads} == {0, 1}


CPP = """#include <Python.h>
extern "C" int launch(int*);
static PyObject* f(PyObject*, PyObject*) { return PyLong_FromLong(launch(nullptr)); }
static PyMethodDef methods[] = {{"f", f, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "gpu", "", -1, methods};
PyMODINIT_FUNC PyInit_gpu() { return PyModule_Create(&definition); }
"""
CUDA = """__global__ void add(int* to, int amount) { *to += amount; }
extern "C" int launch(int* to) { add<<<1, 1>>>(to, 3); return cudaGetLastError(); }
"""
ON_CUDA = f"""
import sys, kernelwheel
given = dict(cpp_sources={CPP!r}, cuda_sources={CUDA!r}, no_implicit_headers=True)
"""


@pytest.mark.slow
@needs_cuda_torch
def test_without_a_gpu_kernels_are_for_torch_cuda_arch_list_and_prepare_makes_what_load_finds(
    user: Editable, tmp_path: Path
) -> None:
    refused = f"""{ON_CUDA}
for call in (kernelwheel.prepare, kernelwheel.load_inline):
    try:
        call("gpu", **given)
    except RuntimeError as error:
        print(error)
"""
    said = run(user, tmp_path, refused, CUDA_VISIBLE_DEVICES="").stdout
    assert said.count("required:  TORCH_CUDA_ARCH_LIST, or a GPU that this process sees") == 2
    assert entries(user, "gpu") == []

    chosen = {"CUDA_VISIBLE_DEVICES": "", "TORCH_CUDA_ARCH_LIST": "9.0a"}
    prepared = run(user, tmp_path, ON_CUDA + "print(kernelwheel.prepare('gpu', **given))", **chosen).stdout
    script = ON_CUDA + "m = kernelwheel.load_inline('gpu', **given); print(m.f() != 0, m.__file__)"
    loaded = run(user, tmp_path, script + ROOMS, CXX="/nowhere/c++", **chosen)

    (entry,) = Store(user.cache, "kernelwheel.gpu", LOADED).entries()
    assert prepared == f"{entry.folder}\n"
    assert loaded.stdout == f"True {entry.folder / 'gpu.so'}\n{NO_ROOMS}"
    assert entry.manifest.libraries[0].sass == ("9.0a",)
    # Of other architectures, there is none: it would be compiled.
    done = run(user, tmp_path, refused, CXX="/nowhere/c++", **{**chosen, "TORCH_CUDA_ARCH_LIST": "8.0"})
    assert "/nowhere/c++" in done.stdout
    assert "the same content, for other GPUs" in done.stderr


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
def test_device_code_is_linked_from_several_files_and_is_machine_code_alone(
    user: Editable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0+PTX")
    sources = [write(tmp_path, PARTS) / name for name in PARTS]

    prepared = kernelwheel.prepare("light", sources, extra_cuda_cflags=["-rdc=true"])

    (entry,) = Store(user.cache, "kernelwheel.light", LOADED).entries()
    (library,) = entry.manifest.libraries
    assert prepared == entry.folder
    assert (library.sass, library.ptx) == (("9.0",), ())
    listed = device_code(entry.folder / "light.so", "--dump-elf-symbols")
    for name in ("_Z4partf", "_Z6halvedf", "_Z4bothf", "_Z5wholePf"):
        assert len(re.findall(rf"STT_FUNC +STB_GLOBAL +(?:STV_DEFAULT|STO_ENTRY) +{name}$", listed, re.MULTILINE)) == 1
    script = f"""
import torch
from importlib.util import module_from_spec, spec_from_file_location
print(module_from_spec(spec_from_file_location("light", {str(entry.folder / "light.so")!r})).answer())
"""
    assert run(user, tmp_path, script).stdout == "42\n"


@pytest.mark.slow
@pytest.mark.minutes
@needs_cuda_torch
def test_an_archive_with_device_code_is_linked_as_it_is_now(
    user: Editable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    nvcc = max(Path(torch.__file__).parents[1].glob("nvidia/cu*/bin/nvcc"))
    folder = write(tmp_path, PARTS)
    for factor in ("0.5", "0.25"):
        (folder / "part.cu").write_text(PARTS["part.cu"].replace("0.5", factor))
        made = [nvcc, "-rdc=true", "-arch=sm_90", "-Xcompiler=-fPIC", "-c", "part.cu", "-o", "part.o"]
        subprocess.run(made, cwd=folder, check=True)
        subprocess.run(["ar", "rcs", "libpart.a", "part.o"], cwd=folder, check=True)
        sources, found = [folder / "whole.cu", folder / "light.cpp"], f"-L{folder} -lpart"
        kernelwheel.prepare("light", sources, extra_ldflags=found, extra_cuda_cflags="-rdc=true")

    assert len(entries(user)) == 2
    assert user.compiled() == ["light.cpp"]
    assert capsys.readouterr().err.count("] CXX cmake_device_link") == 2


@pytest.mark.minutes
@pytest.mark.slow
def test_a_package_that_declares_the_same_content_is_compiled_ahead_of_time_without_another_line(
    user: Editable, tmp_path: Path
) -> None:
    files = {
        "ahead/__init__.py": """import kernelwheel
from pathlib import Path
here = Path(__file__).parent
light = kernelwheel.load("light", [here / "csrc/light.cpp"], ["-DX=1"], extra_include_paths=[here / "include"])
""",
        **{f"ahead/{name}": text for name, text in FILES.items()},
    }
    table = """
[[tool.kernelwheel.extension]]
name = "ahead.light"
sources = ["ahead/csrc/light.cpp"]
include-dirs = ["ahead/include"]
cxx-flags = ["-DX=1"]

[tool.setuptools.package-data]
ahead = ["csrc/*", "include/**/*"]
"""
    head = HEAD.replace("light-weight", "ahead")
    project = write(tmp_path / "ahead", {"pyproject.toml": head + table, **files})
    wheel = build(project, tmp_path / "wheel")
    script = "import ahead; print(ahead.light.answer(), ahead.light.__file__)"

    done = run(user, wheel.unpacked, script, CXX="/nowhere/c++", PYTHONPATH=f"{wheel.unpacked}:{BACKEND}")

    assert done.stdout == f"42 {wheel.native / 'ahead.light.so'}\n"
    assert not user.cache.exists()


@pytest.mark.slow
def test_a_missing_compiler_is_one_error_and_leaves_no_file(
    user: Editable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    source = write(tmp_path, {"light.cpp": MODULE}) / "light.cpp"
    with monkeypatch.context() as patch:
        patch.setenv("KERNELWHEEL_JIT", "never")
        said = refusal_of("light", source)
        assert "jit is never" in said
        assert "wheel of" not in said  # it is in none
    assert not user.cache.exists()

    assert "/nowhere/c++" in refusal_of("light", source)
    assert {each.name for each in user.cache.rglob("*") if each.is_file()} == {".lock", ".maker"}


AT_ONCE = """
import os, sys, torch, kernelwheel.jit.load
from pathlib import Path
for number in range(16):
    if os.fork() == 0:
        break
else:
    sys.exit(any([os.wait()[1] for _ in range(16)]))
LOAD
os.write(1, f"{m.answer()} {m.__file__}\\n".encode())
"""


@pytest.mark.slow
@pytest.mark.minutes
def test_16_processes_compile_once_and_one_killed_before_left_nothing_that_is_loaded(
    user: Editable, tmp_path: Path
) -> None:
    folder = write(tmp_path / "project")
    (user.folder / "slow").touch()
    script = [sys.executable, "-c", LOAD]
    environ = clean_environment({**user.environment, "KERNELWHEEL_CACHE_DIR": str(user.cache)})
    with subprocess.Popen(script, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True) as killed:
        assert killed.stderr is not None
        while "[1/3]" not in killed.stderr.readline() and killed.poll() is None:
            pass
        killed.kill()
    assert killed.returncode == -signal.SIGKILL
    assert entries(user) == []
    (user.folder / "slow").unlink()
    (user.folder / "calls").unlink()

    done = run(user, folder, AT_ONCE.replace("LOAD", LOAD))

    (entry,) = entries(user)
    assert done.stdout.splitlines() == [f"42 {entry / 'light.so'}"] * 16
    assert user.compiled() == ["light.cpp"]
    assert {each.name for each in entry.parent.iterdir()} == {".lock", ".maker", ".work", entry.name}
    assert list((entry.parent / ".work").iterdir()) == []


@pytest.mark.slow
def test_an_import_of_kernelwheel_imports_nothing_of_it(tmp_path: Path) -> None:
    script = "import sys, kernelwheel; print(*sorted(each for each in sys.modules if each.startswith('kernelwheel')))"

    done = warm_python.run_python(script, cwd=tmp_path, env={"PYTHONPATH": str(BACKEND)})

    assert done.stdout == "kernelwheel kernelwheel.version\n"
