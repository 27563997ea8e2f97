"""Builds for another platform: an aarch64 wheel from an x86-64 builder, and what must be refused before a compile.

What the wheel does on an aarch64 machine is in tests/ci/test_aarch64.py.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builds import TORCH, Wheel, build, needs_cuda_torch, refused_build
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from kernelwheel.compiler.build_or_reuse import create_plan_for
from kernelwheel.compiler.cmake_inputs import cache_entries, recipe_files
from kernelwheel.compiler.compile_job import read_job
from kernelwheel.compiler.cross import target_platform
from kernelwheel.compiler.cross.cmake_files import toolchain_file
from kernelwheel.compiler.find_toolchain import find_toolchain
from kernelwheel.compiler.nvcc_on_clang.__main__ import answer
from kernelwheel.compiler.nvcc_on_clang.nvcc_options import Refused
from kernelwheel.compiler.toolchain.binding import find_cuda_library
from kernelwheel.compiler.toolchain.cxx import find_cxx
from kernelwheel.compiler.toolchain.toolkit import Nvcc
from kernelwheel.compiler.toolchain.toolkit_identity import toolkit_identity
from kernelwheel.compiler.work_folder import link_toolkit
from kernelwheel.project import build_platforms
from kernelwheel.project.package import PackageFacts
from kernelwheel.runtime.decision.carry_out import compile_request
from kernelwheel.runtime.decision.decision import Request
from kernelwheel.runtime.decision.snapshot import InstalledPackage
from kernelwheel.runtime.errors import BuildError
from kernelwheel.runtime.machine import host as hosts
from kernelwheel.runtime.machine import platforms
from programs import CLANG, CUDA_12, find_optional
from standins import (
    GPU_CODES,
    inspect_beside,
    make_cxx,
    make_machine,
    make_program,
    make_toolkit,
    settings_with,
    sources_of,
)

pytestmark = [
    pytest.mark.every_program,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="builds for another platform are those on x86-64"),
]

AARCH64 = build_platforms.PLATFORMS["linux-aarch64"]
FOR_ARM = {"platform": "linux-aarch64"}
TARGET = "targets/sbsa-linux"
# What the toolkit's part for a platform has, as far as it is looked at.
PARTS = (
    "include/cuda_runtime.h", "include/crt/host_config.h", "include/fatbinary_section.h", "include/cccl/nv/target",
    "lib/libcudart_static.a", "lib/libcudadevrt.a",
)  # fmt: skip

# The same in pip's packages for CUDA 12, below `nvidia`.
PARTS_12 = (
    "cuda_runtime/include/cuda_runtime.h", "cuda_nvcc/include/crt/host_config.h",
    "cuda_nvcc/include/fatbinary_section.h", "cuda_cccl/include/nv/target", "cuda_runtime/lib/libcudart_static.a",
    "cuda_runtime/lib/libcudadevrt.a",
)  # fmt: skip
# What ci/aarch64 made: `toolkit` in it has the toolkit's parts for Arm.
FOLDER = os.environ.get("SPLAT_TEST_AARCH64", "")

Checkout = Callable[..., Path]
needs_compiler = pytest.mark.skipif(
    not find_optional("aarch64-linux-gnu-g++"),
    reason="there is no aarch64-linux-gnu-g++ here (Debian, Ubuntu: apt-get install g++-aarch64-linux-gnu)",
)
needs_parts = pytest.mark.skipif(not FOLDER, reason="SPLAT_TEST_AARCH64 names no folder made by ci/aarch64")


def make_cross_cxx(folder: Path, lacking: str = "") -> Path:
    """A stand-in for a cross compiler with its libc and libstdc++, all but one file."""
    path = make_cxx(folder / "aarch64-linux-gnu-g++", target="aarch64-linux-gnu")
    for name in ("c++ headers/stdlib.h", *(f"parts/{name}" for name in ("libc.so.6", "libm.so.6", "libstdc++.so"))):
        (folder / name).touch()
    for found in folder.rglob(lacking or "nothing"):
        found.unlink()
    return path


def make_part(folder: Path, version: str = "13.0.96", lacking: str = "") -> Path:
    """A stand-in for the toolkit's part for a platform."""
    for name in PARTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} for aarch64\n", encoding="utf-8")
    major, minor = version.split(".")[:2]
    text = f"#define CUDART_VERSION  {int(major) * 1000 + int(minor) * 10}\n"
    (folder / "include/cuda_runtime_api.h").write_text(text, encoding="utf-8")
    if lacking:
        (folder / lacking).unlink()
    return folder


