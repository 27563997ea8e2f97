"""The options of gcc, clang, nvcc and ld that are looked for in flags, by what follows them."""

from __future__ import annotations

from collections.abc import Iterable

# A folder of headers. Of two, of which one begins as the other, the longer one comes first here and below.
FOLDERS = (
    *("--include-directory-after", "--include-directory", "--include-path", "--system-include"),
    *("-idirafter", "-isystem", "-iquote", "-I"),
)
PLAIN = ("-I", "--include-directory", "--include-path")  # those of the most common kind
# A header that comes before each source.
HEADERS = ("--pre-include", "-include", "-imacros", "--include", "--imacros")
DEFINES = ("-D", "--define-macro")
# Words that are passed on, separated by commas; and of those, what passes on a single word.
LISTS = ("-Xcompiler", "--compiler-options", "-Xpreprocessor", "-Xlinker", "--linker-options", "-Xclang")
SINGLE = ("-Xpreprocessor", "-Xlinker", "-Xclang")
# nvcc's own name for the C++ compiler that it calls.
HOST_COMPILER = ("-ccbin", "--compiler-bindir", "-compiler-bindir")
# A file of further options, of nvcc; for every tool, it is @FILE.
OPTION_FILES = ("-optf", "--options-file")
# A file that ld reads; and anything else that is no file to link.
READ_BY_LINKER = ("--version-script", "--dynamic-list", "--retain-symbols-file", "--just-symbols", "--script")
OTHERS_OF_LINKER = ("-o", "-Map", "-rpath-link", "-rpath", "-soname", "-h", "-u", "-z", "-e", "-m")
# What asks nvcc for device code that is linked from several files: an option of a Plan, not a flag.
_RELOCATABLE = ("-rdc", "--rdc", "-relocatable-device-code", "--relocatable-device-code")
_COMPILE_ONLY = ("-dc", "--dc", "-device-c", "--device-c")


def without_device_linking(flags: Iterable[str]) -> tuple[list[str], list[str]]:
    """The other flags, and those that ask for it (nvcc manual, `--relocatable-device-code`)."""
    rest: list[str] = []
    asked: list[str] = []
    following = iter(flags)
    for flag in following:
        option, _, value = flag.partition("=")
        if option not in _RELOCATABLE + _COMPILE_ONLY:
            rest.append(flag)
        elif option in _COMPILE_ONLY or (value or next(following, "")) in ("true", "1"):
            asked.append(flag)
    return rest, asked
