"""The platforms that kernels are built for and run on: what differs between them, with one class per system.

docs/design.md says what a port to another system needs besides a class here.
"""

# A plain class: every import of a package comes here, and a dataclass takes longer to define than all of this module.

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
import sys
from bisect import bisect_left
from functools import cache
from pathlib import Path

from .errors import BuildError

if sys.platform == "linux":  # on other systems, this module says that builds are refused
    import fcntl

_AT_SECURE = 23  # elf.h
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
HEADER = 64  # bytes at the beginning of a library that say what it is for


class Linux:
    """Linux with glibc on one kind of CPU.

    What is said of libraries and links holds for the platform that they are for. The functions at the end ask the
    system that this process runs on, so only HERE has them called.

    Attributes:
        machine: the CPU as in the names of platforms and of wheel tags: `x86_64`.
        elf: what its ELF headers say: class (2: 64 bits), byte order (1: little), machine number.
        cuda_target: nvcc's name of the part of a toolkit for it, a folder in `targets`.
        has_tegra: whether there are Tegra chips with it, whose GPUs run no other GPU's code.
    """

    suffix = ".so"  # of the libraries of extensions, which Python imports by it
    libc = "libc.so.6"
    cuda_driver = "libcuda.so.1"
    nvml_library = "libnvidia-ml.so.1"
    # What torch, the driver and the system bring by themselves: a pattern of names of libraries.
    brought = r"lib(torch|c10)\w*\.so|libcuda\.so\.1|ld-linux.*"

    # For the linker, as CMake writes it. torch loads its libraries with local scope, so each one that ours use must be
    # named in them (DT_NEEDED), whether or not the linker sees a use. No symbols for debuggers.
    link_options = ("LINKER:--no-as-needed", "LINKER:-s")
    link_complete = ("LINKER:--no-undefined",)  # an undefined symbol is an error
    cudart_libraries = ("rt", "pthread", "dl")  # what the static CUDA runtime needs

    cmake_system = "Linux"  # CMAKE_SYSTEM_NAME, cmake-variables(7)
    headers = ("/usr/include", "/usr/local/include")  # the folders in which every compiler looks for them
    toolkits = "/usr/local"  # the folder with the usual ones of CUDA toolkits
    # errno values from a file system without working locks (some network file systems).
    no_locks = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})

    def __init__(self, machine: str, elf: tuple[int, int, int], cuda_target: str, *, has_tegra: bool = False) -> None:
        self.machine = machine
        self.elf = elf
        self.cuda_target = cuda_target
        self.has_tegra = has_tegra

    @property
    def name(self) -> str:
        """The name in Plans, manifests and settings: `linux-x86_64`."""
        return f"linux-{self.machine}"

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
        if len(head) < HEADER or head[:4] != b"\x7fELF":
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

    # The system that this process runs on

    @staticmethod
    def libc_version() -> str:
        """`glibc 2.36`; empty if it does not identify itself."""
        try:
            return os.confstr("CS_GNU_LIBC_VERSION") or ""
        except (ValueError, OSError):
            return ""

    @staticmethod
    def newest_libstdcxx() -> str:
        """The newest GLIBCXX version of the C++ library loaded in this process, without opening a file.

        Our kernels will be linked to that one, and the file on disk may have been replaced since. GNU ld defines a
        symbol named after each version; its value may be 0.
        """
        if sys.platform != "linux":
            return ""
        try:
            library = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:  # it is not loaded
            return ""
        dlsym, dlerror = ctypes.pythonapi["dlsym"], ctypes.pythonapi["dlerror"]
        dlsym.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        dlsym.restype = dlerror.restype = ctypes.c_void_p

        def lacks(release: int) -> bool:
            dlerror()  # dlopen(3): clears any earlier error
            dlsym(library._handle, b"GLIBCXX_3.4.%d" % release)
            return bool(dlerror())

        newest = bisect_left(range(1, 100), True, key=lacks)  # a library has all versions before its newest
        return f"GLIBCXX_3.4.{newest}" if newest else ""

    @staticmethod
    def try_lock(descriptor: int) -> bool:
        """Lock an open file, unless another process has it locked: then False.

        The lock ends with the last descriptor of that open file, in whichever process (flock(2)).

        Raises:
            OSError: the file cannot be locked; one of `no_locks` if its file system has no locks.
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @staticmethod
    def stopped_holder(path: Path) -> int | None:
        """A process of this user's that has a file open and was stopped, as by Ctrl-Z or a debugger (proc(5): T)."""
        for process in Path("/proc").glob("[1-9]*"):
            try:
                state = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
                if state in "Tt" and any(each.samefile(path) for each in (process / "fd").iterdir()):
                    return int(process.name)
            except (OSError, IndexError):  # it has ended, or is another user's
                continue
        return None

    @staticmethod
    def signal_without_parent(number: int) -> None:
        """Have the kernel send this process a signal when its parent ends; not if it has ended already (prctl(2))."""
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)

    @staticmethod
    def path_of(descriptor: int) -> str:
        """A path to an open file itself, wherever it was moved, for as long as the descriptor is open.

        It names the process, so that it leads others to the same file: debuggers open what the loader was given.

        Raises:
            OSError: the system tells no such path (/proc is not mounted).
        """
        return f"/proc/{Path('/proc/self').readlink()}/fd/{descriptor}"

    @staticmethod
    def user() -> int:
        """The number of the user whose privileges this process has."""
        return os.geteuid()

    @staticmethod
    def starter() -> int:
        """The number of the user who started it."""
        return os.getuid()

    @staticmethod
    def has_other_privileges() -> bool:
        """Whether it has other privileges than whoever started it, or had them when it started and may take them back.

        Those of a setuid program that has put them aside are in its saved ids. What came with the program's file, such
        as capabilities, the kernel says by AT_SECURE, getauxval(3).
        """
        differ = len({*os.getresuid()}) > 1 or len({*os.getresgid()}) > 1
        return differ or _auxiliary(_AT_SECURE) != 0

    @staticmethod
    def stands_for_many(number: int, kind: str = "uid") -> bool:
        """Whether a number stands for all users, or groups, that have none here: user_namespaces(7), "Unmapped"."""
        return number == _overflow(kind) and _contents(f"/proc/self/{kind}_map").split() != [b"0", b"0", b"4294967295"]

    @staticmethod
    def number_of(user: str) -> int | None:
        """The number of a user; None if there is no such user."""
        import pwd

        try:
            return pwd.getpwnam(user).pw_uid
        except KeyError:
            return None

    @staticmethod
    def others_may_write(info: os.stat_result) -> bool:
        """Whether a file's mode lets anybody but its owner write."""
        return bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))

    @staticmethod
    def everyone_may_write(info: os.stat_result) -> bool:
        """Whether its mode lets everybody write."""
        return bool(info.st_mode & stat.S_IWOTH)

    @staticmethod
    def protects_entries(info: os.stat_result) -> bool:
        """Whether those who may write to a folder can rename and remove only what is theirs, as in /tmp."""
        return bool(info.st_mode & stat.S_ISVTX)

    @staticmethod
    def group_writers(descriptor: int, info: os.stat_result) -> set[int] | None:
        """The users who may write to an open folder because of its group, by number; None if that cannot be told.

        A directory service need not list its users (SSSD with `enumerate = false`), nor the members of its groups. It
        is taken to list them if it lists this user and the folder's owner, as users and as members.
        """
        import grp
        import pwd

        if Linux.stands_for_many(info.st_gid, "gid"):
            return None
        try:
            if "system.posix_acl_access" in os.listxattr(f"/proc/self/fd/{descriptor}"):
                return None  # with an ACL, the group bits are the mask for everyone in its entries, acl(5)
            named = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(info.st_gid).gr_mem}
        except (KeyError, OSError):
            return None
        users = pwd.getpwall()
        members = named | {user.pw_uid for user in users if user.pw_gid == info.st_gid}
        listed = members & {user.pw_uid for user in users}
        return members if {info.st_uid, os.geteuid()} <= listed else None


