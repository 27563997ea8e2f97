"""The typed registry of all options: the class `Options`, with one attribute per option.

An option's environment variable is either a standard one (`TORCH_CUDA_ARCH_LIST`, `CXX`, `MAX_JOBS`) or the
package's own, derived from both names: `SPLAT_CUDA` for the option `cuda` of the package `splat`. `reference` generates
the page that lists them all, docs/settings.md. Their values are in `settings.Settings`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from .variables import own_variable

if TYPE_CHECKING:
    from .settings import Settings

Cuda = Literal["on", "off", "auto"]
Jit = Literal["auto", "never", "always"]
TorchTag = Literal["build", "local", "none"]
Manylinux = Literal["auto", "required", "off"]
# What an option decides; it names the part of the Plan that it gets into (core/content.py, compiler/plan.py).
# content: what is compiled, and how. Its value is in the Plan; kernels with another value are other kernels.
# target: what it is compiled for, which a machine is asked about. What came of it is in the Plan.
# tools: where the compilers are. The Plan has what they are; the manifest records only the origin, as the value is a
#   path.
# work: how and where the work is done. It is in no part, because it would make equal Artifacts differ.
# The manifest records the value and the origin of the first two.
Decides = Literal["content", "target", "tools", "work"]
NATIVE = "native"  # the platform of the machine that builds
OLDEST_ZIP_TIME = 315532800  # 1980-01-01, the earliest time that zip can store
NEWEST_ZIP_TIME = 4354819199  # 2107-12-31, the latest

T = TypeVar("T")


class Option(Generic[T]):
    """One option; accessed on Settings, its value.

    Attributes:
        name: its key in `[tool.kernelwheel]` and in `-C name=value`.
        parse: converts text to the typed value; raises ValueError, with a hint, if it cannot.
        takes: the accepted values, in words, for messages and the reference.
        default: the text used if the option is not set.
        environment: the standard variable, or None for `<PACKAGE>_<NAME>`.
        decides: the content, the target, the tools, or how the work is done; see `Decides`.
        help: what it is for.
        separator: joins several values (a list in the table, `-C` given more than once); None: it takes one value.
        cuda_only: whether it has no effect on a build without CUDA kernels.
        cross_only: whether it has no effect on a build for this machine's platform.
    """

    name: str

    def __init__(
        self,
        parse: Callable[[str], T],
        *,
        takes: str,
        default: str = "",
        environment: str | None = None,
        decides: Decides,
        help: str,
        separator: str | None = None,
        cuda_only: bool = False,
        cross_only: bool = False,
    ) -> None:
        self.parse = parse
        self.takes = takes
        self.default = default
        self.environment = environment
        self.decides: Decides = decides
        self.help = help
        self.separator = separator
        self.cuda_only = cuda_only
        self.cross_only = cross_only

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.replace("_", "-")

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...

    @overload
    def __get__(self, instance: Settings, owner: type) -> T: ...

    def __get__(self, instance: Settings | None, owner: type) -> Option[T] | T:
        """On the registry, the option; on Settings, its typed value."""
        if instance is None:
            return self
        value: T = instance.values[self.name]
        return value

    def __set__(self, instance: Settings, value: T) -> None:
        raise AttributeError(f"settings are immutable: {self.name}")

    def in_content(self, cuda: bool) -> bool:
        """Whether it is part of the content of kernels for CUDA, or of those for the CPU alone."""
        return self.decides == "content" and (cuda or not self.cuda_only)

    def variable(self, package: str) -> str:
        """The environment variable that sets this option for `package`."""
        return self.environment or own_variable(package, self.name)


def _choice(*names: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        value = text.strip().lower()
        if value not in names:
            near = difflib.get_close_matches(value, names, n=1)
            raise ValueError(f"did you mean {near[0]!r}?" if near else "")
        return value

    return parse


def _platform(text: str) -> str:
    value = text.strip().lower()
    if value == NATIVE:
        return value
    from .platforms import PLATFORMS  # imported only if needed, to keep a warm start fast

    return str(_choice(NATIVE, *PLATFORMS)(value))


def _jobs(text: str) -> int:
    value = int(text) if text.strip().isdecimal() else -1
    if value < 0 or value > 4096:
        raise ValueError
    return value


def _epoch(text: str) -> int:
    value = int(text) if text.strip().isdecimal() else -1
    if value < 0 or value > NEWEST_ZIP_TIME:
        raise ValueError("A zip file cannot store such a time." if value >= 0 else "")
    return max(value, OLDEST_ZIP_TIME)


def _driver(text: str) -> str:
    value = text.strip()
    if value and not re.fullmatch(r"[1-9]\d\.\d", value):
        raise ValueError("A driver is named by its CUDA version: 12.0 is 525.60, 13.0 is 580.65.")
    return value


def _glibc(text: str) -> str:
    value = text.strip()
    major, _, minor = value.partition(".")
    if value and not (major == "2" and minor.isdecimal() and len(minor) < 4):
        raise ValueError("manylinux_2_28 is for glibc 2.28." if "linux" in value else "")
    return value


def _text(text: str) -> str:
    return text.strip()


def _folder(text: str) -> str:
    if text.strip() and not Path(text.strip()).is_absolute():
        raise ValueError("A relative path would mean a different folder in every process.")
    return text.strip()


def _folders(text: str) -> tuple[str, ...]:
    return tuple(_folder(part) for part in text.split(os.pathsep) if part.strip())


def _users(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def flags(text: str) -> tuple[str, ...]:
    """Compiler options or the words of a command, split as a shell would split them."""
    if not text:
        return ()
    import shlex  # imported only if needed, to keep a warm start fast

    return tuple(shlex.split(text))


_FLAGS = "compiler options, split as by a shell"


class Options:
    """All options."""

    cuda: Option[Cuda] = Option(
        _choice("on", "off", "auto"),
        takes="on, off or auto",
        default="auto",
        decides="target",
        help="Whether to build CUDA kernels. For a wheel, auto: if torch.version.cuda is set; a GPU is not needed. At "
        "run time, auto: for calls on a GPU; on: also for a call on the CPU, where one library serves both; "
        "off: never.",
    )
    platform: Option[str] = Option(
        _platform,
        takes="native, linux-x86_64 or linux-aarch64",
        default=NATIVE,
        decides="target",
        cross_only=True,
        help="The platform that a wheel is built for. Kernels that are compiled at run time are for the machine they "
        "run on.",
    )
    target_packages: Option[str] = Option(
        _folder,
        takes="an absolute path",
        decides="tools",
        cross_only=True,
        help="In a build for another platform, the folder with packages for it, from pip install --target: the parts "
        "of the CUDA toolkit that this machine's lacks, and its torch: modules are compiled for it, operators "
        "only compare it with the one here.",
    )
    target_python: Option[str] = Option(
        _folder,
        takes="an absolute path",
        decides="tools",
        cross_only=True,
        help="In a build of modules for another platform, the folder of its Python, which has include and lib.",
    )
    archs: Option[str] = Option(
        _text,
        takes="a list such as 7.5;8.0+PTX",
        environment="TORCH_CUDA_ARCH_LIST",
        decides="target",
        separator=";",
        cuda_only=True,
        help="CUDA architectures to compile for; empty: the default list for the nvcc in use.",
    )
    drivers: Option[str] = Option(
        _driver,
        takes="a CUDA version such as 12.0",
        decides="tools",
        cuda_only=True,
        help="The oldest driver that a wheel's kernels must run on, by the CUDA version that it supports; the nvcc, or "
        "a clang, is chosen accordingly. Empty: any. At run time, this machine's driver decides.",
    )
    nvcc: Option[str] = Option(
        _text,
        takes="a path",
        environment="CUDACXX",
        decides="tools",
        cuda_only=True,
        help="The nvcc to use, or a clang (19 or later) with pip's parts of CUDA 12; empty: searched for. For "
        "operators, it may be of another CUDA major than torch's.",
    )
    cuda_home: Option[str] = Option(
        _text,
        takes="a path",
        environment="CUDA_HOME",
        decides="tools",
        cuda_only=True,
        help="The CUDA toolkit to use; empty: searched for.",
    )
    cxx: Option[str] = Option(
        _text,
        takes="a command or a path",
        environment="CXX",
        decides="tools",
        help="The C++ compiler, also used as nvcc's host compiler; empty: c++, g++ or clang++ on PATH.",
    )
    compiler_launcher: Option[tuple[str, ...]] = Option(
        flags,
        takes="a command, such as sccache or ccache",
        decides="work",
        separator=" ",
        help="Runs nvcc and the C++ compiler, and may cache their output; empty: none. Not a clang in nvcc's place.",
    )
    cxx_flags: Option[tuple[str, ...]] = Option(
        flags,
        takes=_FLAGS,
        environment="CXXFLAGS",
        decides="content",
        separator=" ",
        help="Extra options for the C++ compiler.",
    )
    cuda_flags: Option[tuple[str, ...]] = Option(
        flags,
        takes=_FLAGS,
        environment="CUDAFLAGS",
        decides="content",
        separator=" ",
        cuda_only=True,
        help="Extra options for nvcc.",
    )
    link_flags: Option[tuple[str, ...]] = Option(
        flags,
        takes=_FLAGS,
        environment="LDFLAGS",
        decides="content",
        separator=" ",
        help="Extra options for the linker driver.",
    )
    glibc: Option[str] = Option(
        _glibc,
        takes="a release of glibc such as 2.28",
        default="2.28",
        decides="content",
        help="The oldest glibc that libraries are linked for, and so the manylinux tag to reach; empty: the one here.",
    )
    jobs: Option[int] = Option(
        _jobs,
        takes="a whole number, 0 for automatic",
        default="0",
        environment="MAX_JOBS",
        decides="work",
        help="How many compilers run at once; 0: one per core, as far as memory allows.",
    )
    source_date_epoch: Option[int] = Option(
        _epoch,
        takes="seconds since 1970",
        default=str(OLDEST_ZIP_TIME),
        environment="SOURCE_DATE_EPOCH",
        decides="work",
        help="The timestamp of all files in the wheel.",
    )
    torch_tag: Option[TorchTag] = Option(
        _choice("build", "local", "none"),
        takes="build, local or none",
        default="build",
        decides="work",
        help="How the file name of a wheel that is bound to one torch says which: by a build number, `213torch`, by a "
        "local version, `+torch2.13`, or not at all.",
    )
    manylinux: Option[Manylinux] = Option(
        _choice("auto", "required", "off"),
        takes="auto, required or off",
        default="auto",
        decides="work",
        help="Whether the wheel is tagged manylinux. auto: with the best tag that its libraries earn; required: the "
        "build fails if they do not earn that of the option glibc; off: tagged for Linux alone.",
    )
    jit: Option[Jit] = Option(
        _choice("auto", "never", "always"),
        takes="auto, never or always",
        default="auto",
        decides="work",
        help="Whether to compile at run time. auto: if no Artifact fits and compiling fixes that; always: "
        "never use the wheel's Artifact.",
    )
    cache_dir: Option[str] = Option(
        _folder,
        takes="an absolute path",
        decides="work",
        help="The cache folder; empty: kernelwheel in the user's cache folder.",
    )
    cache_path: Option[tuple[str, ...]] = Option(
        _folders,
        takes="absolute paths, separated as in PATH",
        decides="work",
        separator=os.pathsep,
        help="Read-only caches, searched before the user's.",
    )
    trusted_owners: Option[tuple[str, ...]] = Option(
        _users,
        takes="user names or numbers, separated by commas, or everyone",
        decides="work",
        separator=",",
        help="Users whose cached files are loaded, besides root's and your own; everyone: nothing is checked.",
    )


REGISTRY: tuple[Option[Any], ...] = tuple(each for each in vars(Options).values() if isinstance(each, Option))
OPTIONS = {option.name: option for option in REGISTRY}
