"""The platform tag: a wheel claims the manylinux that its libraries earn, says why not more, and can be held to it."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import build
from kernelwheel.compiler.elf_inspect import ElfFile
from kernelwheel.packing.core_metadata import completed
from kernelwheel.packing.tags import Tag, platform_tag, tag_lines, torch_tag
from kernelwheel.runtime.errors import BuildError
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from packaging.version import Version
from standins import settings_with

MACHINE = platform.machine()
# Functions that glibc 2.34 moved, one that it changed before, and std::shared_ptr, which reads a variable of 2.32.
OLD = """
#include <dlfcn.h>
#include <pthread.h>
#include <cmath>
#include <memory>
#include <sstream>
extern "C" double old(double x, void* (*run)(void*), const std::shared_ptr<int>& shared) {
  auto copy = shared;
  std::stringstream text;
  text << x << new int[*copy];
  pthread_t thread;
  pthread_create(&thread, nullptr, run, nullptr);
  pthread_join(thread, nullptr);
  return std::exp(x) + std::pow(x, x) + (dlopen(nullptr, RTLD_NOW) != nullptr) + *copy;
}
"""
# A function that came with glibc 2.33 and has no older version.
NEW = '#include <sys/stat.h>\nextern "C" int newer(struct stat* s) { return stat("/", s); }\n'

# The torch of NVIDIA's containers, and a nightly.
NVIDIA_S, NIGHTLY = "2.13.0a0+5228986c39.nv26.06", "2.15.0.dev20261101+cu130"


@pytest.mark.parametrize(
    ("torch", "required", "build", "local"),
    [
        ("2.13.1+cu130", "2.13.*", "213torch", "torch2.13"),
        ("2.9.0.post1", "2.9.*", "209torch", "torch2.9"),
        (NVIDIA_S, NVIDIA_S, "213torch2.13.0a0.5228986c39.nv26.06", "torch2.13.0a0.5228986c39.nv26.06"),
        (NIGHTLY, NIGHTLY, "215torch2.15.0.dev20261101.cu130", "torch2.15.0.dev20261101.cu130"),
    ],
)
def test_a_wheel_names_the_torch_that_it_requires(torch: str, required: str, build: str, local: str) -> None:
    assert completed("Name: light\n\nText", [], torch) == f"Name: light\nRequires-Dist: torch=={required}\n\nText"
    assert [torch_tag(torch, kind) for kind in ("build", "local", "none")] == [build, f"+{local}", ""]
    assert Requirement(f"torch=={required}").specifier.contains(torch, prereleases=True)
    name = f"light-1.0+{local}-{build}-cp312-cp312-linux_x86_64.whl"
    _, version, (number, text), _ = parse_wheel_filename(name)
    assert (version, f"{number}{text}") == (Version(f"1.0+{local}"), build)


Checkout = Callable[[], Path]
Compile = Callable[..., Path]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "wheel"


@pytest.fixture
def library(tmp_path: Path) -> Compile:
    """A library made by the C++ compiler alone: `library(text, *options)`."""

    def compile_it(text: str, *options: str) -> Path:
        (tmp_path / "source.cpp").write_text(text)
        made = tmp_path / "libmade.so"
        subprocess.run(["c++", "-shared", "-fPIC", "-o", made, tmp_path / "source.cpp", *options], check=True)
        return made

    return compile_it


def test_a_library_that_needs_an_old_glibc_earns_the_wanted_tag(library: Compile) -> None:
    made = library('extern "C" int nothing() { return 0; }')

    assert platform_tag([made], settings_with()) == Tag(f"manylinux_2_28_{MACHINE}")


def test_a_library_that_needs_a_newer_glibc_gets_its_tag_and_the_symbols_are_named(library: Compile) -> None:
    tag = platform_tag([library(NEW)], settings_with())

    assert tag == Tag(f"manylinux_2_34_{MACHINE}", ("libmade.so: stat@GLIBC_2.33 of libc.so.6",))
    assert tag_lines(tag) == [f"platform tag: manylinux_2_34_{MACHINE}, because of:", f"  {tag.reasons[0]}"]


def test_a_library_that_not_every_linux_has_keeps_a_wheel_from_any_manylinux(library: Compile, tmp_path: Path) -> None:
    library('extern "C" int far() { return 0; }', "-Wl,-soname,libfar.so.1").rename(tmp_path / "libfar.so")
    made = library('extern "C" int far(); extern "C" int near() { return far(); }', f"-L{tmp_path}", "-lfar")

    assert platform_tag([made], settings_with()) == Tag(
        f"linux_{MACHINE}", ("libmade.so: libfar.so.1, which not every Linux has",)
    )
    assert platform_tag([made], settings_with(), {"libfar.so.1"}).platform == f"manylinux_2_28_{MACHINE}"


def test_torch_and_the_driver_are_not_part_of_a_wheel(library: Compile, tmp_path: Path) -> None:
    for soname in ("libtorch_cuda.so", "libcuda.so.1"):
        library("", f"-Wl,-soname,{soname}").rename(tmp_path / soname)
    made = library("", f"-L{tmp_path}", "-Wl,--no-as-needed", "-l:libtorch_cuda.so", "-l:libcuda.so.1")

    assert {"libtorch_cuda.so", "libcuda.so.1"} <= {*ElfFile(made).needed}
    assert platform_tag([made], settings_with()).platform == f"manylinux_2_28_{MACHINE}"


def test_a_required_tag_that_is_not_earned_is_an_error_that_names_the_symbols(library: Compile) -> None:
    made = library(NEW)

    with pytest.raises(BuildError, match=f"they earn manylinux_2_34_{MACHINE}") as caught:
        platform_tag([made], settings_with(manylinux="required"))

    assert caught.value.found == "libmade.so: stat@GLIBC_2.33 of libc.so.6"
    assert (
        platform_tag([made], settings_with(manylinux="required", glibc="2.34")).platform == f"manylinux_2_34_{MACHINE}"
    )


def test_without_a_wanted_glibc_a_wheel_has_the_oldest_tag_that_it_earns(library: Compile) -> None:
    tag = platform_tag([library('extern "C" int nothing() { return 0; }')], settings_with(glibc=""))

    assert tag == Tag(f"manylinux_2_5_{MACHINE}" if MACHINE == "x86_64" else f"manylinux_2_17_{MACHINE}")


def with_source(checkout: Checkout, text: str) -> Path:
    folder = checkout()
    (folder / "native/more.cpp").write_text(text)
    lists = folder / "native/CMakeLists.txt"
    lists.write_text(lists.read_text().replace("SOURCES twice.cpp", "SOURCES more.cpp"))
    return folder


@pytest.mark.minutes
def test_functions_that_glibc_has_moved_are_bound_to_their_old_versions(checkout: Checkout, out: Path) -> None:
    wheel = build(with_source(checkout, OLD), out, env={"TINY_CUDA": "off"}, config={"manylinux": "required"})

    assert f"manylinux_2_28_{MACHINE}" in wheel.file.name
    symbols = {symbol.name: symbol for symbol in ElfFile(wheel.native / "libtiny_cpu.so").needed_symbols}
    assert symbols["pthread_create"].soname == "libpthread.so.0"
    assert symbols["dlopen"].soname == "libdl.so.2"
    assert symbols["pow"].soname == "libm.so.6"
    assert {symbols[name].version for name in ("pthread_create", "dlopen", "exp", "pow")} <= {
        "GLIBC_2.2.5",
        "GLIBC_2.17",
    }
    assert "__libc_single_threaded" not in symbols
    assert wheel.manifest["plan"]["content"]["options"]["glibc"] == "2.28"


@pytest.mark.minutes
def test_functions_can_be_bound_to_the_glibc_of_the_builder(checkout: Checkout, out: Path) -> None:
    wheel = build(with_source(checkout, OLD), out, env={"TINY_CUDA": "off", "TINY_GLIBC": ""}, config={"glibc": ""})

    assert wheel.manifest["plan"]["content"]["options"]["glibc"] == ""
    versions = {symbol.version for symbol in ElfFile(wheel.native / "libtiny_cpu.so").needed_symbols}
    assert versions & {"GLIBC_2.29", "GLIBC_2.34"}
    assert "manylinux_2_28" not in wheel.file.name
    assert "pthread_create@GLIBC_2.34 of libc.so.6" in wheel.output or "exp@GLIBC_2.29 of libm.so.6" in wheel.output
