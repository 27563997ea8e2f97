"""The platforms that kernels are built for: what differs between them, with one class per system."""

from __future__ import annotations

import ctypes
import struct

from ..runtime.machine.platforms import Linux

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
HEADER = 1024  # bytes at the beginning of a library that say what it is for
MZ = b"MZ"  # what a library for Windows begins with (Microsoft, "PE Format")


class LinuxBuild(Linux):
    """Linux with glibc on one kind of CPU.

    What is said of libraries and links holds for the platform that they are for.
    """

    suffix = ".so"  # of shared libraries
    libc = "libc.so.6"
    has_glibc = True  # whose versions libraries are linked for, and a wheel's tag names
    # What torch, the driver and the system provide: a pattern of names of libraries.
    external_libs = r"lib(torch|c10)\w*\.so|libcuda\.so\.1|ld-linux.*"

    cudart_libraries = ("rt", "pthread", "dl")  # what the static CUDA runtime needs

    cmake_system = "Linux"  # CMAKE_SYSTEM_NAME, cmake-variables(7)
    headers = ("/usr/include", "/usr/local/include")  # the folders in which every compiler looks for them
    toolkits = "/usr/local"  # the folder with the usual ones of CUDA toolkits

    def __init__(self, machine: str, elf: tuple[int, int, int], cuda_target: str, *, has_tegra: bool = False) -> None:
        self.machine = machine  # the CPU as in the names of platforms and of wheel tags: `x86_64`
        self.elf = elf  # what its ELF headers say: class (2: 64 bits), byte order (1: little), machine number
        self.cuda_target = cuda_target  # nvcc's name of the part of a toolkit for it, a folder in `targets`
        self.has_tegra = has_tegra  # whether there are Tegra chips with it, whose GPUs run no other GPU's code

    @property
    def name(self) -> str:
        """The name in Plans, manifests and settings: `linux-x86_64`."""
        return f"linux-{self.machine}"

    @property
    def builder(self) -> str:
        """The platform that it is built on."""
        return self.name

    @property
    def triple(self) -> str:
        """What compilers call it, and the prefix of the names of cross compilers: `x86_64-linux-gnu`."""
        return f"{self.machine}-linux-gnu"

    @property
    def tag(self) -> str:
        """The tag of a wheel that promises nothing about its glibc: `linux_x86_64`."""
        return f"linux_{self.machine}"

    def is_target_of(self, compiler: str) -> bool:
        """Whether a compiler's target, such as `aarch64-linux-gnu` or `aarch64-redhat-linux`, is this platform."""
        machine, *rest = compiler.split("-")
        return machine == self.machine and "linux" in rest

    def is_library(self, head: bytes) -> bool:
        """Whether a file with these first HEADER bytes is a shared library for it (System V ABI, "ELF Header")."""
        if len(head) < 64 or head[:4] != b"\x7fELF":
            return False
        bits, order, number = self.elf
        kind, found = struct.unpack_from("<HH" if order == 1 else ">HH", head, 16)
        return (head[4], head[5], kind, found) == (bits, order, 3, number)  # 3: ET_DYN

    @staticmethod
    def shared(stem: str) -> str:
        """The file of a shared library: `libtorch_cpu.so` of `torch_cpu`."""
        return f"lib{stem}.so"

    @staticmethod
    def static(stem: str) -> str:
        """The file of a static library: `libcudart_static.a` of `cudart_static`."""
        return f"lib{stem}.a"

    @staticmethod
    def stem(file: str) -> str:
        """What a library is linked to as: `cublas` of `libcublas.so.13`. A stem stays as it is."""
        return file.removeprefix("lib").partition(".")[0]

    @staticmethod
    def linkable(stem: str) -> tuple[str, ...]:
        """Patterns of the files that can be linked to as `stem`, the best first."""
        return f"lib{stem}.so", f"lib{stem}.so.*", f"lib{stem}.a"

    @staticmethod
    def signal_without_parent(number: int) -> None:
        """Have the kernel send this process a signal when its parent ends; not if it has ended already (prctl(2))."""
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


class WindowsBuild:
    """Windows on x86-64. It is a target alone: all is compiled on Linux, by zig (cross/windows)."""

    name = "windows-x86_64"
    machine = "x86_64"
    builder = "linux-x86_64"
    triple = "x86_64-windows-gnu"
    tag = "win_amd64"
    suffix = ".dll"
    has_glibc = False
    cudart_libraries = ()
    cmake_system = "Windows"
    cuda_target = "x64"
    has_tegra = False

    @staticmethod
    def is_library(head: bytes) -> bool:
        """Whether a file with these first HEADER bytes is a shared library for it (Microsoft, "PE Format")."""
        if len(head) < 64 or head[:2] != MZ:
            return False
        start = int.from_bytes(head[60:64], "little")
        if head[start : start + 4] != b"PE\0\0" or len(head) < start + 24:
            return False
        machine, flags = struct.unpack_from("<H16xH", head, start + 4)
        return machine == 0x8664 and bool(flags & 0x2000)  # AMD64; IMAGE_FILE_DLL

    @staticmethod
    def shared(stem: str) -> str:
        """The file of a shared library: `torch_cpu.dll` of `torch_cpu`."""
        return f"{stem}.dll"

    @staticmethod
    def static(stem: str) -> str:
        """The file of a static library: `cudart_static.lib` of `cudart_static`."""
        return f"{stem}.lib"


# A port adds its class, to these three.
Platform = LinuxBuild | WindowsBuild
PLATFORMS: dict[str, Platform] = {
    each.name: each
    for each in (
        LinuxBuild("x86_64", (2, 1, 62), "x86_64-linux"),
        LinuxBuild("aarch64", (2, 1, 183), "sbsa-linux", has_tegra=True),
        WindowsBuild(),
    )
}
HOST_PLATFORM: type[LinuxBuild] = LinuxBuild
# The builds for another platform that there are: on the first, for the second.
CROSS_BUILDS = (("linux-x86_64", "linux-aarch64"), ("linux-x86_64", "windows-x86_64"))
