"""Builds for Windows on Linux: the wheel that zig makes, what is refused, and what decides the bytes.

What the wheel does on Windows is in tests/ci/test_windows.py.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from builds import Wheel, build
from kernelwheel import hooks, requirements
from kernelwheel.__main__ import main
from kernelwheel.compiler import find_toolchain as finding
from kernelwheel.compiler.binary_inspect import library_at
from kernelwheel.compiler.cross.target_platform import cross_platform, for_target
from kernelwheel.compiler.cross.windows import zig
from kernelwheel.compiler.cross.windows.cmake_for_windows import definition
from kernelwheel.compiler.cross.windows.pe_inspect import PeFile
from kernelwheel.compiler.find_toolchain import find_toolchain
from kernelwheel.compiler.nvcc_on_clang.__main__ import answer
from kernelwheel.compiler.toolchain import clang_toolkit, cuda
from kernelwheel.packing import tags
from kernelwheel.packing.allowed_dlls import is_allowed
from kernelwheel.project.build_platforms import HEADER, PLATFORMS, WindowsBuild
from kernelwheel.project.build_settings import BuildSettings
from kernelwheel.project.source_files import file_sha256
from kernelwheel.runtime.errors import BuildError
from kernelwheel.store import archive
from programs import CLANG, CUDA_12
from standins import GPU_CODES, inspect_beside, make_program, make_toolkit, settings_with

pytestmark = [
    pytest.mark.needs_torch("cuda"),  # the environment that has zig
    pytest.mark.every_program,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="builds for another platform are those on x86-64"),
]

WINDOWS = PLATFORMS["windows-x86_64"]
FOR_WINDOWS = {"platform": "windows-x86_64"}
NOT_ON = "cuda is off (the default for windows-x86_64)"
INSTALL = requirements.install(name for _, name in requirements.FOR_WINDOWS)
needs_zig = pytest.mark.skipif(
    bool(requirements.missing(requirements.FOR_WINDOWS)), reason=f"zig compiles for Windows: {INSTALL}"
)
needs_clang = pytest.mark.skipif(
    not (CLANG and CUDA_12), reason="no clang++-19 or later, or SPLAT_TEST_CUDA12 names no folder with CUDA 12.9"
)
# Where it keeps what it compiles of its own libraries, which takes minutes the first time: beside this installation,
# because it compiles them again for another one.
KEPT = {"ZIG_GLOBAL_CACHE_DIR": os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(Path(sys.prefix) / "zig-cache"))}

Checkout = Callable[..., Path]


@pytest.fixture(scope="module")
def windows_wheel(checkout: Checkout, build_root: Path) -> Wheel:
    """A wheel of tiny for Windows."""
    return build(checkout(), build_root / "windows", env=KEPT, config=FOR_WINDOWS)


@pytest.fixture
def library(windows_wheel: Wheel) -> Path:
    """The one library in it."""
    (path,) = windows_wheel.native.glob("*.dll")
    return path


def error(call: Callable[[], object]) -> BuildError:
    with pytest.raises(BuildError) as caught:
        call()
    return caught.value


def make_zig(folder: Path, version: str = "0.17.9") -> Path:
    """A stand-in for pip's zig and its libraries."""
    for name in (
        "libcxx/include/vector",
        "libc/mingw/crt.c",
        "libc/include/any-windows-any/io.h",
        "libc/musl/a.c",
        "lldb/x.pyc",
    ):
        (folder / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "lib" / name).write_text(name, encoding="utf-8")
    return make_program(folder / "zig", f"echo {version}")


# The wheel


