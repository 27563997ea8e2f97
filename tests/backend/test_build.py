"""Real builds of a real package: what is in the wheel, and what a build refuses."""

from __future__ import annotations

import getpass
import hashlib
import io
import os
import platform
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import (
    TORCH,
    TWO_ARCHS,
    Wheel,
    build,
    contents,
    device_code,
    needs_cpu_torch,
    needs_cuda_torch,
    refused_build,
)
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_DT_FLAGS_1
from elftools.elf.sections import SymbolTableSection
from kernelwheel.cli.inspection import view_wheel
from kernelwheel.compiler.cmake_driver import CMAKE_VERSION, NINJA_VERSION
from standins import NOWHERE, make_program, make_torch

Checkout = Callable[[], Path]


@pytest.fixture
def out(build_root: Path, request: pytest.FixtureRequest) -> Path:
    """A new folder for one wheel, beside the others."""
    return build_root / re.sub(r"\W+", "-", request.node.name)


# What is in the wheel


def test_the_wheel_serves_every_python_and_its_manifest_is_complete(wheel: Wheel) -> None:
    manifest = wheel.manifest

    assert wheel.file.name == f"tiny-1.2.3-py3-none-manylinux_2_28_{platform.machine()}.whl"
    assert set(manifest) == {
        "schema", "digest", "package", "version", "fingerprint", "sources", "plan", "digests", "built_with",
        "requires", "libraries",
    }  # fmt: skip
    assert (manifest["schema"], manifest["package"], manifest["version"]) == (1, "tiny", "1.2.3")
    assert re.fullmatch(r"[0-9a-f]{64}", manifest["fingerprint"])
    assert re.fullmatch(r"[0-9a-f]{64}", manifest["sources"])
    assert manifest["built_with"]["torch"] == TORCH.version
    assert {"cxx", "nvcc"} <= set(manifest["built_with"])
    # The releases that will do: with the one that was used, another CMake would give another wheel.
    assert (manifest["built_with"]["cmake"], manifest["built_with"]["ninja"]) == (CMAKE_VERSION, NINJA_VERSION)
    assert manifest["plan"]["target"]["binding"] is manifest["requires"]["python"] is None
    assert manifest["requires"]["torch"] == "2.10"
    assert manifest["requires"]["platform"] == f"linux-{platform.machine()}"
    assert re.fullmatch(r"glibc 2(\.\d+)+", manifest["requires"]["libc"])
    assert re.fullmatch(r"GLIBCXX_3\.4(\.\d+)?", manifest["requires"]["libstdcxx"])


def test_the_wheel_has_the_libraries_that_its_torch_can_run(wheel: Wheel) -> None:
    cuda = ["libtiny_cuda.so"] if TORCH.cuda else []

    assert list(wheel.libraries) == ["libtiny_cpu.so", *cuda]
    assert wheel.manifest["requires"]["cuda"] is None, "operators need no torch of one CUDA major"
    assert (wheel.manifest["requires"]["driver"] is not None) is bool(TORCH.cuda)


def test_the_sources_are_in_the_wheel_as_the_manifest_says(wheel: Wheel, checkout: Checkout) -> None:
    assert view_wheel(wheel.file).damage == []
    packed = {path: data for path, data in contents(wheel.native / "src").items() if data is not None}
    assert {path.name for path in wheel.native.iterdir()} == {"manifest.json", "src", *wheel.libraries}

    assert packed == {path: data for path, data in contents(checkout() / "native").items() if data is not None}
    assert wheel.manifest["plan"]["content"]["sources"] == {
        path: hashlib.sha256(data).hexdigest() for path, data in packed.items()
    }


def builder_s_marks(checkout_folder: Path) -> dict[str, bytes]:
    """What would give the builder away, by what it is."""
    marks = {
        "checkout": str(checkout_folder.parent),
        "torch": str(TORCH.root.parent),
        "Python": sys.prefix,
        "home": str(Path.home()),
        "CUDA toolkit": "/usr/local/cuda",
        "host name": socket.gethostname(),
        "user name": f"/{getpass.getuser()}/",
    }
    return {name: mark.encode() for name, mark in marks.items() if len(mark) > 3}


def test_nothing_of_the_builder_is_in_the_manifest_or_the_libraries(wheel: Wheel, build_root: Path) -> None:
    marks = {**builder_s_marks(build_root), "temporary folder": str(build_root).encode()}
    data = {name: (wheel.native / name).read_bytes() for name in ("manifest.json", *wheel.libraries)}

    assert [(name, mark) for name in data for mark in marks if marks[mark] in data[name]] == []


