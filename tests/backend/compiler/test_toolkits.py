"""Real toolkits and real compilers: whatever the layout and the names, what they make is what the Plan says."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from builds import TORCH, needs_cuda_torch
from editables import for_each_device
from kernelwheel.compiler import cmake_build
from kernelwheel.compiler.compile import compile_plan
from kernelwheel.compiler.find_toolchain import find_toolchain
from kernelwheel.compiler.toolchain.cuda import decide_cuda
from kernelwheel.compiler.toolchain.cxx import host_limits
from kernelwheel.compiler.toolchain.nvcc import LIKE_TORCH, NvccLimits, NvccSearch
from kernelwheel.compiler.toolchain.toolkit import Nvcc, find_cudart
from kernelwheel.compiler.toolchain.torch_files import Torch
from kernelwheel.project.package import PackageFacts
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.errors import BuildError
from kernelwheel.runtime.machine.platforms import numbers
from kernelwheel.runtime.store.store import Store
from programs import find_optional
from standins import PRESENT, make_program, planned, settings_with

# A kernel and a function that include nothing: what is tested is who compiles them.
SOURCES = {
    "CMakeLists.txt": for_each_device("add.cu"),
    "one.cpp": '#ifdef NOISE\n#error\n#endif\nextern "C" int tiny_one() { return 1; }\n',
    "add.cu": """#include <cuda/std/cstdint>
#ifdef NOISE
#error
#endif
__global__ void add(cuda::std::int32_t* x) { x[threadIdx.x] += 1; }
extern "C" void tiny_add(cuda::std::int32_t* x) { add<<<1, 32>>>(x); }
""",
}


def compile_small(
    folder: Path,
    torch: Torch = TORCH,
    sources: Mapping[str, str] = SOURCES,
    limits: NvccLimits = LIKE_TORCH,
    **options: str,
) -> Artifact:
    """Compile small sources with the real toolchain that the options name, for one architecture."""
    root = folder / "sources"
    root.mkdir(parents=True)
    for name, text in sources.items():
        (root / name).write_text(text)
    chosen = settings_with(archs="9.0", jobs="1", **options)
    tools = find_toolchain(chosen, os.environ)
    tools = replace(tools, torch=torch, cuda=decide_cuda(NvccSearch(chosen, torch, os.environ, sys.path, limits)))
    made = planned(PackageFacts("tiny", "sources", "2.10"), "1.2.3", root, chosen, tools)
    return compile_plan(made, root, folder / "artifact", Store(folder / "cache", "tiny", "1.2.3"), PRESENT, print)


def libraries(artifact: Artifact) -> dict[str, bytes]:
    return {library.file: (artifact.folder / library.file).read_bytes() for library in artifact.manifest.libraries}


TWO_TARGETS = {
    **SOURCES,
    "add.cu": SOURCES["add.cu"].replace('extern "C"', 'extern "C" __attribute__((visibility("default")))'),
    "CMakeLists.txt": SOURCES["CMakeLists.txt"].replace(
        "endif()",
        """  kernelwheel_add_op_library(tiny_more CUDA SOURCES add.cu)
  target_compile_definitions(tiny_more PRIVATE tiny_add=tiny_subtract)
