"""The typed registry of the options that the loader needs, and their values: the package's own table < environment.

An option's environment variable is either a standard one (`TORCH_CUDA_ARCH_LIST`, `CXX`, `MAX_JOBS`) or the
package's own, derived from both names: `SPLAT_CUDA` for the option `cuda` of the package `splat`. Those that only a
build or the compiler needs are in project/build_settings.py.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, overload

from .errors import SettingsError
from .record import Record
from .variables import get_variable, own_variable, prefix

if TYPE_CHECKING:
    from typing_extensions import Self

TABLE = "[tool.kernelwheel]"
VARIABLE = "environment variable"
EVERYONE = "everyone"  # a value of trusted-owners
Cuda = Literal["on", "off", "auto"]
Jit = Literal["auto", "never", "always"]
CxxStandard = Literal["raised", "as-written"]
# What an option decides; it names the part of the Plan that it gets into (content.py, compiler/plan.py).
# content: what is compiled, and how. Its value is in the Plan; kernels with another value are other kernels.
# target: what it is compiled for, which a machine is asked about. What came of it is in the Plan.
# tools: where the compilers are. The Plan has what they are; the manifest records only the origin, as the value is a
#   path.
# work: how and where the work is done. It is in no part, because it would make equal Artifacts differ.
# The manifest records the value and the origin of the first two.
Decides = Literal["content", "target", "tools", "work"]

T = TypeVar("T")


class Option(Generic[T], Record):
    """One option; accessed on Settings, its value."""

    parse: Callable[[str], T]  # raises ValueError, with a hint, if it cannot
    takes: str  # the accepted values, in words, for messages and the reference
    decides: Decides
    help: str
    name: str = ""  # its key in `[tool.kernelwheel]` and in `-C name=value`
    default: str = ""  # the text used if the option is not set
    environment: str | None = None  # the standard variable, or None for `<PACKAGE>_<NAME>`
    separator: str | None = None  # joins several values, of a list or of `-C` given again; None: it takes one
    cuda_only: bool = False  # whether it has no effect on a build without CUDA kernels
    cross_only: bool = False  # whether it has no effect on a build for this machine's platform

    def __set_name__(self, owner: type[Settings], name: str) -> None:
        vars(self)["name"] = name.replace("_", "-")
        owner.OPTIONS = {**owner.OPTIONS, self.name: self}

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

    def variable(self, package: str) -> str:
        """The environment variable that sets this option for `package`."""
        return self.environment or own_variable(package, self.name)


class Origin(Record):
    """Where an option was set: the kind of place (TABLE, VARIABLE, CONFIG or free text) and the name used there."""

    place: str
    name: str = ""

    def __str__(self) -> str:
        """`environment variable SPLAT_CUDA`."""
        return f"{self.place} {self.name}".rstrip()


DEFAULT = Origin("default")
Texts = Mapping[str, tuple[str, Origin]]  # by option
Registry = Mapping[str, Option[Any]]  # by name


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


def absolute_folder(text: str) -> str:
    """The path of a folder, or nothing."""
    if text.strip() and not Path(text.strip()).is_absolute():
        raise ValueError("A relative path would mean a different folder in every process.")
    return text.strip()


def _folders(text: str) -> tuple[str, ...]:
    return tuple(absolute_folder(part) for part in text.split(os.pathsep) if part.strip())


def _users(text: str) -> tuple[str, ...]:
    users = tuple(part.strip() for part in text.split(",") if part.strip())
    if not all(user == EVERYONE or (user.isdecimal() and len(user) <= 10) for user in users):
        raise ValueError("`id -u NAME` prints a user's number.")
    return users


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


class Settings:
    """The effective options of one build, one attribute each: `settings.cuda`, `settings.cxx_flags`."""

    OPTIONS: ClassVar[Registry] = {}  # each of them adds itself

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
        str.strip,
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
    cxx_standard: Option[CxxStandard] = Option(
        choice("raised", "as-written"),
        takes="raised or as-written",
        default="raised",
        decides="content",
        help="What becomes of a C++ standard in flags, such as -std=c++14, that is earlier than what the torch at hand "
        "asks for: it is raised to that, or stays as it was written.",
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
        takes="user numbers, separated by commas, or everyone",
        decides="work",
        separator=",",
        help="Users whose cached files are loaded, besides root's and your own; everyone: nothing is checked.",
    )

    def __init__(self, package: str, values: Mapping[str, Any], origins: Mapping[str, Origin]) -> None:
        self.package = package
        self.values = values
        self.origins = origins

    def origin(self, name: str) -> Origin:
        """Where an option was set."""
        return self.origins[name]

    def changed(self, name: str, value: Any, origin: Origin) -> Self:
        """The same settings with one option changed."""
        return type(self)(self.package, {**self.values, name: value}, {**self.origins, name: origin})

    def content(self) -> dict[str, Any]:
        """The options that are part of the content of kernels, as JSON values; also those for CUDA only."""
        values = {each.name: self.values[each.name] for each in self.OPTIONS.values() if each.decides == "content"}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def resolve(cls, package: str, texts: Mapping[str, str], environ: Mapping[str, str]) -> Self:
        """The effective settings: defaults < `texts`, of the package's own table < `environ`."""
        own = {name: (text, Origin(TABLE)) for name, text in texts.items() if name in cls.OPTIONS}
        return cls.of_texts(package, environ, own, {})

    @classmethod
    def of_texts(cls, package: str, environ: Mapping[str, str], below: Texts, above: Texts) -> Self:
        """The settings of texts that are below and above the environment's, in which an empty variable counts as unset.

        Raises:
            SettingsError: an option has a value that it does not take, or a variable is misspelled.
        """
        options = cls.OPTIONS
        raw = {**{name: (option.default, DEFAULT) for name, option in options.items()}, **below}
        _refuse_unknown_variables(options, package, environ)
        for option in options.values():
            variable = option.variable(package)
            if text := get_variable(environ, variable):
                raw[option.name] = (text, Origin(VARIABLE, variable))
        raw |= above
        values = {name: _parse(options[name], *setting) for name, setting in raw.items()}
        return cls(package, values, {name: origin for name, (_, origin) in raw.items()})

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON values, for another process (compiler/compile_job.py)."""
        origins = {name: [origin.place, origin.name] for name, origin in self.origins.items()}
        return {"package": self.package, "values": dict(self.values), "origins": origins}


def recorded(record: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The options of the package's own table, as texts, from a manifest's record; `archs` is left to this machine."""
    import shlex  # imported only if needed, to keep a warm start fast

    written = {name: setting["value"] for name, setting in record.items() if setting["origin"] == TABLE}
    texts = {name: shlex.join(value) if isinstance(value, list) else value for name, value in written.items()}
    return {name: text for name, text in texts.items() if text is not None and name != "archs"}