def make_packages_12(packages: Path, lacking: str = "", minor: int = 9) -> str:
    """A stand-in for pip's packages for CUDA 12 for a platform; what names them as `target-packages`."""
    for name in (*PARTS_12, "cuda_runtime/include/__init__.py", "cublas/lib/libcublas.so.12"):
        (packages / "nvidia" / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / "nvidia" / name).write_text(f"{name} for aarch64\n", encoding="utf-8")
    text = f"#define CUDART_VERSION  {12000 + minor * 10}\n"
    (packages / "nvidia/cuda_runtime/include/cuda_runtime_api.h").write_text(text, encoding="utf-8")
    if lacking:
        (packages / "nvidia" / lacking).unlink()
    return str(packages)


@pytest.fixture(params=["", "19.1.7"], ids=["nvcc", "clang"])
def nvcc_12(request: pytest.FixtureRequest, tmp_path: Path) -> Nvcc:
    """A stand-in for an nvcc 12, and for a clang in its place."""
    toolkit = make_toolkit(tmp_path / "toolkit", "12.9.86", GPU_CODES["12.8"])
    make_program(toolkit / "bin/clang++", "exit 1")
    found = inspect_beside("12.9", toolkit / "bin/nvcc", {"PATH": "/bin:/usr/bin"}).nvcc
    assert found is not None
    return replace(found, clang=request.param)


@pytest.fixture
def nvcc(tmp_path: Path) -> Nvcc:
    """A stand-in for an nvcc in pip's layout, without a part for another platform."""
    toolkit = make_toolkit(tmp_path / "toolkit", "13.0.88")
    found = inspect_beside("13.0", toolkit / "bin/nvcc", {"PATH": "/bin:/usr/bin"}).nvcc
    assert found is not None
    return found


def part_for(nvcc: Nvcc, packages: Path | str = "") -> Nvcc:
    """The nvcc with its part for Arm, from its toolkit or from packages."""
    return target_platform.for_target(nvcc, settings_with(target_packages=str(packages)), AARCH64)


def error(call: Callable[[], object]) -> BuildError:
    with pytest.raises(BuildError) as caught:
        call()
    return caught.value


# The wheel


@pytest.fixture(scope="module")
def arm_wheel(checkout: Checkout, build_root: Path) -> Wheel:
    """A wheel of tiny for Arm, from the compilers of this machine."""
    return build(checkout(), build_root / "arm", env={"TINY_CUDA": "off"}, config=FOR_ARM)


@pytest.mark.minutes
@needs_compiler
def test_the_wheel_is_for_the_platform_in_its_name_and_in_everything_that_it_says(arm_wheel: Wheel) -> None:
    (facts,) = arm_wheel.unpacked.glob("*.dist-info/WHEEL")
    (sbom,) = arm_wheel.unpacked.glob("*.dist-info/sboms/*.json")
    values = arm_wheel.manifest

    assert arm_wheel.file.name.endswith("-py3-none-manylinux_2_28_aarch64.whl")
    assert "Tag: py3-none-manylinux_2_28_aarch64\n" in facts.read_text(encoding="utf-8")
    assert values["requires"]["platform"] == values["plan"]["target"]["platform"] == "linux-aarch64"
    assert values["plan"]["tools"]["cxx"]["target"] == "aarch64-linux-gnu"
    assert values["built_with"]["settings"]["platform"] == {"value": "linux-aarch64", "origin": "-C platform"}
    assert "libstdc++" in sbom.read_text(encoding="utf-8")
    assert "platform: linux-aarch64, on linux-x86_64 (-C platform)" in arm_wheel.output
    assert "stable ABI: nothing beyond that" in arm_wheel.output