endif()""",
    ),
}


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
def test_a_file_may_be_compiled_for_two_targets(tmp_path: Path) -> None:
    made = compile_small(tmp_path, sources=TWO_TARGETS)

    found = libraries(made)
    assert {name: [word for word in (b"tiny_add", b"tiny_subtract") if word in found[name]] for name in found} == {
        "libtiny_cpu.so": [],
        "libtiny_cuda.so": [b"tiny_add"],
        "libtiny_more.so": [b"tiny_subtract"],
    }
    (rules,) = tmp_path.rglob("build/build.ninja")
    options = [line for line in rules.read_text().splitlines() if "--keep-dir" in line]
    assert [line.count("--keep-dir") for line in options] == [1, 1]
    assert len({line for line in options for line in re.findall(r"--keep-dir=(\S+)", line)}) == 2


@pytest.fixture(scope="module")
def nvcc() -> Nvcc:
    """The nvcc of this environment or machine."""
    found = decide_cuda(NvccSearch(settings_with(), TORCH, os.environ, sys.path)).nvcc
    assert found is not None
    return found


@pytest.fixture(scope="module")
def as_found(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """What is made with the toolkit as it lies there."""
    return compile_small(tmp_path_factory.mktemp("found"))


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
def test_what_cmake_is_told_of_nvcc_is_what_it_would_find(
    as_found: Artifact, nvcc: Nvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if numbers(platform.libc_ver()[1]) >= (2, 42) and numbers(nvcc.version) < (13, 1):
        pytest.skip(
            "it would find nothing: its test program does not compile with nvcc 13.0 beside glibc 2.42 or later"
        )
    given = cmake_build.cache_entries
    monkeypatch.setattr(cmake_build, "cache_entries", lambda *where: given(*where) | {"KERNELWHEEL_NVCC": ""})

    made = compile_small(tmp_path)

    assert ["CUDA compiler identification" in log_of(each) for each in (as_found, made)] == [False, True]
    assert commands(made) == commands(as_found)
    assert libraries(made) == libraries(as_found)


def log_of(made: Artifact) -> str:
    (log,) = made.folder.parent.rglob("build.log")
    return log.read_text()


def commands(made: Artifact) -> list[str]:
    """What Ninja runs and with which options, whatever folder that is in."""
    (build,) = made.folder.parent.rglob("build")
    lines = [*(build / "build.ninja").open(), *(build / "CMakeFiles/rules.ninja").open()]
    return [line.replace(str(made.folder.parent), "") for line in lines if line.startswith("  ")]


def copy_of(nvcc: Nvcc, root: Path, headers: str) -> Path:
    """The toolkit once more, its headers and libraries in other folders, and its nvcc told so: conda's way."""
    ignore = shutil.ignore_patterns("include", "lib*", "targets", "*.profile")
    shutil.copytree(nvcc.root, root, ignore=ignore, copy_function=link_or_copy)
    # Both bin/nvcc and nvvm/ are as they were: nothing in them is called include or lib, but what is needed of nvvm.
    shutil.copytree(nvcc.root / "nvvm", root / "nvvm", dirs_exist_ok=True, copy_function=copy_over)
    shutil.copytree(nvcc.include, root / headers, copy_function=link_or_copy)
    cudart = find_cudart(nvcc.root)
    assert cudart is not None
    (root / headers).with_name("lib").mkdir()
    for library in cudart.parent.glob("*.a"):
        link_or_copy(str(library), str(root / headers / "../lib" / library.name))
    profile = (nvcc.root / "bin/nvcc.profile").read_text()
    profile = re.sub(r'"-I[^"]*"', f'"-I$(TOP)/{headers}"', profile)
    profile = re.sub(r'"-isystem" "[^"]*"', f'"-isystem" "$(TOP)/{headers}/cccl"', profile)
    (root / "bin/nvcc.profile").write_text(profile)
    return root


def link_or_copy(source: str, destination: str) -> None:
    try:
        os.link(source, destination)
    except OSError:
        shutil.copy2(source, destination)


def copy_over(source: str, destination: str) -> None:
    if not Path(destination).exists():
        link_or_copy(source, destination)


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
def test_a_toolkit_in_conda_s_layout_makes_the_same_artifact(nvcc: Nvcc, as_found: Artifact, tmp_path: Path) -> None:
    prefix = copy_of(nvcc, tmp_path / "conda", "targets/x86_64-linux/include")
    assert not (prefix / "include").exists()

    again = compile_small(tmp_path / "again", cuda_home=str(prefix))

    one, other = (artifact.manifest.to_json() for artifact in (again, as_found))
    assert one["built_with"]["settings"].pop("cuda-home") != other["built_with"]["settings"].pop("cuda-home")
    assert one == other
    assert libraries(again) == libraries(as_found)


