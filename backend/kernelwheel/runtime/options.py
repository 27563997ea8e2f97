"""The typed registry of options: the class `Options` has those that the loader needs, with one attribute for each.

An option's environment variable is either a standard one (`TORCH_CUDA_ARCH_LIST`, `CXX`, `MAX_JOBS`) or the
package's own, derived from both names: `SPLAT_CUDA` for the option `cuda` of the package `splat`. Their values are in
`settings.Settings`. Those that only a build or the compiler needs are in project/build_settings.py.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from .variables import own_variable

Cuda = Literal["on", "off", "auto"]
Jit = Literal["auto", "never", "always"]
# What an option decides; it names the part of the Plan that it gets into (runtime/content.py, compiler/plan.py).
# content: what is compiled, and how. Its value is in the Plan; kernels with another value are other kernels.
# target: what it is compiled for, which a machine is asked about. What came of it is in the Plan.
# tools: where the compilers are. The Plan has what they are; the manifest records only the origin, as the value is a
#   path.
# work: how and where the work is done. It is in no part, because it would make equal Artifacts differ.
# The manifest records the value and the origin of the first two.
Decides = Literal["content", "target", "tools", "work"]

T = TypeVar("T")


class HasValues(Protocol):
    """Settings: what has a value for each option, by its name."""

    values: Mapping[str, Any]


class Option(Generic[T]):
    """One option; accessed on Settings, its value."""

    name: str  # its key in `[tool.kernelwheel]` and in `-C name=value`

    def __init__(
        self,
        parse: Callable[[str], T],  # raises ValueError, with a hint, if it cannot
        *,
        takes: str,  # the accepted values, in words, for messages and the reference
        default: str = "",  # the text used if the option is not set
        environment: str | None = None,  # the standard variable, or None for `<PACKAGE>_<NAME>`
        decides: Decides,
        help: str,
        separator: str | None = None,  # joins several values, of a list or of `-C` given again; None: it takes one
        cuda_only: bool = False,  # whether it has no effect on a build without CUDA kernels
        cross_only: bool = False,  # whether it has no effect on a build for this machine's platform
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
    def __get__(self, instance: HasValues, owner: type) -> T: ...

    def __get__(self, instance: HasValues | None, owner: type) -> Option[T] | T:
        """On the registry, the option; on Settings, its typed value."""
        if instance is None:
            return self
        value: T = instance.values[self.name]
        return value

    def __set__(self, instance: HasValues, value: T) -> None:
        raise AttributeError(f"settings are immutable: {self.name}")

    def in_content(self, cuda: bool) -> bool:
        """Whether it is part of the content of kernels for CUDA, or of those for the CPU alone."""
        return self.decides == "content" and (cuda or not self.cuda_only)

    def variable(self, package: str) -> str:
        """The environment variable that sets this option for `package`."""
        return self.environment or own_variable(package, self.name)


def choice(*names: str) -> Callable[[str], Any]:
    """A parser of one of several words, in any case."""

    def parse(text: str) -> Any:
        value = text.strip().lower()
        if value not in names:
            near = difflib.get_close_matches(value, names, n=1)
            raise ValueError(f"did you mean {near[0]!r}?" if near else "")
        return value

    return parse


def _glibc(text: str) -> str:
    value = text.strip()
    major, _, minor = value.partition(".")
    if value and not (major == "2" and minor.isdecimal() and len(minor) < 4):
        raise ValueError("manylinux_2_28 is for glibc 2.28." if "linux" in value else "")
    return value


def stripped(text: str) -> str:
    """Any text, without spaces around it."""
    return text.strip()


def absolute_folder(text: str) -> str:
    """The path of a folder, or nothing."""
    if text.strip() and not Path(text.strip()).is_absolute():
        raise ValueError("A relative path would mean a different folder in every process.")
    return text.strip()


def _folders(text: str) -> tuple[str, ...]:
    return tuple(absolute_folder(part) for part in text.split(os.pathsep) if part.strip())


def _users(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def flags(text: str) -> tuple[str, ...]:
    """Compiler options or the words of a command, split as a shell would split them."""
    if not text:
        return ()
    import shlex  # imported only if needed, to keep a warm start fast

    return tuple(shlex.split(text))


def _flags(environment: str, help: str, cuda_only: bool = False) -> Option[tuple[str, ...]]:
    takes = "compiler options, split as by a shell"
    return Option(
        flags, takes=takes, environment=environment, decides="content", separator=" ", cuda_only=cuda_only, help=help
    )


class Options:
    """The options that decide what kernels are wanted, and where they are found."""

    cuda: Option[Cuda] = Option(
        choice("on", "off", "auto"),
        takes="on, off or auto",
        default="auto",
        decides="target",
        help="Whether to build CUDA kernels. For a wheel, auto: if torch.version.cuda is set; a GPU is not needed. At "
        "run time, auto: for calls on a GPU; on: also for a call on the CPU, where one library serves both; "
        "off: never.",
    )
    archs: Option[str] = Option(
        stripped,
        takes="a list such as 7.5;8.0+PTX",
        environment="TORCH_CUDA_ARCH_LIST",
        decides="target",
        separator=";",
        cuda_only=True,
        help="CUDA architectures to compile for; empty: the default list for the nvcc in use.",
    )
    cxx_flags: Option[tuple[str, ...]] = _flags("CXXFLAGS", "Extra options for the C++ compiler.")
    cuda_flags: Option[tuple[str, ...]] = _flags("CUDAFLAGS", "Extra options for nvcc.", cuda_only=True)
    link_flags: Option[tuple[str, ...]] = _flags("LDFLAGS", "Extra options for the linker driver.")
    glibc: Option[str] = Option(
        _glibc,
        takes="a release of glibc such as 2.28",
        default="2.28",
        decides="content",
        help="The oldest glibc that libraries are linked for, and so the manylinux tag to reach; empty: the one here.",
    )
    jit: Option[Jit] = Option(
        choice("auto", "never", "always"),
        takes="auto, never or always",
        default="auto",
        decides="work",
        help="Whether to compile at run time. auto: if no Artifact fits and compiling fixes that; always: "
        "never use the wheel's Artifact.",
    )
    cache_dir: Option[str] = Option(
        absolute_folder,
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