@pytest.mark.minutes
@needs_compiler
def test_every_native_member_is_a_library_for_it_that_finds_torch_by_name(arm_wheel: Wheel) -> None:
    native = [path for path in arm_wheel.unpacked.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]

    assert [path.name for path in native] == ["libtiny_cpu.so"]
    for path in native:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            assert (elf["e_machine"], elf["e_type"]) == ("EM_AARCH64", "ET_DYN")
            dynamic = elf.get_section_by_name(".dynamic")
            assert isinstance(dynamic, DynamicSection)
            tags = {tag.entry.d_tag: tag for tag in dynamic.iter_tags()}
            needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
            assert elf.get_section_by_name(".symtab") is None  # stripped
        assert needed[0] == "libtorch_cpu.so"
        assert not {"DT_RPATH", "DT_RUNPATH"} & set(tags)


@pytest.mark.minutes
@needs_compiler
def test_nothing_of_the_builder_is_in_it(arm_wheel: Wheel, build_root: Path) -> None:
    for path in (path for path in arm_wheel.unpacked.rglob("*") if path.is_file() and path.suffix != ".py"):
        data = path.read_bytes()
        assert not any(text.encode() in data for text in (str(build_root), str(TORCH.root), "x86_64-linux-gnu"))


@pytest.mark.minutes
@needs_compiler
def test_two_builds_in_two_folders_are_the_same_bytes(arm_wheel: Wheel, checkout: Checkout, build_root: Path) -> None:
    again = build(checkout(), build_root / "arm again", env={"TINY_CUDA": "off"}, config=FOR_ARM)

    assert again.file.read_bytes() == arm_wheel.file.read_bytes()


@pytest.mark.minutes
@needs_compiler
@needs_parts
@needs_cuda_torch
@pytest.mark.slow
@pytest.mark.skipif(not (CLANG and CUDA_12), reason="no clang 19 or later, or no parts of CUDA 12; ci/test brings them")
def test_clang_makes_kernels_for_it_that_drivers_for_cuda_12_run(checkout: Checkout, build_root: Path) -> None:
    env = {
        "TINY_CUDA": "on", "TINY_DRIVERS": "12.0", "TORCH_CUDA_ARCH_LIST": "9.0+PTX", "CUDACXX": CLANG,
        "PYTHONPATH": CUDA_12,
    }  # fmt: skip
    config = {**FOR_ARM, "target-packages": f"{FOLDER}/toolkit"}

    made, again = (build(checkout(), build_root / f"{name} cuda 12", env=env, config=config) for name in ("arm", "Arm"))

    values = made.manifest
    assert made.file.read_bytes() == again.file.read_bytes()
    assert values["built_with"]["nvcc"].startswith("clang ")
    assert values["requires"]["driver"] == "12.0"
    assert [library[18:20] for library in made.libraries.values()] == [b"\xb7\0"] * 2  # System V ABI, EM_AARCH64
    (cuda,) = (each for each in values["libraries"] if each["file"] == "libtiny_cuda.so")
    assert (cuda["sass"], cuda["ptx"]) == (["9.0"], ["9.0"])
    assert not any(os.fsencode(build_root) in library for library in made.libraries.values())


def test_the_architectures_for_arm_have_its_tegra_chips(tmp_path: Path) -> None:
    machine = make_machine(tmp_path)

    here, there = (machine.draw(platform=name).cuda for name in ("native", "linux-aarch64"))

    assert here is not None
    assert there is not None
    assert [str(each) for each in there.archs.sass if each not in here.archs.sass] == ["8.7"]
    assert (set(here.archs.sass) <= set(there.archs.sass), here.archs.ptx) == (True, there.archs.ptx)


