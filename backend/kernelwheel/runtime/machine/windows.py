"""Windows, for the loader: opening what nobody can exchange while it is open. Its wheels are built on Linux.

Nothing is compiled at run time there, so there are no stores: what they ask of a system, this class does not say.
"""

from __future__ import annotations

import ctypes
import msvcrt
import os
import sys
from ctypes import wintypes
from pathlib import Path

assert sys.platform == "win32"  # for type checkers, too: they check this file by itself

_GENERIC_READ, _FILE_SHARE_READ, _OPEN_EXISTING = 0x80000000, 1, 3  # winnt.h, fileapi.h
_NO_HANDLE = wintypes.HANDLE(-1).value
_LONGEST_PATH = 32768  # characters
# Errors that are not the library's fault (winerror.h): no access, no memory, a policy, too small a paging file.
_LACKS = (5, 8, 14, 1260, 1455, 4551)

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_create_file, _final_path = _kernel32.CreateFileW, _kernel32.GetFinalPathNameByHandleW
_create_file.restype, _create_file.argtypes = wintypes.HANDLE, (
    wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, wintypes.LPVOID, wintypes.DWORD, wintypes.DWORD, wintypes.HANDLE,
)  # fmt: skip
_final_path.argtypes = (wintypes.HANDLE, wintypes.LPWSTR, wintypes.DWORD, wintypes.DWORD)


class Windows:
    """Windows, as far as loading asks."""

    cuda_driver = "nvcuda.dll"
    nvml_library = "nvml.dll"
    no_path = "install the package on another drive"  # the remedy where an open file has no path

    @staticmethod
    def libc_version() -> str:
        """None that a library could need: what it is linked to has been a part of Windows since Windows 10."""
        return ""

    @staticmethod
    def newest_libstdcxx() -> str:
        """None: libraries bring their own."""
        return ""

    @staticmethod
    def open_file(path: Path) -> int:
        """The descriptor of a file, for reading, that nobody can write to, rename or remove while it is open."""
        handle = _create_file(str(path), _GENERIC_READ, _FILE_SHARE_READ, None, _OPEN_EXISTING, 0, None)
        if handle == _NO_HANDLE:
            code = ctypes.get_last_error()
            raise OSError(0, ctypes.FormatError(code).strip(), str(path), code)
        return msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)

    @staticmethod
    def path_to_load(descriptor: int) -> tuple[int, str]:
        """The file's own path, without links: as long as it is open, no folder on the way can be renamed either."""
        text = ctypes.create_unicode_buffer(_LONGEST_PATH)
        if not _final_path(msvcrt.get_osfhandle(descriptor), text, _LONGEST_PATH, 0):
            os.close(descriptor)
            raise ctypes.WinError(ctypes.get_last_error())
        path = text.value
        return descriptor, path.removeprefix("\\\\?\\") if path[5:6] == ":" else path

    @staticmethod
    def lacks_resources(error: Exception) -> bool:
        """Whether a library was refused for want of something that may be there later."""
        return isinstance(error, OSError) and error.winerror in _LACKS
