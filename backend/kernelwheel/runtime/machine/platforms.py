"""What the loader asks of the system that it runs on, with one class per system.

docs/design.md says what a port needs besides a class here. What builds are for is in project/build_platforms.py.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from bisect import bisect_left
from functools import cache
from pathlib import Path

from ..errors import BuildError

if sys.platform == "linux":  # on other systems, this module says that builds are refused
    import fcntl

# Errors that are not a library's fault: no memory, no descriptors, a failing disk, no permission to run code there.
_LACKS = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM)
_given: set[str] = set()  # the paths under which the dynamic loader knows libraries of this process


class Linux:
    """Linux with glibc, that this process runs on."""

    cuda_driver = "libcuda.so.1"
    nvml_library = "libnvidia-ml.so.1"
    no_path = "mount /proc"  # the remedy where an open file has no path
    # errno values from a file system without working locks (some network file systems).
    no_locks = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})

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
    def open_file(path: Path) -> int:
        """The descriptor of a file, for reading; if it is a pipe, it is not waited for."""
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    @staticmethod
    def try_lock(descriptor: int) -> bool:
        """Lock an open file, unless another process has it locked: then False.

        The lock ends with the last descriptor of that open file, in whichever process (flock(2)).
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @staticmethod
    def path_to_load(descriptor: int) -> tuple[int, str]:
        """A path to an open file itself, which the dynamic loader was never given, after the descriptor it leads by.

        It leads there for as long as that is open, and names the process: debuggers open what the loader was given. The
        descriptor takes the place of this one, whose number may be in use again although its library is still loaded:
        a program can close what is not its own.
        """
        folder, opened = f"/proc/{Path('/proc/self').readlink()}/fd", [descriptor]
        try:
            while (path := f"{folder}/{opened[-1]}") in _given:
                opened.append(os.dup(opened[-1]))
            _given.add(path)
            return opened.pop(), path
        finally:
            for each in opened:
                os.close(each)

    @staticmethod
    def lacks_resources(error: Exception) -> bool:
        """Whether a library was refused for want of what may be there later; the loader has only text for it."""
        said = str(error)
        return "failed to map segment" in said or said.endswith(tuple(map(os.strerror, _LACKS)))


def contents_of(path: str) -> bytes:
    """What a file of the kernel's says; nothing if /proc is not mounted."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


if sys.platform == "win32":
    from .windows import Windows as HOST_PLATFORM
else:
    HOST_PLATFORM = Linux  # also where no build is possible, which has neither version that a Host asks for
SUPPORTED = ("linux-x86_64", "linux-aarch64")  # where kernels are compiled, and kept in stores


def platform_name() -> str:
    """This machine's platform: `linux-x86_64`; on Windows, that of this Python, as libraries must be like it."""
    if sys.platform == "win32":
        import sysconfig

        return "windows-" + sysconfig.get_platform().removeprefix("win-").replace("amd64", "x86_64")
    return f"{sys.platform}-{platform.machine()}"


def can_compile() -> bool:
    """Whether kernels can be compiled on this machine, and kept in stores."""
    return platform_name() in SUPPORTED


def require_supported() -> None:
    """Refuse to build anything on this machine, or to keep it."""
    name = platform_name()
    if not can_compile():
        here = "use Linux, for example in WSL" if name.startswith("windows-") else "build on one of them"
        raise BuildError(
            f"kernels cannot be built on {name}, nor kept in a cache",
            required=f"one of {', '.join(SUPPORTED)}",
            found=name,
            remedies=[f"install a wheel that was built for {name}", f"or {here}"],
        )


@cache
def cpu_features() -> frozenset[str]:
    """What this machine's CPU can do, by Linux's names; nothing where it is not Linux, or /proc is not mounted."""
    for line in contents_of("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(b":")
        if name.strip() in (b"flags", b"Features"):  # of the first core: of x86, and of Arm
            return frozenset(value.decode("ascii", "replace").split())
    return frozenset()


def library_file(extension: str, platform: str) -> str:
    """The file of an extension's library: `pkg._C.so`."""
    return extension + (".dll" if platform.startswith("windows-") else ".so")


def numbers(version: str) -> tuple[int, ...]:
    """The numbers in `glibc 2.34`, `GLIBCXX_3.4.30` or `cuda-13.0`, for comparison; none for an empty string."""
    # Not by a regular expression: to compile one takes longer than the check.
    return tuple(map(int, "".join(each if each.isdecimal() else " " for each in version).split()))