def test_cmake_is_told_the_platform_by_a_file_made_from_the_plan(tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    tools = {
        name: machine.toolchain(
            settings_with({"CUDA_HOME": str(machine.toolkit), "CXX": str(machine.cxx)}, platform=name)
        )
        for name in ("native", "linux-aarch64")
    }

    text = toolchain_file(tmp_path, tools["linux-aarch64"])

    assert [name for name in recipe_files(Path(), tools["native"]) if name.endswith(".cmake")] == []
    assert {
        'set(CMAKE_SYSTEM_NAME "Linux")', 'set(CMAKE_SYSTEM_PROCESSOR "aarch64")',
        f'set(CMAKE_CXX_COMPILER "{machine.cxx}")', 'set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY "ONLY")',
    } <= set(text.splitlines())  # fmt: skip


def test_nvcc_finds_the_target_s_part_and_its_own_below_one_folder(nvcc: Nvcc, tmp_path: Path) -> None:
    part = make_part(tmp_path / "packages/nvidia/cu13")
    found = part_for(nvcc, tmp_path / "packages")

    link_toolkit(tmp_path / "cuda", found)

    assert (tmp_path / "cuda" / TARGET / "include").resolve() == part / "include"
    assert (tmp_path / "cuda" / TARGET / "lib" / "libcudart_static.a").is_file()
    assert (tmp_path / "cuda" / "nvvm" / "bin" / "cicc").is_file()
    # Not a link to the folder: nvcc looks for `targets` beside it.
    assert not (tmp_path / "cuda" / "bin").is_symlink()
    assert (tmp_path / "cuda" / "bin" / "nvcc").resolve() == nvcc.path.resolve()


def test_clang_finds_the_rest_of_the_toolkit_beside_the_target_s_part(nvcc_12: Nvcc, tmp_path: Path) -> None:
    packages = make_packages_12(tmp_path / "packages")
    found = part_for(nvcc_12, packages)

    link_toolkit(tmp_path / "cuda", found)

    part = tmp_path / "cuda" / TARGET
    assert (part / "include/crt/host_config.h").is_file()
    assert (part / "nvvm/bin/cicc").is_file() == (part / "bin/ptxas").is_file() == bool(nvcc_12.clang)


def test_clang_compiles_both_halves_for_the_host_compiler_s_platform(tmp_path: Path) -> None:
    toolkit, calls = make_toolkit(tmp_path / "cuda", "12.9.86"), tmp_path / "calls"
    for name in ("clang++", "ptxas", "fatbinary"):
        make_program(toolkit / "bin" / name, f"""echo "$@" >> "{calls}"; echo "'sm_90' release 12.9, V12.9.86" """)
    answers = "-dumpmachine) echo aarch64-linux-gnu;; -print-libgcc-file-name) echo /gcc/aarch64/libgcc.a;;"
    host = make_program(tmp_path / "c++", f'case "$1" in {answers} *) exit 1;; esac')
    words = ["--target-directory", "sbsa-linux", f"-ccbin={host}"]
    words += ["-gencode=arch=compute_90,code=[sm_90,compute_90]", "-c", "twice.cu", "-o", "twice.o"]

    def compile_one() -> None:
        answer(str(toolkit / "bin/nvcc"), words)

    with pytest.raises(Refused, match="--target-directory=sbsa-linux: there is no"):
        compile_one()
    (toolkit / TARGET).mkdir(parents=True)
    compile_one()

    halves = [line.split() for line in calls.read_text(encoding="utf-8").splitlines() if "-only" in line]
    assert len(halves) == 2
    for half in halves:
        assert {
            f"--cuda-path={toolkit / TARGET}", "--target=aarch64-linux-gnu", "--gcc-install-dir=/gcc/aarch64",
            f"{toolkit / TARGET}/include/nvcc_on_clang.h",
        } <= set(half)  # fmt: skip


def test_cmake_is_told_what_a_clang_for_the_platform_is_and_asks_an_nvcc(nvcc_12: Nvcc, tmp_path: Path) -> None:
    machine = make_machine(tmp_path / "machine")
    plan = machine.draw(platform="linux-aarch64")
    tools = machine.toolchain(settings_with({"CUDA_HOME": str(machine.toolkit), "CXX": str(machine.cxx)}, **FOR_ARM))
    packages = make_packages_12(tmp_path / "packages")
    found = part_for(nvcc_12, packages)

    tools = replace(tools, cuda=replace(tools.cuda, nvcc=found))
    entries = cache_entries(tmp_path, plan, tools)

    assert entries["KERNELWHEEL_NVCC"] == ("12.9.86" if nvcc_12.clang else "")
    assert entries["KERNELWHEEL_LIBRARIES"].endswith(f"{TARGET}/lib")
    assert 'set(CMAKE_CUDA_FLAGS_INIT "--target-directory sbsa-linux")' in toolchain_file(tmp_path, tools)


# What is refused


def test_a_build_for_x86_64_on_an_aarch64_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (platforms, target_platform):
        monkeypatch.setattr(module, "platform_name", lambda: "linux-aarch64")

    caught = error(lambda: target_platform.cross_platform(settings_with(platform="linux-x86_64")))

    assert str(caught).splitlines()[0] == "kernels for linux-x86_64 cannot be built on linux-aarch64"
    assert caught.remedies == ("build it on a machine with linux-x86_64",)


@pytest.mark.parametrize("lacking", ["vector", "crti.o", "libstdc++.so"])
def test_a_cross_compiler_without_a_part_of_its_libc_or_libstdcxx_is_refused(tmp_path: Path, lacking: str) -> None:
    path = make_cross_cxx(tmp_path / "bin", lacking)
    chosen = settings_with({"CXX": str(path)})

    caught = error(lambda: find_cxx(chosen, {"PATH": "/bin:/usr/bin"}, None, AARCH64))

    assert f"{path}: lacks {lacking} of aarch64-linux-gnu" in caught.found


def test_a_whole_cross_compiler_is_taken_and_one_for_this_machine_refused(tmp_path: Path) -> None:
    here = make_cxx(tmp_path / "bin" / "c++")
    environ = {"PATH": str(here.parent)}

    none = error(lambda: find_cxx(settings_with(), environ, None, AARCH64))
    path = make_cross_cxx(tmp_path / "bin")
    found = find_cxx(settings_with(), {"PATH": f"{here.parent}:/bin"}, None, AARCH64)
    named = error(lambda: find_cxx(settings_with({"CXX": str(here)}), {"PATH": "/bin"}, None, AARCH64))

    assert "aarch64-linux-gnu-g++: not on PATH" in none.found
    assert "apt-get install g++-aarch64-linux-gnu" in none.remedies[0]
    assert (found.path, found.target) == (path, "aarch64-linux-gnu")
    assert named.found == f"{here}: compiles for x86_64-linux-gnu, not for aarch64-linux-gnu"
    assert "and unset environment variable CXX" in named.remedies


def test_the_toolkit_s_own_part_for_the_platform_is_taken_or_else_one_that_pip_unpacked(
    nvcc: Nvcc, tmp_path: Path
) -> None:
    unpacked = make_part(tmp_path / "packages/nvidia/cu13")
    from_pip = part_for(nvcc, tmp_path / "packages")
    part = make_part(nvcc.root / TARGET)
    own = part_for(nvcc, tmp_path / "packages")

    assert from_pip.target is not None
    assert (from_pip.target.name, from_pip.target.lib) == ("sbsa-linux", unpacked / "lib")
    assert (own.include, own.cudart) == (part / "include", part / "lib/libcudart_static.a")
    assert (own.path, own.root) == (nvcc.path, nvcc.root)


def test_pip_s_packages_for_cuda_12_are_put_together(nvcc_12: Nvcc, tmp_path: Path) -> None:
    make_part(tmp_path / "packages/nvidia/cu13")
    packages = make_packages_12(tmp_path / "packages")

    found = part_for(nvcc_12, packages)

    assert found.target is not None
    for name in ("cuda_runtime.h", "crt/host_config.h", "nv/target"):
        assert (found.include / name).read_text(encoding="utf-8").endswith(f"include/{name} for aarch64\n")
        assert "cu13" not in (found.include / name).resolve().as_posix()
    assert not (found.include / "cccl").exists()  # of CUDA 13
    assert not (found.include / "__init__.py").exists()
    assert found.cudart is not None
    assert found.cudart.read_text(encoding="utf-8") == "cuda_runtime/lib/libcudart_static.a for aarch64\n"
    assert find_cuda_library("cublas", found, tmp_path) == found.target.lib / "libcublas.so.12"
    assert toolkit_identity(found)["crt"] != toolkit_identity(nvcc_12)["crt"]


@pytest.mark.parametrize("lacking", PARTS[::2])
def test_a_part_that_is_not_whole_is_refused(nvcc: Nvcc, tmp_path: Path, lacking: str) -> None:
    place = make_part(tmp_path / "packages/nvidia/cu13", lacking=lacking)

    caught = error(lambda: part_for(nvcc, tmp_path / "packages"))

    assert f"{place}: no {lacking.replace('cccl/', '')}" in caught.found


@pytest.mark.parametrize("lacking", PARTS_12[1::2])
def test_packages_for_cuda_12_that_are_not_whole_are_refused(nvcc_12: Nvcc, tmp_path: Path, lacking: str) -> None:
    packages = make_packages_12(tmp_path / "packages", lacking)

    caught = error(lambda: part_for(nvcc_12, packages))

    assert f"{packages}/nvidia: no {lacking.partition('/')[2]}" in caught.found.splitlines()


def test_parts_of_another_release_are_refused(nvcc: Nvcc, nvcc_12: Nvcc, tmp_path: Path) -> None:
    make_part(tmp_path / "packages/nvidia/cu13", "13.2.1")
    packages = make_packages_12(tmp_path / "packages", minor=8)

    assert "no CUDA 13.0.88, as nvcc (its cudart is for 13.2)" in error(lambda: part_for(nvcc, packages)).found
    assert "no CUDA 12.9.86, as nvcc (its cudart is for 12.8)" in error(lambda: part_for(nvcc_12, packages)).found


def test_a_toolkit_without_its_part_for_the_platform_is_refused_with_the_commands(nvcc: Nvcc) -> None:
    caught = error(lambda: part_for(nvcc))

    assert f"{nvcc.root / TARGET}: no include/cuda_runtime.h" in caught.found
    assert "--platform manylinux_2_17_aarch64 'nvidia-cuda-runtime==13.0.*'" in caught.remedies[0]
    assert "-C target-packages=DIR" in caught.remedies[0]
    assert any("cuda=off" in remedy for remedy in caught.remedies)


def test_modules_and_libraries_on_all_of_torch_are_refused_before_anything_is_looked_for() -> None:
    caught = error(lambda: find_toolchain(settings_with(**FOR_ARM), {}, binds_torch=True))

    assert "what is compiled on all of torch cannot be built for linux-aarch64 here" in caught.problem
    assert caught.remedies == ("build it on a machine with linux-aarch64",)


@pytest.mark.slow
def test_a_build_that_cannot_be_ends_before_it_compiles(tiny_checkout: Path, tmp_path: Path) -> None:
    env = {"TINY_CUDA": "off", "CXX": "/usr/bin/c++"}

    output = refused_build(tiny_checkout, tmp_path / "out", config=FOR_ARM, env=env)

    assert "no C++ compiler for linux-aarch64" in output
    assert "compiling tiny" not in output


def test_what_is_compiled_at_run_time_is_for_this_machine(tmp_path: Path) -> None:
    """Although the settings name another platform."""
    machine = make_machine(tmp_path)
    chosen = settings_with({"CUDA_HOME": str(machine.toolkit), "CXX": str(machine.cxx)}, **FOR_ARM)
    package = InstalledPackage("tiny", "1.2.3", tmp_path / "none", {})
    package.source = sources_of(PackageFacts("tiny", "native", "2.10", "stable"), machine.sources)
    request = compile_request(package.read(hosts.probe()), Request("cpu"), chosen)

    job = read_job(request.to_json(), {})

    assert create_plan_for(job, machine.toolchain(job.settings)).plan.platform == platforms.platform_name()