def _refuse_unknown_variables(options: Registry, package: str, environ: Mapping[str, str]) -> None:
    """Refuse a misspelled `SPLAT_CUDDA`, or `SPLAT_ARCHS` for a standard variable: it would silently do nothing."""
    beginning = prefix(package) + "_"
    own = {option.variable(package).removeprefix(beginning) for option in options.values() if not option.environment}
    standard = {own_variable(package, each.name): each.environment for each in options.values() if each.environment}
    others = tuple(f"_{name}" for name in own)  # SPLAT_EXTRA_CUDA belongs to splat-extra
    for variable in environ:
        name = variable.removeprefix(beginning)
        if name == variable or name in own:
            continue
        near = standard.get(variable)
        if near is None and not variable.endswith(others):
            near = next((beginning + each for each in difflib.get_close_matches(name, own, n=1, cutoff=0.8)), None)
        if near is not None:
            raise SettingsError(
                f"unknown environment variable {variable}",
                required="one of " + ", ".join(sorted(beginning + each for each in own)),
                found=f"{variable}={environ[variable]}",
                remedies=[f"write {near}, or unset it"],
            )


def _parse(option: Option[Any], text: str, origin: Origin) -> Any:
    try:
        return option.parse(text)
    except ValueError as hint:
        raise SettingsError(
            f"option {option.name!r} cannot be {text!r}",
            required=option.takes,
            found=f"{text!r} from {origin}",
            remedies=[f"{hint} Correct it, or omit it to use the default ({option.default or 'searched for'})".strip()],
        ) from None