@needs_zig
def test_the_wheel_is_for_windows_in_its_name_and_in_everything_that_it_says(windows_wheel: Wheel) -> None:
    (facts,) = windows_wheel.unpacked.glob("*.dist-info/WHEEL")
    (sbom,) = windows_wheel.unpacked.glob("*.dist-info/sboms/*.json")
    (licences,) = windows_wheel.unpacked.glob("*.dist-info/licenses/compiled-in/LICENSES.txt")
    values = windows_wheel.manifest

    assert windows_wheel.file.name.endswith("-py3-none-win_amd64.whl")
    assert "Tag: py3-none-win_amd64\n" in facts.read_text(encoding="utf-8")
    assert values["requires"] == {
        "torch": "2.10", "platform": "windows-x86_64", "libc": "", "libstdcxx": "", "cuda": None, "driver": None,
        "driver_for_ptx": None, "python": None,
    }  # fmt: skip
    assert values["plan"]["target"] == {
        "platform": "windows-x86_64", "cuda": None, "binding": None, "standard": {"stable": "c++17"}, "cpu": {},
        "cpu_kernels": True,
    }  # fmt: skip
    assert [library["file"] for library in values["libraries"]] == ["tiny_cpu.dll"]
    assert values["built_with"]["cxx"].startswith("zig 0.17.")
    assert values["built_with"]["cuda"]["because"] == NOT_ON
    assert {"compiler", "linked_in"} <= set(values["plan"]["tools"]["cxx"])
    made_of = {each["name"] for each in json.loads(sbom.read_text(encoding="utf-8"))["components"]}
    assert {"torch", "libc++", "mingw-w64", "zig"} <= made_of
    assert "libstdc++" not in made_of
    assert "Copyright (c) Zig contributors" in licences.read_text(encoding="utf-8")
    assert "stable ABI: nothing beyond that of torch 2.10 is used by tiny_cpu.dll" in windows_wheel.output


@needs_zig
def test_an_archive_s_reader_takes_the_library_for_what_it_is(windows_wheel: Wheel, tmp_path: Path) -> None:
    with archive.opened(windows_wheel.file) as packed:
        (library,) = packed.manifest.libraries
        assert sum(map(len, packed.blocks(library))) == library.size
        assert list(packed.record_damage()) == []


@needs_zig
def test_inspect_shows_it_on_linux(windows_wheel: Wheel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(windows_wheel.file)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert "  requires      torch >= 2.10, windows-x86_64" in lines
    assert [line for line in lines if "damaged" in line] == []
    assert lines[-4:-1] == ["  platform (all kernels)", "    required: windows-x86_64", "    found:    linux-x86_64"]


@needs_zig
def test_the_library_needs_torch_and_windows_alone_and_of_torch_functions_with_stable_names(library: Path) -> None:
    assert isinstance(WINDOWS, WindowsBuild)
    assert library_at(library).needed[0] == "torch_cpu.dll"
    assert all(is_allowed(name) for name in library_at(library).needed)
    names = [name for name in library_at(library).used() if "torch" in name]
    assert "torch_call_dispatcher" in names
    assert all(name.startswith(("aoti_torch_", "torch_")) for name in names)


@needs_zig
def test_what_an_operator_throws_gets_to_torch_by_its_own_function(library: Path) -> None:
    assert "aoti_torch_check" in library_at(library).used()


@needs_zig
def test_nothing_of_the_builder_is_in_it(windows_wheel: Wheel, build_root: Path) -> None:
    place = str(find_zig(settings_with({}, **FOR_WINDOWS)).path.parent)
    for path in (path for path in windows_wheel.unpacked.rglob("*") if path.is_file() and path.suffix != ".py"):
        data = path.read_bytes()
        assert not any(text.encode() in data for text in (str(build_root), place, KEPT["ZIG_GLOBAL_CACHE_DIR"]))


@needs_zig
def test_two_builds_in_two_folders_are_the_same_bytes(
    windows_wheel: Wheel, checkout: Checkout, build_root: Path
) -> None:
    again = build(checkout(), build_root / "windows again", env=KEPT, config=FOR_WINDOWS)

    assert again.file.read_bytes() == windows_wheel.file.read_bytes()


@needs_zig
def test_an_extension_of_a_table_is_a_library_for_windows(checkout: Checkout, build_root: Path) -> None:
    source = checkout() / "native" / "twice.cpp"
    project = build_root / "table"
    (project / "table").mkdir(parents=True)
    (project / "table/__init__.py").touch()
    (project / "twice.cpp").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    (project / "twice.h").write_text((source.parent / "twice.h").read_text(encoding="utf-8"), encoding="utf-8")
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["kernelwheel"]\nbuild-backend = "kernelwheel.hooks"\n'
        '[project]\nname = "table"\nversion = "1.0"\n'
        '[[tool.kernelwheel.extension]]\nname = "table._C"\nkind = "operators"\nsources = ["twice.cpp"]\n'
        'by-path = true\n[tool.setuptools]\npackages = ["table"]\n',
        encoding="utf-8",
    )

    made = build(project, build_root / "table out", env=KEPT, config=FOR_WINDOWS)

    assert sorted(path.relative_to(made.unpacked).as_posix() for path in made.unpacked.rglob("*.dll")) == [
        "table/_C.dll", "table/_native/table._C.dll",
    ]  # fmt: skip


