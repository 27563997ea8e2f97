"""Device code alone: what a wheel has for other GPUs is compiled for this one, and its host code stays as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from builds import TORCH, Wheel, build, needs_cuda_torch
from editables import build_compiler, for_each_device, make_editable, make_user, one_gpu
from elftools.elf.elffile import ELFFile
from kernelwheel.cli.manifest_text import manifest_text
from kernelwheel.compiler.device_code import OtherHostCode, exchange, split
from kernelwheel.compiler.taken_libraries import find_taken
from kernelwheel.compiler.toolchain.cuda import decide_cuda
from kernelwheel.compiler.toolchain.launchers import Launchers
from kernelwheel.compiler.toolchain.nvcc import NvccSearch
from kernelwheel.runtime.artifact.manifest import Library
from kernelwheel.runtime.machine.platforms import platform_name
from processes import run
from samples import CPU_LIBRARY, CUDA_LIBRARY, sample
from standins import settings_with, toolchain_of_files

CALL = f'{one_gpu(7, 5)}tiny.KERNELS.require("cuda", 0)\n'
# What the process has where the host code says that its device code is.
REGISTERED = """
import ctypes, struct, sys
from elftools.elf.elffile import ELFFile
with open(sys.argv[1] if sys.argv[1:] else tiny.KERNELS.info()["loaded"]["cuda"] + "/libtiny_cuda.so", "rb") as stream:
    elf = ELFFile(stream)
    wrappers, code = (elf.get_section_by_name(name) for name in (".nvFatBinSegment", ".nv_fatbin"))
    wanted, path = code.data(), stream.name
base = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if line.rstrip().endswith(path))
(address,) = struct.unpack("<Q", ctypes.string_at(base + wrappers["sh_addr"] + 8, 8))
assert ctypes.string_at(address, len(wanted)) == wanted
print("registered")
"""


def machine_code(library: Path, cuobjdump: str, arch: str) -> dict[str, bytes]:
    """The machine code of each kernel in a library, for one architecture: `sm_90`."""
    folder = library.parent / f"{library.stem}-{arch}"
    folder.mkdir()
    subprocess.run([cuobjdump, "--extract-elf", "all", library], cwd=folder, check=True, capture_output=True)
    found = {}
    for file in folder.glob(f"*{arch}.cubin"):
        with file.open("rb") as stream:
            found |= {each.name: each.data() for each in ELFFile(stream).iter_sections() if ".text." in each.name}
    return found


# Kernels in two files without a header of torch's, as those bring Thrust, and what launches them.
SOURCES = {
    "CMakeLists.txt": for_each_device("one.cu", "two.cu", "call.cpp"),
    "one.cpp": 'extern "C" int tiny_one() { return 1; }\n',
    "one.cu": "__global__ void one(float* x) { *x = 1; }\nvoid launch_one(float* x) { one<<<1, 1>>>(x); }\n",
    "two.cu": "__global__ void two(float* x) { *x = 2; }\nvoid launch_two(float* x) { two<<<1, 1>>>(x); }\n",
    "call.cpp": "void launch_one(float*);\nvoid launch_two(float*);\n"
    'extern "C" void tiny_call(float* x) { launch_one(x); launch_two(x); }\n',
}


def wheel_of(folder: Path, changed: Mapping[str, str]) -> Wheel:
    """A wheel of these sources for one GPU."""
    checkout = make_editable(folder, SOURCES | changed).checkout
    return build(checkout, folder / "wheel", env={"TORCH_CUDA_ARCH_LIST": "9.0"})


@pytest.mark.slow
@needs_cuda_torch
def test_for_another_gpu_a_wheel_s_host_code_is_taken(build_root: Path, tmp_path: Path, cuobjdump: str) -> None:
    wheel = wheel_of(build_root / "for-9.0", {})
    user = make_user(wheel.unpacked, tmp_path / "user")
    done = user.python(CALL + REGISTERED, TORCH_CUDA_ARCH_LIST="7.5;9.0")

    assert "registered" in done.stdout
    assert "with host code of libtiny_cuda.so, libtiny_cpu.so of the wheel" in done.stderr
    assert "CUDA two.cu" in done.stderr
    assert "CXX call.cpp" not in done.stderr

    (entry,) = user.store.entries()
    (library,) = entry.manifest.libraries_for("cuda")
    assert (library.sass, library.ptx) == (("7.5", "9.0"), ())
    assert "host code of libtiny_cuda.so" in manifest_text(entry.manifest)
    own, made = wheel.native / library.file, entry.folder / library.file
    assert machine_code(made, cuobjdump, "sm_90") == machine_code(own, cuobjdump, "sm_90")
    assert {*machine_code(made, cuobjdump, "sm_75")} == {".text._Z3onePf", ".text._Z3twoPf"}
    # Of the file as it was, only where things are: the table of segments, the section and what registers both.
    changed = sum(one != other for one, other in zip(own.read_bytes(), made.read_bytes(), strict=False))
    assert 0 < changed <= 10 + 24 + 2 * 8


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
@pytest.mark.parametrize(
    ("file", "more", "reason"),
    [
        ("one.cu", "constexpr int architectures[] = {__CUDA_ARCH_LIST__};", None),  # so that it is not even tried
        (
            "CMakeLists.txt",
            'string(MD5 all "${KERNELWHEEL_GENCODE}")\ntarget_compile_definitions(tiny_cuda PRIVATE ALL=${all})',
            "its sources were compiled with other macros",
        ),
        (
            "CMakeLists.txt",
            'if(KERNELWHEEL_GENCODE MATCHES 75)\nset_target_properties(tiny_cuda PROPERTIES SOURCES "two.cu;one.cu")\n'
            "endif()",
            "its kernels have other names",
        ),
    ],
    ids=["CUDA's macro", "other macros", "another order"],
)
def test_where_sources_know_the_architectures_host_code_is_compiled_too(
    file: str, more: str, reason: str | None, build_root: Path, tmp_path: Path
) -> None:
    wheel = wheel_of(build_root / tmp_path.name, {file: f"{SOURCES[file]}{more}\n"})
    user = make_user(wheel.unpacked, tmp_path / "user")
    said = user.python(CALL + REGISTERED).stderr

    assert re.findall(r"compiling host code too: .* \((.*)\)", said) == ([reason] if reason else [])
    (entry,) = user.store.entries()
    assert {*entry.manifest.plan["tools"]["taken"]} == {"libtiny_cpu.so"}


# What is taken


def taken(
    folder: Path, *libraries: Library, nvcc: str = "13.3.1", clang: str = "", launcher: str = "", **planned: object
) -> set[str]:
    """The libraries whose host code is taken, of a wheel for the driver of CUDA 13 that has what is wanted."""
    tools = toolchain_of_files(folder, nvcc=nvcc, clang=clang)
    tools = replace(tools, launchers=Launchers(cuda=(launcher,) if launcher else ()))
    manifest = sample(CPU_LIBRARY, *libraries, platform=platform_name(), **planned)
    return {*find_taken(manifest, manifest.content, tools).host_code}


def test_whose_host_code_is_taken(tmp_path: Path) -> None:
    assert taken(tmp_path, CUDA_LIBRARY) == {"libtiny_cuda.so"}
    assert taken(tmp_path, CUDA_LIBRARY, nvcc="12.9.1") == set(), "another CUDA runtime than the one that is linked in"
    assert taken(tmp_path, CUDA_LIBRARY, clang="19.1.7") == set(), "fatbinaries of another compiler"
    assert taken(tmp_path, CUDA_LIBRARY, launcher="ccache") == set(), "a cache has whole objects"
    assert taken(tmp_path, CUDA_LIBRARY._replace(host_code="")) == set(), "its sources know the architectures"
    assert taken(tmp_path, CUDA_LIBRARY._replace(sass=())) == set(), "PTX does not say which kernels it has"
    assert taken(tmp_path, CUDA_LIBRARY, binding={"python": None, "torch": "2.11.0"}) == set(), "bound to one torch"
    assert taken(tmp_path) == set(), "no kernels"


def test_libraries_for_the_cpu_are_taken_whole_if_they_are_wanted(tmp_path: Path) -> None:
    manifest, tools = sample(CPU_LIBRARY, CUDA_LIBRARY, platform=platform_name()), toolchain_of_files(tmp_path)

    def taken_whole(wanted: bool) -> set[str]:
        return {*find_taken(manifest, manifest.content, tools, cpu_kernels=wanted).whole}

    assert (taken_whole(True), taken_whole(False)) == ({"libtiny_cpu.so"}, set())


# Libraries: `exchange`


KERNEL = "__global__ void kernel(float* x) {{ *x = {value}; }}\nvoid launch(float* x) {{ kernel<<<1, 1>>>(x); }}\n"


def compiled(folder: Path, *options: str, to: str) -> Path:
    """What nvcc makes of the source; a library is linked as CMake does it."""
    nvcc = decide_cuda(NvccSearch(settings_with(), TORCH, {})).nvcc
    assert nvcc is not None
    assert nvcc.cudart is not None
    made = [nvcc.path, "-ccbin", build_compiler(), "-Xcompiler=-fPIC", f"-L{nvcc.cudart.parent}"]
    if not to.endswith(".so"):
        run([*made, *options, "one.cu", "-o", to], cwd=folder)
        return folder / to
    run([*made, "-c", "-arch=sm_80", "one.cu", "-o", f"{to}.o"], cwd=folder)
    run([build_compiler(), "-shared", f"{to}.o", nvcc.cudart, *options, "-o", to], cwd=folder)
    return folder / to


@pytest.mark.slow
@needs_cuda_torch
def test_a_library_gets_other_device_code(tmp_path: Path) -> None:
    (tmp_path / "one.cu").write_text(KERNEL.format(value=1))
    made = split(compiled(tmp_path, "-arch=sm_90", "-fatbin", to="one.fatbin").read_bytes())
    # Relocations that say no addresses: those are in place, as linkers of newer systems have it by default.
    library = compiled(tmp_path, "-Wl,-z,pack-relative-relocs", to="one.so")
    (tmp_path / "other.so").write_bytes(exchange(library.read_bytes(), made))
    load = f"import ctypes, sys; ctypes.CDLL(sys.argv[1])\n{REGISTERED}"

    assert run([sys.executable, "-c", load, tmp_path / "other.so"], cwd=tmp_path).stdout == "registered\n"
    with pytest.raises(OtherHostCode, match="it has the device code of 1 sources, not of 2"):
        exchange(library.read_bytes(), made * 2)
    linked = compiled(tmp_path, "-arch=sm_80", "-c", "-rdc=true", to="linked.o").read_bytes()
    with pytest.raises(OtherHostCode, match="linked, or none"):
        exchange(linked, made)
    with pytest.raises(OtherHostCode, match="linked, or none"):
        exchange(Path(sys.executable).resolve().read_bytes(), made)
    for other in (made[0][:-1], made[0] + b"\x7fELF", library.read_bytes()):  # as where CMakeLists.txt links more
        with pytest.raises(OtherHostCode, match="more than device code"):
            split(other)
