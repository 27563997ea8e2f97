"""Every option there is, in one typed registry: `[tool.kernelwheel]` < environment < `-C` config settings.

An option's environment variable is either a standard one (`TORCH_CUDA_ARCH_LIST`, `CXX`, `MAX_JOBS`) or the
package's own, made from its name: `SPLAT_CUDA` for the option `cuda` of the package `splat`. `reference` writes the
page of all of them, docs/settings.md.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import archs as arch_lists
from .errors import SettingsError
from .variables import own_variable, prefix, said

Cuda = Literal["on", "off", "auto"]
Jit = Literal["auto", "never", "always"]
# What an option decides.
# binary: two values can give two binaries. It is in the Plan, and its value and origin are in the manifest.
# tools: where the compilers are. What they are is in the Plan; the manifest has the origin: the value is a path.
# work: how and where the work is done. Equal Artifacts would differ by it, so it is in neither.
Decides = Literal["binary", "tools", "work"]
TABLE = "[tool.kernelwheel]"
OLDEST_ZIP_TIME = 315532800  # 1980-01-01: zip knows no earlier time


@dataclass(frozen=True)
class Option:
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


@dataclass(frozen=True)
class Settings:
    """The effective options of one build, typed."""

    cuda: Cuda
    archs: str
    nvcc: str
    cuda_home: str
    cxx: str
    compiler_launcher: tuple[str, ...]
    cxx_launcher: tuple[str, ...]
    cuda_launcher: tuple[str, ...]
    cxx_flags: tuple[str, ...]
    cuda_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    jobs: int
    source_date_epoch: int
    jit: Jit
    cache_dir: str
    cache_path: tuple[str, ...]
    origins: Mapping[str, str]

    def origin(self, name: str) -> str:
        """Where the option's value came from, for example `environment variable SPLAT_CUDA`."""
        return self.origins[name]

    def place(self, name: str) -> str:
        """The kind of place that it came from: `default`, `[tool.kernelwheel]`, `environment variable` or `-C`."""
        origin = self.origins[name]
        return origin.rpartition(" ")[0] or origin

    def value(self, name: str) -> Any:
        """The option's typed value."""
        return getattr(self, name.replace("-", "_"))

    def effective(self) -> dict[str, dict[str, Any]]:
        """Every option as {name: {value, origin}}."""
        return {name: {"value": self.value(name), "origin": origin} for name, origin in self.origins.items()}

    def record(self, archs: str | None) -> dict[str, dict[str, Any]]:
        """What the manifest says of the options that decide an Artifact: {name: {value, origin}}.

        Args:
            archs: the architectures that were compiled for; None: no CUDA kernels were, and what is for them alone
                had no effect.
        """
        record = {}
        for option in REGISTRY:
            if option.decides != "work" and not (option.cuda_only and archs is None):
                value = self.value(option.name) if option.decides == "binary" else None
                record[option.name] = {"value": value, "origin": self.origin(option.name)}
        if archs is not None:
            record["archs"]["value"] = archs  # one spelling for one list, and the default list written out
        return record


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