# CUDA kernels


@pytest.fixture(scope="module")
def cuda_wheel(checkout: Checkout, build_root: Path) -> Wheel:
    """A wheel of tiny with CUDA kernels for Windows."""
    return build_with_cuda(checkout(), build_root / "windows cuda")


def build_with_cuda(project: Path, folder: Path) -> Wheel:
    chosen = {"cuda": "on", "drivers": "12.0", "archs": "8.0;9.0+PTX", "target-packages": f"{CUDA_12}/windows"}
    return build(project, folder, env={**KEPT, "PYTHONPATH": CUDA_12}, config={**FOR_WINDOWS, **chosen})


@needs_zig
@needs_clang
def test_the_wheel_has_cuda_kernels_for_every_driver_from_12_0_on(cuda_wheel: Wheel) -> None:
    values = cuda_wheel.manifest
    (sbom,) = cuda_wheel.unpacked.glob("*.dist-info/sboms/*.json")
    library = cuda_wheel.native / "tiny_cuda.dll"

    assert [each for each in values["libraries"] if each["file"] == "tiny_cuda.dll"] == [
        {
            "file": "tiny_cuda.dll", "device": "cuda", "sass": ["8.0", "9.0"], "ptx": ["9.0"], "module": None,
            "host_code": "",
            "sha256": file_sha256(library), "size": library.stat().st_size,
        }
    ]  # fmt: skip
    needs = values["requires"]
    assert (needs["cuda"], needs["driver"], needs["driver_for_ptx"]) == (None, "12.0", "12.0")
    assert re.fullmatch(r"clang \d+\.\d+\.\d+ with CUDA 12\.9\.\d+", values["built_with"]["nvcc"])
    assert library_at(library).needed[:2] == ["torch_cpu.dll", "torch_cuda.dll"]
    assert "platform tag: win_amd64\n" in cuda_wheel.output  # and so no library of CUDA
    made_of = {each["name"]: each for each in json.loads(sbom.read_text(encoding="utf-8"))["components"]}
    runtime = Path(CUDA_12, "windows/nvidia/cuda_runtime/lib/x64/cudart_static.lib")
    assert made_of["cuda-runtime"]["hashes"][0]["content"] == file_sha256(runtime)
    assert {"cccl", "clang", "cuda-crt", "libc++"} <= {*made_of}


@pytest.mark.minutes
@needs_zig
@needs_clang
def test_two_builds_with_cuda_kernels_in_two_folders_are_the_same_bytes(
    cuda_wheel: Wheel, checkout: Checkout, build_root: Path
) -> None:
    again = build_with_cuda(checkout(), build_root / "windows cuda again")

    assert again.file.read_bytes() == cuda_wheel.file.read_bytes()


