"""Every option there is, in one typed registry.

An option's environment variable is either a standard one (`TORCH_CUDA_ARCH_LIST`, `CXX`, `MAX_JOBS`) or the
package's own, made from its name: `SPLAT_CUDA` for the option `cuda` of the package `splat`. `reference` writes the
page of all of them, docs/settings.md.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .variables import own_variable

# What an option decides.
# binary: two values can give two binaries. It is in the Plan, and its value and origin are in the manifest.
# tools: where the compilers are. What they are is in the Plan; the manifest has the origin: the value is a path.
# work: how and where the work is done. Equal Artifacts would differ by it, so it is in neither.
Decides = Literal["binary", "tools", "work"]
OLDEST_ZIP_TIME = 315532800  # 1980-01-01: zip knows no earlier time
NEWEST_ZIP_TIME = 4354819199  # 2107-12-31, and no later one


class Option(NamedTuple):
    """One option.

    Attributes:
        name: its key in `[tool.kernelwheel]` and in `-C name=value`.
        parse: from text to the typed value; raises ValueError saying what it takes.
        takes: what it takes, in words, for messages and the reference.
        default: the text that stands where nobody says anything.
        environment: the standard variable, or None for `<PACKAGE>_<NAME>`.
        decides: the binary, the tools, or how the work is done; see `Decides`.
        help: what it is for.
        separator: what several values are joined by (a list in the table, `-C` given again); None: it takes one.
        cuda_only: whether it means nothing to a build without CUDA kernels.
    """

    name: str
    parse: Callable[[str], Any]
    takes: str
    default: str
    environment: str | None
    decides: Decides
    help: str
    separator: str | None = None
    cuda_only: bool = False

    def variable(self, package: str) -> str:
        """The environment variable that sets this option for `package`."""
        return self.environment or own_variable(package, self.name)


def _choice(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        value = text.strip().lower()
        if value not in names:
            near = difflib.get_close_matches(value, names, n=1)
            raise ValueError(f"did you mean {near[0]!r}?" if near else "")
        return value

    return parse


def _jobs(text: str) -> int:
    value = int(text) if text.strip().isdecimal() else -1
    if value < 0 or value > 4096:
        raise ValueError
    return value


def _megabytes(text: str) -> int:
    value = int(text) if text.strip().isdecimal() and len(text.strip()) < 10 else 0
    if value < 1:
        raise ValueError
    return value


def _epoch(text: str) -> int:
    value = int(text) if text.strip().isdecimal() else -1
    if value < 0 or value > NEWEST_ZIP_TIME:
        raise ValueError("A zip file knows no such time." if value >= 0 else "")
    return max(value, OLDEST_ZIP_TIME)


def _text(text: str) -> str:
    return text.strip()


def _folder(text: str) -> str:
    if text.strip() and not Path(text.strip()).is_absolute():
        raise ValueError("It would mean another folder in every process.")
    return text.strip()


def _folders(text: str) -> tuple[str, ...]:
    return tuple(_folder(part) for part in text.split(os.pathsep) if part.strip())


def _users(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def flags(text: str) -> tuple[str, ...]:
    """Compiler options, as a shell would split them."""
    return tuple(shlex.split(text))


def _command(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text.replace(";", " ")))  # CMake, whose variables these are, separates words by ;


_CUDA = "on, off or auto"
_LAUNCHER = "a command, such as sccache or ccache"
_FLAGS = "compiler options as a shell would split them"
REGISTRY = (
    Option("cuda", _choice("on", "off", "auto"), _CUDA, "auto", None, "binary",
           "Build CUDA kernels? auto: where torch.version.cuda is set. Never asks for a GPU."),
    Option("archs", _text, "a list such as 7.5;8.0+PTX", "", "TORCH_CUDA_ARCH_LIST", "binary",
           "CUDA architectures; empty: the default list for the nvcc at hand.", ";", cuda_only=True),
    Option("nvcc", _text, "a path", "", "CUDACXX", "tools",
           "The nvcc to use; empty: looked for.", cuda_only=True),
    Option("cuda-home", _text, "a path", "", "CUDA_HOME", "tools",
           "The CUDA toolkit to use; empty: looked for.", cuda_only=True),
    Option("cxx", _text, "a command or a path", "", "CXX", "tools",
           "The C++ compiler, also nvcc's host compiler; empty: c++, g++ or clang++ on PATH."),
    Option("compiler-launcher", _command, _LAUNCHER, "", None, "work",
           "What runs nvcc and the C++ compiler and may know their output already; empty: nothing.", " "),
    Option("cxx-launcher", _command, _LAUNCHER, "", "CMAKE_CXX_COMPILER_LAUNCHER", "work",
           "The same for the C++ compiler alone; empty: compiler-launcher.", " "),
    Option("cuda-launcher", _command, _LAUNCHER, "", "CMAKE_CUDA_COMPILER_LAUNCHER", "work",
           "The same for nvcc alone; empty: compiler-launcher.", " "),
    Option("cxx-flags", flags, _FLAGS, "", "CXXFLAGS", "binary",
           "More options for the C++ compiler.", " "),
    Option("cuda-flags", flags, _FLAGS, "", "CUDAFLAGS", "binary",
           "More options for nvcc.", " ", cuda_only=True),
    Option("link-flags", flags, _FLAGS, "", "LDFLAGS", "binary",
           "More options for the linker driver.", " "),
    Option("jobs", _jobs, "a whole number, 0 for automatic", "0", "MAX_JOBS", "work",
           "How many compilers run at once; 0: as many as there are cores, and memory for."),
    Option("source-date-epoch", _epoch, "seconds since 1970", str(OLDEST_ZIP_TIME), "SOURCE_DATE_EPOCH", "work",
           "The time of all files in the wheel."),
    Option("jit", _choice("auto", "never", "always"), "auto, never or always", "auto", None, "work",
           "Compile at run time? auto: where no Artifact fits and a compile cures it; always: never use the wheel's."),
    Option("cache-dir", _folder, "an absolute path", "", None, "work",
           "The folder of the cache; empty: kernelwheel in the user's cache folder."),
    Option("cache-path", _folders, "absolute paths apart by the system's separator", "", None, "work",
           "Caches that are only read, and looked in before the user's.", os.pathsep),
    Option("trusted-owners", _users, "names or numbers of users, separated by commas, or everyone", "", None, "work",
           "Whose files in caches are loaded, beside root's and your own; everyone: nothing is checked.", ","),
    Option("import-limit", _megabytes, "a whole number of MB", "2000", None, "work",
           "How large all libraries together may be in a file that `cache import` takes."),
)  # fmt: skip
OPTIONS = {option.name: option for option in REGISTRY}