def _epoch(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError
    return max(int(text), OLDEST_ZIP_TIME)


def _text(text: str) -> str:
    return text.strip()


def _folder(text: str) -> str:
    if text.strip() and not Path(text.strip()).is_absolute():
        raise ValueError("It would mean another folder in every process.")
    return text.strip()


def _folders(text: str) -> tuple[str, ...]:
    return tuple(_folder(part) for part in text.split(os.pathsep) if part.strip())


def _flags(text: str) -> tuple[str, ...]:
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
    Option("cxx-flags", _flags, _FLAGS, "", "CXXFLAGS", "binary",
           "More options for the C++ compiler.", " "),
    Option("cuda-flags", _flags, _FLAGS, "", "CUDAFLAGS", "binary",
           "More options for nvcc.", " ", cuda_only=True),
    Option("link-flags", _flags, _FLAGS, "", "LDFLAGS", "binary",
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
)  # fmt: skip
OPTIONS = {option.name: option for option in REGISTRY}


def resolve(
    package: str,
    table: Mapping[str, Any],
    environ: Mapping[str, str],
    config: Mapping[str, Any] | None = None,
) -> Settings:
    """The effective settings: defaults < `table` < `environ` < `config`.

    Args:
        package: the package's name, from which its own environment variables are made.
        table: `[tool.kernelwheel]`, options only.
        environ: the process environment; an empty variable counts as not set.
        config: the front end's `-C` settings (PEP 517, "Config settings"): a string each, or a list of them where one
            was given several times, as pip and uv do.

    Raises:
        SettingsError: for an unknown option, a value that is not what the option takes, or two that contradict each
            other; says where it stood.
    """
    raw = {name: (option.default, "default") for name, option in OPTIONS.items()}
    raw |= _written(table, TABLE)
    _refuse_unknown_variables(package, environ)
    for option in REGISTRY:
        variable = option.variable(package)
        if text := said(environ, variable):
            raw[option.name] = (text, f"environment variable {variable}")
    raw |= _written(config or {}, "-C")
    values = {name.replace("-", "_"): _parse(OPTIONS[name], *setting) for name, setting in raw.items()}
    settings = Settings(**values, origins={name: origin for name, (_, origin) in raw.items()})
    _refuse_contradictions(settings)
    return settings


def check_config(config: Mapping[str, Any]) -> None:
    """Refuse `-C` settings that no build could use, before a build that is far away from here would.

    Raises:
        SettingsError: as `resolve`.
    """
    resolve("", {}, {}, config)


def set_variables(package: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the registry that are set: their values by their names."""
    names = (option.variable(package) for option in REGISTRY)
    return {name: environ[name] for name in names if said(environ, name)}


def _written(values: Mapping[str, Any], place: str) -> dict[str, tuple[str, str]]:
    """What the table or the config settings say: (text, origin) by the option's name."""
    keys: dict[str, str] = {}
    found = {}
    for key, value in values.items():
        option = option_of(key, place)
        if option.name in keys:
            raise SettingsError(
                f"option {option.name!r} is written twice",
                required="one spelling, once",
                found=f"{keys[option.name]!r} and {key!r} in {place}",
                remedies=[f"leave out {key!r}"],
            )
        keys[option.name] = key
        found[option.name] = (_as_text(option, value, place), place if place == TABLE else f"{place} {key}")
    return found


def option_of(key: str, place: str) -> Option:
    """The option of a key, `cuda-home` or `cuda_home`; `place` is where it stands, for the message.

    Raises:
        SettingsError: there is none; the nearest is named.
    """
    option = OPTIONS.get(key.replace("_", "-"))
    if option is None:
        near = difflib.get_close_matches(key.replace("_", "-"), OPTIONS, n=1)
        raise SettingsError(
            f"unknown option {key!r}",
            required="one of " + ", ".join(OPTIONS),
            found=f"{key!r} in {place}",
            remedies=[f"write {near[0]!r}" if near else "remove it or correct its name"],
        )
    return option


def _refuse_unknown_variables(package: str, environ: Mapping[str, str]) -> None:
    """A misspelled `SPLAT_CUDDA`, or `SPLAT_ARCHS` for the standard variable, would otherwise do nothing, silently."""
    own = {option.variable(package) for option in REGISTRY if option.environment is None}
    standard = {own_variable(package, o.name): o.environment for o in REGISTRY if o.environment is not None}
    others = tuple(name.removeprefix(prefix(package)) for name in own)  # SPLAT_EXTRA_CUDA is of the package splat-extra
    for variable in environ:
        if not variable.startswith(prefix(package) + "_") or variable in own:
            continue
        near = standard.get(variable)
        if near is None and not variable.endswith(others):
            near = next(iter(difflib.get_close_matches(variable, own, n=1, cutoff=0.8)), None)
        if near is not None:
            raise SettingsError(
                f"unknown environment variable {variable}",
                required="one of " + ", ".join(sorted(own)),
                found=f"{variable}={environ[variable]}",
                remedies=[f"write {near}, or unset it"],
            )


def _as_text(option: Option, value: Any, place: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int)):
        return str(value)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SettingsError(
            f"option {option.name!r} has a value of the wrong kind",
            required=option.takes,
            found=f"{value!r} in {place}",
            remedies=["write a string"],
        )
    if option.separator is None and len(value) != 1:
        raise SettingsError(
            f"option {option.name!r} takes one value",
            required=option.takes,
            found=f"{len(value)} values in {place}: {', '.join(map(repr, value))}",
            remedies=["leave one of them"],
        )
    # An item of the table's list is one word; each -C is a line of its own.
    words = option.parse is _flags and place == TABLE
    return shlex.join(value) if words else (option.separator or "").join(value)


def _parse(option: Option, text: str, origin: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        hint = str(error)
        raise SettingsError(
            f"option {option.name!r} cannot be {text!r}",
            required=option.takes,
            found=f"{text!r} from {origin}",
            remedies=[f"{hint} Correct it, or leave it out for the default ({option.default or 'looked for'})".strip()],
        ) from None


def _refuse_contradictions(settings: Settings) -> None:
    """Refuse what one person cannot have meant.

    A standard variable such as TORCH_CUDA_ARCH_LIST is there for many packages: without CUDA kernels it means nothing,
    and so it contradicts nothing. The table's options may be waiting for a build with CUDA.
    """
    if settings.archs and settings.place("archs") != "environment variable":
        arch_lists.parse(settings.archs, settings.origin("archs"))  # a standard variable's is read where it is used
    for option in REGISTRY:
        if settings.cuda == "off" and option.cuda_only and settings.place(option.name) == "-C":
            said_to = settings.origin(option.name)
            raise SettingsError(
                f"{said_to} is only for CUDA kernels, and cuda is off",
                required=f"a build with CUDA kernels, for {said_to}",
                found=f"cuda is off ({settings.origin('cuda')})",
                remedies=[f"leave out {said_to}", "or say -C cuda=on too"],
            )
