"""Every option there is, in one typed registry: `[tool.kernelwheel]` < environment < `-C` config settings.

An option's environment variable is either a standard one (`TORCH_CUDA_ARCH_LIST`, `CXX`, `MAX_JOBS`) or the
package's own, made from its name: `SPLAT_CUDA` for the option `cuda` of the package `splat`.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .errors import SettingsError

Cuda = Literal["on", "off", "auto"]
Jit = Literal["auto", "never", "always"]
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
        affects_binary: whether two values can give two binaries; such an option is part of the Plan.
        help: what it decides.
    """

    name: str
    parse: Callable[[str], Any]
    takes: str
    default: str
    environment: str | None
    affects_binary: bool
    help: str

    def variable(self, package: str) -> str:
        """The environment variable that sets this option for `package`."""
        return self.environment or f"{environment_prefix(package)}_{self.name.upper().replace('-', '_')}"


@dataclass(frozen=True)
class Settings:
    """The effective options of one build, typed."""

    cuda: Cuda
    archs: str
    nvcc: str
    cuda_home: str
    cxx: str
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


_CUDA = "on, off or auto"
_FLAGS = "compiler options as a shell would split them"
REGISTRY = (
    Option("cuda", _choice("on", "off", "auto"), _CUDA, "auto", None, True,
           "Build CUDA kernels? auto: where torch.version.cuda is set. Never asks for a GPU."),
    Option("archs", _text, "a list such as 7.5;8.0+PTX", "", "TORCH_CUDA_ARCH_LIST", True,
           "CUDA architectures; empty: the default list for the nvcc at hand."),
    Option("nvcc", _text, "a path", "", "CUDACXX", False,
           "The nvcc to use; empty: looked for."),
    Option("cuda-home", _text, "a path", "", "CUDA_HOME", False,
           "The CUDA toolkit to use; empty: looked for."),
    Option("cxx", _text, "a command or a path", "", "CXX", False,
           "The C++ compiler, also nvcc's host compiler; empty: c++, g++ or clang++ on PATH."),
    Option("cxx-flags", _flags, _FLAGS, "", "CXXFLAGS", True,
           "More options for the C++ compiler."),
    Option("cuda-flags", _flags, _FLAGS, "", "CUDAFLAGS", True,
           "More options for nvcc."),
    Option("link-flags", _flags, _FLAGS, "", "LDFLAGS", True,
           "More options for the linker driver."),
    Option("jobs", _jobs, "a whole number, 0 for one per core", "0", "MAX_JOBS", False,
           "How many compilers run at once."),
    Option("source-date-epoch", _epoch, "seconds since 1970", str(OLDEST_ZIP_TIME), "SOURCE_DATE_EPOCH", False,
           "The time of all files in the wheel."),
    Option("jit", _choice("auto", "never", "always"), "auto, never or always", "auto", None, False,
           "Compile at run time? auto: where no Artifact fits and a compile cures it; always: never use the wheel's."),
    Option("cache-dir", _folder, "an absolute path", "", None, False,
           "The folder of the cache; empty: kernelwheel in the user's cache folder."),
    Option("cache-path", _folders, "absolute paths apart by the system's separator", "", None, False,
           "Caches that are only read, and looked in before the user's."),
)  # fmt: skip
OPTIONS = {option.name: option for option in REGISTRY}


def environment_prefix(package: str) -> str:
    """`SPLAT` for the package `splat`."""
    return package.upper().replace("-", "_").replace(".", "_")


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
        config: the front end's `-C` settings.

    Raises:
        SettingsError: for an unknown option, or a value that is not what the option takes; says where it stood.
    """
    raw = {name: (option.default, "default") for name, option in OPTIONS.items()}
    for key, value in table.items():
        raw[_known(key, "[tool.kernelwheel]").name] = (_as_text(key, value, "[tool.kernelwheel]"), "[tool.kernelwheel]")
    _refuse_unknown_variables(package, environ)
    for option in REGISTRY:
        variable = option.variable(package)
        if environ.get(variable, "").strip():
            raw[option.name] = (environ[variable], f"environment variable {variable}")
    for key, value in (config or {}).items():
        raw[_known(key, "-C").name] = (_as_text(key, value, "-C"), f"-C {key}")
    values = {name.replace("-", "_"): _parse(OPTIONS[name], *setting) for name, setting in raw.items()}
    return Settings(**values, origins={name: origin for name, (_, origin) in raw.items()})


def set_variables(package: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of the registry that are set: their values by their names."""
    names = (option.variable(package) for option in REGISTRY)
    return {name: environ[name] for name in names if environ.get(name, "").strip()}


def _known(key: str, origin: str) -> Option:
    option = OPTIONS.get(key.replace("_", "-"))
    if option is None:
        near = difflib.get_close_matches(key.replace("_", "-"), OPTIONS, n=1)
        raise SettingsError(
            f"unknown option {key!r}",
            required="one of " + ", ".join(OPTIONS),
            found=f"{key!r} in {origin}",
            remedies=[f"write {near[0]!r}" if near else "remove it or correct its name"],
        )
    return option


def _refuse_unknown_variables(package: str, environ: Mapping[str, str]) -> None:
    """A misspelled `SPLAT_CUDDA` would otherwise do nothing, silently."""
    own = {option.variable(package) for option in REGISTRY if option.environment is None}
    prefix = environment_prefix(package) + "_"
    for variable in environ:
        near = difflib.get_close_matches(variable, own, n=1, cutoff=0.8)
        if variable.startswith(prefix) and variable not in own and near:
            raise SettingsError(
                f"unknown environment variable {variable}",
                required="one of " + ", ".join(sorted(own)),
                found=f"{variable}={environ[variable]}",
                remedies=[f"write {near[0]}, or unset it"],
            )


def _as_text(key: str, value: Any, origin: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        option = OPTIONS[key.replace("_", "-")]
        return shlex.join(value) if option.parse is _flags else ";".join(value)
    raise SettingsError(
        f"option {key!r} has a value of the wrong kind",
        required=OPTIONS[key.replace("_", "-")].takes,
        found=f"{value!r} in {origin}",
        remedies=["write a string"],
    )


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