def elf(data: bytes) -> ELFFile:
    return ELFFile(io.BytesIO(data))


def dynamic_tags(data: bytes, *kinds: str) -> set[str]:
    """The library or folder names of a library's dynamic tags of some kinds, such as DT_NEEDED."""
    (dynamic,) = (section for section in elf(data).iter_sections() if isinstance(section, DynamicSection))
    names = {"DT_NEEDED": "needed", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath"}
    return {str(getattr(tag, names[kind])) for kind in kinds for tag in dynamic.iter_tags(kind)}


def symbols(data: bytes, *, defined: bool) -> set[str]:
    """The names of the dynamic symbols that a library defines, or that it takes from others."""
    tables = [section for section in elf(data).iter_sections() if isinstance(section, SymbolTableSection)]
    entries = [symbol for table in tables for symbol in table.iter_symbols()]
    return {s.name for s in entries if s.name and (s.entry.st_shndx != "SHN_UNDEF") == defined}


@needs_cuda_torch
def test_the_cuda_runtime_inside_operators_meets_no_other(wheel: Wheel) -> None:
    """torch loads a CUDA runtime of its own, perhaps of another major, so that all libraries see its symbols."""
    data = wheel.libraries["libtiny_cuda.so"]

    seen = symbols(data, defined=True) | symbols(data, defined=False)

    assert b"cudaLaunchKernel" in data, "the runtime is inside"
    assert [name for name in seen if re.match(r"_*cu(da)?[A-Z]", name)] == []


def test_each_library_names_the_torch_library_that_it_needs_and_nothing_of_python_or_the_builder(wheel: Wheel) -> None:
    for name, data in wheel.libraries.items():
        needed, undefined = dynamic_tags(data, "DT_NEEDED"), symbols(data, defined=False)
        assert "libtorch_cpu.so" in needed, name
        assert ("libtorch_cuda.so" in needed) == ("cuda" in name), name
        assert [lib for lib in needed if re.match(r"lib(python|c10|cudart|torch_python|torch\.so)", lib)] == [], name
        assert any("torch" in symbol for symbol in undefined), name
        assert [symbol for symbol in undefined if re.match(r"_?Py", symbol)] == [], name
        assert dynamic_tags(data, "DT_RPATH", "DT_RUNPATH") == set(), name


# CUDA


def listed(wheel: Wheel, option: str, pattern: str) -> set[str]:
    """The digits of the architectures that cuobjdump lists in the CUDA library."""
    return set(re.findall(pattern, device_code(wheel.native / "libtiny_cuda.so", option)))


def as_codes(archs: list[str]) -> set[str]:
    return {arch.replace(".", "") for arch in archs}


@needs_cuda_torch
def test_the_device_code_is_what_was_asked_for_and_what_the_manifest_says(wheel: Wheel) -> None:
    (library,) = (lib for lib in wheel.manifest["libraries"] if lib["device"] == "cuda")

    archs = {"value": TWO_ARCHS, "origin": "environment variable TORCH_CUDA_ARCH_LIST"}
    assert wheel.manifest["built_with"]["settings"]["archs"] == archs
    assert (library["sass"], library["ptx"]) == (["8.0", "9.0"], ["9.0"])
    release = ".".join(wheel.manifest["built_with"]["nvcc"].split(".")[:2])
    assert wheel.manifest["requires"]["driver"] == release.split(".")[0] + ".0"
    assert wheel.manifest["requires"]["driver_for_ptx"] == release
    assert listed(wheel, "--list-elf", r"\.sm_(\w+)\.cubin") == as_codes(library["sass"])
    assert listed(wheel, "--list-ptx", r"\.sm_(\w+)\.ptx") == as_codes(library["ptx"])


@needs_cpu_torch
def test_a_cpu_torch_gives_a_wheel_without_cuda_kernels_that_says_why_or_an_error_where_they_are_required(
    wheel: Wheel, checkout: Checkout, out: Path
) -> None:
    said = refused_build(checkout(), out, env={"TINY_CUDA": "on"})

    assert "torch.version.cuda is None" in wheel.manifest["built_with"]["cuda"]["because"]
    assert "CUDA kernels: no" in wheel.output
    assert "TINY_CUDA" in said
    assert f"torch {TORCH.version}" in said


def test_the_log_says_which_compilers_were_taken_and_why_and_how_many_run_at_once(wheel: Wheel) -> None:
    if TORCH.cuda:
        assert re.search(r"nvcc: .*: CUDA \d+\.\d+\.\d+\n", wheel.output)
        assert f"CUDA kernels: yes, because torch {TORCH.version} is built for CUDA {TORCH.cuda}" in wheel.output
    assert re.search(r"c\+\+: /\S+: (gcc|clang) \d+\.\d+", wheel.output)
    assert re.search(
        r"compilers at once: \d+: \d+ cores \(.*\), \d+ MB of memory \(.*\), \d+ MB per compiler", wheel.output
    )


def test_a_torch_with_cuda_and_no_fitting_nvcc_is_an_error_and_no_silent_cpu_wheel(
    checkout: Callable[[str], Path], out: Path, tmp_path: Path
) -> None:
    make_torch(tmp_path, "2.11.0+cu990", NOWHERE)

    said = refused_build(checkout("classic"), out, env={"PYTHONPATH": str(tmp_path)})

    assert "no usable nvcc for CUDA 99" in said
    for place in ("pip's cuda-toolkit beside torch", "PATH: ", "the usual folder: /usr/local/cuda/bin/nvcc: "):
        assert place in said
    for way in ("cuda-toolkit[nvcc", "set CUDA_HOME or CUDACXX", "-C cuda=off"):
        assert way in said


@pytest.mark.minutes
@needs_cuda_torch
def test_operators_are_built_with_an_nvcc_of_another_major_than_torch_s_which_is_said_and_recorded(
    checkout: Checkout, out: Path, tmp_path: Path, wheel: Wheel
) -> None:
    """With the files of the torch that is here, which calls itself one for another CUDA."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "triton").symlink_to(TORCH.root.with_name("triton"))  # for cuobjdump
    for part in ("include", "lib", "__init__.py"):
        (tmp_path / "torch" / part).symlink_to(TORCH.root / part)
    (tmp_path / "torch/version.py").write_text("__version__ = '2.11.0+cu118'\ncuda = '11.8'\n")

    built = build(checkout(), out, env={"PYTHONPATH": str(tmp_path), "TORCH_CUDA_ARCH_LIST": TWO_ARCHS})

    nvcc = str(built.manifest["built_with"]["nvcc"])
    driver = f"{nvcc.split('.')[0]}.0"
    because = (
        f"torch 2.11.0+cu118 is built for CUDA 11.8; with nvcc {nvcc}, the kernels need a driver for CUDA {driver} or"
    )
    assert because in built.manifest["built_with"]["cuda"]["because"]
    assert f"CUDA kernels: yes, because {because}" in built.output
    assert f"CUDA {nvcc}, of another major than torch's (11.8)" in built.output
    assert (built.manifest["requires"]["cuda"], built.manifest["requires"]["driver"]) == (None, driver)
    assert built.manifest["fingerprint"] == wheel.manifest["fingerprint"]
    assert built.libraries == wheel.libraries


@pytest.mark.minutes
@needs_cuda_torch
def test_device_code_that_is_not_the_plan_s_is_refused(checkout: Checkout, out: Path) -> None:
    folder = checkout()
    with (folder / "native/CMakeLists.txt").open("a") as lists:
        lists.write(
            "target_compile_options(tiny_cuda PRIVATE "
            "$<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_89,code=sm_89>)\n"
        )

    said = refused_build(folder, out, env={"TORCH_CUDA_ARCH_LIST": "8.0"})

    assert "did not produce what the Plan specifies" in said
    assert "8.9" in said


def test_a_cmakelists_that_makes_no_library_is_refused_by_a_build_that_looked_for_compilers_once(
    checkout: Checkout, out: Path, tmp_path: Path
) -> None:
    folder, calls = checkout(), tmp_path / "calls"
    (folder / "native/CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.24)\nproject(tiny LANGUAGES CXX)\n")
    cxx = make_program(tmp_path / "c++", f'echo "$1" >> {calls}; exec c++ "$@"')

    said = refused_build(folder, out, env={"TINY_CUDA": "off", "CXX": str(cxx)})

    assert "did not produce what the Plan specifies" in said
    assert calls.read_text().split().count("-dumpmachine") == 1


def test_folders_that_no_compiler_can_handle_are_refused_with_a_way_out(checkout: Checkout, out: Path) -> None:
    odd = out.with_name("a comma, in a path")
    odd.mkdir()
    env = {"TINY_CUDA": "off", "TMPDIR": str(odd), "XDG_CACHE_HOME": str(odd)}

    said = refused_build(checkout(), out, env=env)

    assert "kernels cannot be compiled in a folder with this path" in said
    assert "set TINY_CACHE_DIR to another folder" in said


# The same bytes everywhere


MARK = """
#ifdef TINY_MARK
extern "C" __attribute__((visibility("default"))) const char* tiny_mark() { return TINY_MARK; }
#endif
"""


@pytest.mark.minutes
def test_flags_that_begin_alike_all_arrive_and_no_function_of_the_package_is_shown(
    checkout: Checkout, out: Path
) -> None:
    """To other libraries."""
    folder = checkout()
    with (folder / "native/twice.cpp").open("a") as source:
        source.write("#include <only_in_a.h>\n#include <only_in_b.h>\nint tiny_helper() { return 2; }\n" + MARK)
    for name in ("a", "b"):
        (out.parent / name).mkdir()
        (out.parent / name / f"only_in_{name}.h").touch()
    cxx = f"-isystem {out.parent}/a -isystem {out.parent}/b '-DTINY_MARK=\"one; two > three\"'"

    built = build(folder, out, env={"TINY_CUDA": "off", "CXXFLAGS": cxx, "LDFLAGS": "-z relro -z now"})

    library = built.libraries["libtiny_cpu.so"]
    assert b"one; two > three" in library
    assert [name for name in symbols(library, defined=True) if "tiny" in name] == ["tiny_mark"]
    assert built.manifest["plan"]["content"]["options"]["link-flags"] == ["-z", "relro", "-z", "now"]
    dynamic = ELFFile(io.BytesIO(library)).get_section_by_name(".dynamic")
    (flags,) = [tag.entry.d_val for tag in dynamic.iter_tags("DT_FLAGS_1")]
    assert flags & ENUM_DT_FLAGS_1["DF_1_NOW"], "-z now was left out"


@pytest.mark.minutes
@needs_cuda_torch
def test_flags_reach_nvcc(checkout: Checkout, out: Path) -> None:
    folder = checkout()
    with (folder / "native/twice.cu").open("a") as source:
        source.write(MARK)

    flags = "-DTINY_MARK=__VERSION__ -Xcompiler -Wall -Xcompiler -Wextra"
    built = build(folder, out, env={"TORCH_CUDA_ARCH_LIST": "9.0", "CUDAFLAGS": flags})

    assert b"tiny_mark" in built.libraries["libtiny_cuda.so"]
    assert built.manifest["plan"]["content"]["options"]["cuda-flags"] == flags.split()


@pytest.mark.minutes
def test_with_source_date_epoch_two_wheels_are_the_same_file(checkout: Checkout, out: Path) -> None:
    env = {"TINY_CUDA": "off", "SOURCE_DATE_EPOCH": "1600000000", "TMPDIR": str(out.parent)}
    older = checkout()
    for path in older.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))

    first = build(older, out / "first", env=env)
    second = build(checkout(), out / "second", env={**env, "TINY_CACHE_DIR": str(out / "an empty store")})

    assert first.file.read_bytes() == second.file.read_bytes()


# When it goes wrong


@pytest.mark.minutes
def test_a_symbol_that_is_nowhere_is_an_error_of_the_build(checkout: Checkout, out: Path) -> None:
    folder = checkout()
    source = folder / "native/twice.cpp"
    source.write_text(source.read_text() + "int nowhere(); int user() { return nowhere(); }\nint used = user();\n")

    said = refused_build(folder, out, env={"TINY_CUDA": "off"})

    assert "libtiny_cpu.so: nowhere(), used by twice.cpp" in said


@pytest.mark.minutes
@needs_cuda_torch
def test_device_code_may_be_linked_from_several_files_for_the_architectures_of_the_build(
    checkout: Callable[[], Path], build_root: Path
) -> None:
    """Without the system's libraries, which nvcc cannot link, and without its own default architecture."""
    project = checkout()
    native = project / "native"
    (native / "part.cu").write_text("__device__ float tiny_part(float x) { return 2 * x; }\n")
    (native / "whole.cu").write_text(
        "__device__ float tiny_part(float x);\n__global__ void tiny_whole(float* x) { *x = tiny_part(*x); }\n"
    )
    lists = (native / "CMakeLists.txt").read_text().replace("twice.cu)", "twice.cu part.cu whole.cu)")
    property_of = "set_target_properties(tiny_cuda PROPERTIES CUDA_SEPARABLE_COMPILATION ON)"
    (native / "CMakeLists.txt").write_text(f"{lists}if(KERNELWHEEL_CUDA)\n  {property_of}\nendif()\n")

    made = build(project, build_root / "linked", env={"TORCH_CUDA_ARCH_LIST": "8.0;9.0"})
    said = refused_build(project, build_root / "linked-ptx", env={"TORCH_CUDA_ARCH_LIST": "9.0+PTX"})

    (library,) = (each for each in made.manifest["libraries"] if each["device"] == "cuda")
    assert (library["sass"], library["ptx"]) == (["8.0", "9.0"], [])
    assert "set archs without +PTX" in said