@pytest.fixture
def noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shell may say to compilers behind the registry's back; each would change or break a build."""
    headers = tmp_path / "headers/cuda/std"
    headers.mkdir(parents=True)
    (headers / "cstdint").write_text("#error a header from the shell's CPATH\n")
    said = {
        "CPATH": f"{tmp_path}/headers", "CPLUS_INCLUDE_PATH": f"{tmp_path}/headers", "LIBRARY_PATH": f"{tmp_path}",
        "NVCC_APPEND_FLAGS": "-lineinfo -DNOISE", "NVCC_PREPEND_FLAGS": "-DNOISE", "CUDAARCHS": "90",
        "CFLAGS": "-DNOISE", "CPPFLAGS": "-DNOISE", "CMAKE_GENERATOR": "Unix Makefiles", "CMAKE_BUILD_TYPE": "Debug",
        "CMAKE_ARGS": "-DCMAKE_CXX_FLAGS=-DNOISE", "PYTHONHASHSEED": "7", "MAX_JOBS": "1", "LANG": "de_DE.UTF-8",
    }  # fmt: skip
    for name, value in said.items():
        monkeypatch.setenv(name, value)


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
@pytest.mark.usefixtures("noise")
def test_whatever_the_shell_says_an_nvcc_behind_wrappers_and_of_another_minor_than_torch_s_makes_the_same(
    nvcc: Nvcc, as_found: Artifact, tmp_path: Path
) -> None:
    """In another folder, and the manifest has both versions."""
    launcher = make_program(tmp_path / "ccache", 'exec "$@"')
    shim = make_program(tmp_path / "shims/nvcc", f'exec {launcher} {nvcc.path} "$@"')
    other = f"{nvcc.release[0]}.97"

    again = compile_small(tmp_path / "again", replace(TORCH, cuda=other), nvcc=str(shim))

    assert (again.manifest.built_with["torch_cuda"], again.manifest.built_with["nvcc"]) == (other, nvcc.version)
    assert again.manifest.fingerprint == as_found.manifest.fingerprint
    assert libraries(again) == libraries(as_found)


@needs_cuda_torch
def test_the_compilers_that_we_refuse_are_those_that_nvcc_refuses(nvcc: Nvcc, tmp_path: Path) -> None:
    limit = host_limits(nvcc)["gcc"]
    for major, taken in ((limit, True), (limit + 1, False)):
        claims = make_program(tmp_path / f"g++-{major}", f'exec g++ -U__GNUC__ -D__GNUC__={major} "$@"')
        (tmp_path / "empty.cu").touch()
        command = [nvcc.path, "-ccbin", claims, "-E", tmp_path / "empty.cu", "-o", tmp_path / "out"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is taken, done.stderr
        assert ("unsupported GNU version" in done.stderr) is not taken


@pytest.mark.slow
@pytest.mark.every_program
def test_clang_compiles_it_where_there_is_one(tmp_path: Path) -> None:
    if not find_optional("clang++"):
        pytest.skip("no clang++ on PATH; apt-get install clang")

    built = compile_small(tmp_path, cxx="clang++").manifest

    assert built.built_with["cxx"].startswith("clang ")
    assert built.plan["tools"]["cxx"]["kind"] == "clang"
    assert [library.device for library in built.libraries] == (["cpu", "cuda"] if TORCH.cuda else ["cpu"])


@pytest.fixture
def linked_to_cublas(tmp_path: Path) -> dict[str, str]:
    """Sources of operators that need a library of one CUDA major: a stand-in for cuBLAS, by that name."""
    (tmp_path / "empty.c").touch()
    soname = "-Wl,-soname,libcublas.so.13"
    subprocess.run(["cc", "-shared", soname, tmp_path / "empty.c", "-o", tmp_path / "libcublas.so"], check=True)
    links = f"  target_link_libraries(tiny_cuda PRIVATE {tmp_path}/libcublas.so)\nendif()"
    return {**SOURCES, "CMakeLists.txt": SOURCES["CMakeLists.txt"].replace("endif()", links)}


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
def test_operators_that_need_libraries_of_one_cuda_major_require_a_torch_of_it(
    as_found: Artifact, linked_to_cublas: dict[str, str], tmp_path: Path
) -> None:
    bound = compile_small(tmp_path / "bound", sources=linked_to_cublas).manifest.requires
    free = as_found.manifest.requires

    assert (bound.cuda, free.cuda) == (int(str(TORCH.cuda).split(".")[0]), None)
    assert bound.driver == free.driver == f"{bound.cuda}.0"


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
def test_operators_that_need_libraries_of_one_cuda_major_are_not_made_by_an_nvcc_of_another(
    linked_to_cublas: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match="needs CUDA libraries, and nvcc is for another CUDA than torch") as caught:
        compile_small(tmp_path / "b", replace(TORCH, cuda="11.8"), linked_to_cublas, NvccLimits(any_major=True))

    assert "libcublas.so.13" in caught.value.found
    assert "CUDA 11" in caught.value.required