def test_clang_compiles_with_the_headers_that_zig_compiles_with_and_its_own_for_cuda_before_those_of_c(
    tmp_path: Path,
) -> None:
    toolkit, calls = make_toolkit(tmp_path / "cuda", "12.9.86"), tmp_path / "calls"
    (toolkit / "targets/x64").mkdir(parents=True)
    for name in ("clang++", "ptxas", "fatbinary"):
        make_program(toolkit / "bin" / name, f"""echo "$@" >> "{calls}"; echo "'sm_90' release 12.9, V12.9.86" """)
    said = '"zig" "-cc1" "-isystem" "zig/libcxx/include" "-isystem" "zig/libcxxabi/include" "-isystem" "zig/include"'
    said += ' "-isystem" "zig/libc/include/any-windows-any" "-D" "_LIBCPP_HAS_THREADS=1" "-x" "c++" "/dev/null"'
    host = make_program(tmp_path / "zig", f'[ "$1 $2 $3" = "c++ -target x86_64-windows-gnu" ] && echo \'{said}\'')
    words = ["--target-directory", "x64", f"-ccbin={host}", "-gencode=arch=compute_90,code=[sm_90,compute_90]"]

    answer(str(toolkit / "bin/nvcc"), [*words, "-c", "twice.cu", "-o", "twice.o"])

    halves = [line.split() for line in calls.read_text(encoding="utf-8").splitlines() if "-only" in line]
    assert len(halves) == 2
    for half in halves:
        assert [word for word in half if "zig/" in word or "/windows" in word or word.startswith("-D_LIBCPP")] == [
            f"-I{toolkit}/targets/x64/include/windows", "-stdlib++-isystemzig/libcxx/include",
            "-stdlib++-isystemzig/libcxxabi/include", "-idirafterzig/libc/include/any-windows-any",
            "-D_LIBCPP_HAS_THREADS=1",
        ]  # fmt: skip
        assert {"--target=x86_64-windows-gnu", "-nostdlibinc"} <= {*half}


def test_the_toolkit_s_part_for_windows_is_what_pip_has(tmp_path: Path) -> None:
    toolkit = make_toolkit(tmp_path / "toolkit", "12.9.86", GPU_CODES["12.8"])
    make_program(toolkit / "bin/clang++", "exit 1")
    nvcc = inspect_beside("12.9", toolkit / "bin/nvcc", {"PATH": "/bin:/usr/bin"}).nvcc
    assert nvcc is not None
    packages = tmp_path / "packages"
    for name in (
        "cuda_runtime/include/cuda_runtime.h", "cuda_runtime/include/fatbinary_section.h",
        "cuda_nvcc/include/crt/host_config.h", "cuda_cccl/include/nv/target",
        "cuda_runtime/lib/x64/cudadevrt.lib", "cuda_runtime/lib/x64/cudart_static.lib",
    ):  # fmt: skip
        (packages / "nvidia" / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / "nvidia" / name).write_text(name, encoding="utf-8")
    clang, chosen = replace(nvcc, clang="19.1.7"), settings_with(target_packages=str(packages))

    found = for_target(clang, chosen, WINDOWS)
    (packages / "nvidia/cuda_runtime/lib/x64/cudart_static.lib").unlink()
    caught = error(lambda: for_target(clang, chosen, WINDOWS))

    assert found.cudart is not None
    assert found.cudart.name == "cudart_static.lib"
    assert caught.problem == "the CUDA toolkit has no part for windows-x86_64"
    assert caught.required.startswith("headers, cudart_static.lib and cudadevrt.lib for windows-x86_64")
    assert "no lib/cudart_static.lib" in caught.found
    assert "--platform win_amd64 'nvidia-cuda-runtime-cu12==12.9.*'" in caught.remedies[0]


# What decides the bytes