@cache
def _overflow(kind: str) -> int:
    """The number of users, or groups, that have none in this namespace; the usual one if unsaid."""
    return int(_contents(f"/proc/sys/kernel/overflow{kind}") or 65534)


def _contents(path: str) -> bytes:
    """What a file of the kernel's says; nothing if /proc is not mounted."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _auxiliary(number: int) -> int:
    """A value that the kernel gave this program when it started; 0 if it gave none."""
    getauxval = ctypes.pythonapi["getauxval"]
    getauxval.argtypes, getauxval.restype = (ctypes.c_ulong,), ctypes.c_ulong
    return int(getauxval(number))


# A port adds its class, to these three.
Platform = Linux
PLATFORMS: dict[str, Platform] = {
    each.name: each
    for each in (
        Linux("x86_64", (2, 1, 62), "x86_64-linux"),
        Linux("aarch64", (2, 1, 183), "sbsa-linux", has_tegra=True),
    )
}
HERE: type[Platform] = Linux  # also where no build is possible, which has neither version that a Host asks for
# The builds for another platform that there are: on the first, for the second. Both are of one system, so the names of
# libraries that HERE gives are the target's too.
CROSS_BUILDS = (("linux-x86_64", "linux-aarch64"),)


def platform_name() -> str:
    """This machine's platform: `linux-x86_64`."""
    return f"{sys.platform}-{platform.machine()}"


def require_supported() -> Platform:
    """This machine's platform.

    Raises:
        BuildError: kernels cannot be built on it.
    """
    here = PLATFORMS.get(platform_name())
    if here is None:
        raise BuildError(
            f"kernels cannot be built on {platform_name()}",
            required=f"one of {', '.join(PLATFORMS)}",
            found=platform_name(),
            remedies=["build on one of them; docs/design.md of kernelwheel says what a port needs"],
        )
    return here


def library_file(platform: str, extension: str) -> str:
    """The file of an extension's library: `pkg._C.so`. On a platform that is not known, it is assumed to be as here."""
    return extension + PLATFORMS.get(platform, HERE).suffix


def is_library_for(platform: str, head: bytes) -> bool:
    """Whether a file with these first HEADER bytes is a shared library for a platform such as `linux-x86_64`."""
    return platform in PLATFORMS and PLATFORMS[platform].is_library(head)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers in `glibc 2.34`, `GLIBCXX_3.4.30` or `cuda-13.0`, for comparison; none for an empty string."""
    # Not by a regular expression: to compile one takes longer than the check.
    return tuple(map(int, "".join(each if each.isdecimal() else " " for each in version).split()))