@pytest.fixture
def pefile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as installed."""
    monkeypatch.setattr(zig, "missing", lambda names: [])


@pytest.mark.usefixtures("pefile")
def test_the_plan_has_the_zig_and_all_that_it_has_for_windows_by_content(tmp_path: Path) -> None:
    path = make_zig(tmp_path / "ziglang")
    chosen = settings_with({"CXX": str(path)}, **FOR_WINDOWS)

    def identity() -> dict[str, str]:
        return find_zig(chosen).identity()

    before = identity()
    for name in ("libc/musl/a.c", "lldb/x.pyc"):
        (path.parent / "lib" / name).write_text("of another system", encoding="utf-8")
    assert identity() == before
    for name in ("libcxx/include/vector", "libc/mingw/crt.c", "libc/include/any-windows-any/io.h"):
        file = path.parent / "lib" / name
        text = file.read_text(encoding="utf-8")
        file.write_text("edited", encoding="utf-8")
        assert {key for key, value in identity().items() if value != before[key]} == {"linked_in"}
        file.write_text(text, encoding="utf-8")
    make_program(path, "echo 0.17.9 # patched")
    assert {key for key, value in identity().items() if value != before[key]} == {"compiler"}


@pytest.mark.usefixtures("pefile")
def test_what_zig_compiles_its_libraries_from_outlasts_the_environment_that_it_is_installed_in(tmp_path: Path) -> None:
    """It compiles them again, in minutes, for other files, by inode and time, whatever is in them."""
    cache = {"ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "cache")}

    def kept(path: Path) -> dict[str, tuple[int, int, str]]:
        folder = find_zig(settings_with({"CXX": str(path)}, **FOR_WINDOWS), **cache).kept_libraries()
        files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
        return {name: (file.stat().st_ino, file.stat().st_mtime_ns, file.read_text()) for name, file in files.items()}

    first = make_zig(tmp_path / "one")
    before = kept(first)
    shutil.rmtree(first.parent)
    second = make_zig(tmp_path / "another")

    assert kept(second) == before
    assert {*before} == {"libcxx/include/vector", "libc/mingw/crt.c", "libc/include/any-windows-any/io.h"}
    (damaged,) = tmp_path.glob("cache/kernelwheel-*/libc/mingw/crt.c")
    damaged.write_text("half", encoding="utf-8")
    assert kept(second)["libc/mingw/crt.c"][2] == "libc/mingw/crt.c"
    (second.parent / "lib/libcxx/include/vector").write_text("of another release", encoding="utf-8")
    assert kept(second)["libcxx/include/vector"][2] == "of another release"
    assert [path.name for path in tmp_path.glob("cache/*") if not path.name.startswith("kernelwheel-")] == []


def find_zig(chosen: BuildSettings, **environ: str) -> zig.Zig:
    assert isinstance(WINDOWS, WindowsBuild)
    return zig.find_zig(chosen, {"PATH": "/usr/bin:/bin", **environ}, WINDOWS)


def test_an_import_library_is_made_of_names_alone() -> None:
    assert definition("torch_cpu.dll", ["torch_a", "torch_b"]) == "LIBRARY torch_cpu.dll\nEXPORTS\ntorch_a\ntorch_b\n"


# What is refused


@pytest.fixture
def no_pefile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zig, "missing", lambda names: ["pefile"])


def test_another_release_of_zig_and_another_compiler_are_refused(tmp_path: Path) -> None:
    old = make_zig(tmp_path / "old", "0.13.0")

    for path in (old, Path("/usr/bin/c++")):
        chosen = settings_with({"CXX": str(path)}, **FOR_WINDOWS)
        caught = error(partial(find_zig, chosen))
        assert caught.problem == "no C++ compiler for windows-x86_64"
        assert f"{path}: " in caught.found
        assert "environment variable CXX" in caught.found
        assert caught.remedies == (INSTALL, "and unset environment variable CXX")


@pytest.mark.usefixtures("no_pefile")
def test_what_is_not_installed_is_named_with_the_command(tmp_path: Path) -> None:
    chosen = settings_with({"CXX": str(make_zig(tmp_path / "zig"))}, **FOR_WINDOWS)

    caught = error(lambda: find_zig(chosen))

    assert "pefile is not installed in" in caught.found
    assert caught.remedies[0] == "pip install 'ziglang>=0.17,<0.18' pefile"


def test_pip_is_asked_for_what_is_missing_in_a_build_for_windows_and_in_no_other(
    monkeypatch: pytest.MonkeyPatch, tiny_checkout: Path
) -> None:
    monkeypatch.chdir(tiny_checkout)
    monkeypatch.setattr(finding, "missing", lambda packages: [name for _, name in packages])

    found = hooks.get_requires_for_build_wheel(FOR_WINDOWS)
    native = hooks.get_requires_for_build_wheel({"cuda": "off"})

    assert found[-2:] == ["ziglang>=0.17,<0.18", "pefile"]
    assert not {*found[-2:]} & {*native}


@pytest.mark.skipif(not CLANG, reason="no clang++-19 or later on PATH; Debian: apt-get install clang-19")
def test_pip_is_asked_for_what_clang_compiles_with_too_if_there_are_to_be_cuda_kernels(
    monkeypatch: pytest.MonkeyPatch, tiny_checkout: Path
) -> None:
    monkeypatch.chdir(tiny_checkout)
    monkeypatch.setattr(cuda, "missing_parts", lambda folders: ["nvidia-cuda-nvcc-cu12"])
    monkeypatch.setattr(clang_toolkit, "missing_parts", lambda folders: ["nvidia-cuda-nvcc-cu12"])

    def asked(**chosen: str) -> bool:
        words = hooks.get_requires_for_build_wheel({**FOR_WINDOWS, "drivers": "12.0", **chosen})
        return "nvidia-cuda-nvcc-cu12" in words

    assert asked(cuda="on")
    assert not asked()


def test_modules_and_libraries_on_all_of_torch_are_refused_before_anything_is_looked_for() -> None:
    caught = error(lambda: find_toolchain(settings_with({}, **FOR_WINDOWS), {}, binds_torch=True))

    assert caught.problem == "what is compiled on all of torch cannot be built for windows-x86_64 here"
    assert caught.remedies == ("register operators on the stable ABI instead, which Python needs no module for",)


@needs_zig
def test_cuda_kernels_are_left_out_unless_they_are_required_and_then_by_clang() -> None:
    environ = {"PATH": "/usr/bin:/bin"}

    found = find_toolchain(settings_with({}, **FOR_WINDOWS), environ).cuda
    caught = error(lambda: find_toolchain(settings_with({}, **FOR_WINDOWS, cuda="on"), environ))

    assert (found.nvcc, found.reason) == (None, NOT_ON)
    assert caught.problem == "nvcc compiles no CUDA kernels for windows-x86_64 on Linux"
    assert "-C drivers=12.0 (" in caught.remedies[0]


def test_only_linux_on_x86_64_builds_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("kernelwheel.runtime.machine.platforms", "kernelwheel.compiler.cross.target_platform"):
        monkeypatch.setattr(f"{module}.platform_name", lambda: "linux-aarch64")

    caught = error(lambda: cross_platform(settings_with({}, **FOR_WINDOWS)))

    assert caught.problem == "kernels for windows-x86_64 cannot be built on linux-aarch64"
    assert caught.remedies == ("build it on a machine with linux-x86_64",)


def test_a_library_that_not_every_windows_has_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.dll").write_bytes(b"MZ")
    monkeypatch.setattr(PeFile, "needed", ["torch_cpu.dll", "KERNEL32.dll", "vcomp140.dll"])

    found = tags.platform_tag([tmp_path / "a.dll"], settings_with({}, **FOR_WINDOWS))

    assert found == tags.Tag("win_amd64", ("a.dll: vcomp140.dll, which not every Windows has",))


def head(machine: int = 0x8664, flags: int = 0x2022, magic: bytes = b"MZ") -> bytes:
    """The beginning of a PE file (Microsoft, "PE Format")."""
    start = struct.pack("<2s58xI", magic, 0x78) + bytes(0x38)
    return (start + b"PE\0\0" + struct.pack("<H16xH", machine, flags)).ljust(HEADER, b"\0")


def test_a_library_is_told_by_its_first_bytes_from_a_program_and_from_other_machines_files() -> None:
    assert WINDOWS.is_library(head())
    for other in (head(machine=0xAA64), head(flags=0x22), head(magic=b"ZM"), head()[:100], b"\x7fELF" + bytes(60)):
        assert not WINDOWS.is_library(other)
    assert not any(PLATFORMS[name].is_library(head()) for name in ("linux-x86_64", "linux-aarch64"))
