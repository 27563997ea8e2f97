"""All options: those of the loader, and those that only a build or the compiler needs. `reference` lists them.

A build takes them from `[tool.kernelwheel]`, the environment and `-C`, the compiler from a request and the environment.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..runtime.errors import SettingsError
from ..runtime.settings import TABLE, VARIABLE, Option, Origin, Settings, absolute_folder, choice, flags
from . import arch_choice
from .build_platforms import PLATFORMS
from .drivers import read_driver

if TYPE_CHECKING:
    from typing_extensions import Self

CONFIG = "-C"
TorchTag = Literal["build", "local", "none"]
Manylinux = Literal["auto", "required"]
NATIVE = "native"  # the platform of the machine that builds
OLDEST_ZIP_TIME = 315532800  # 1980-01-01, the earliest time that zip can store
NEWEST_ZIP_TIME = 4354819199  # 2107-12-31, the latest


def _platform(text: str) -> str:
    value = text.strip().lower()
    if value == NATIVE:
        return value
    return str(choice(NATIVE, *PLATFORMS)(value))


def _number(text: str, most: int = 4096, if_more: str = "") -> int:
    value = int(text) if text.strip().isdecimal() else -1
    if value < 0 or value > most:
        raise ValueError(if_more if value >= 0 else "")
    return value


def _epoch(text: str) -> int:
    return max(OLDEST_ZIP_TIME, _number(text, NEWEST_ZIP_TIME, "A zip file cannot store such a time."))


def _cpus(text: str) -> tuple[str, ...]:
    names = tuple(text.lower().split())
    if not all(name[0].isalpha() and "=" not in name for name in names):
        raise ValueError("gcc(1) and clang(1) list the names.")
    return names


class BuildSettings(Settings):
    """The effective options of one build or compile."""

    platform: Option[str] = Option(
        _platform,
        takes="native, " + ", ".join(PLATFORMS),
        default=NATIVE,
        decides="target",
        cross_only=True,
        help="The platform that a wheel is built for. Kernels that are compiled at run time are for the machine they "
        "run on.",
    )
    target_packages: Option[str] = Option(
        absolute_folder,
        takes="an absolute path",
        decides="tools",
        cross_only=True,
        help="In a build for another platform, the folder with the parts of the CUDA toolkit for it that this "
        "machine's lacks, from pip install --target.",
    )
    drivers: Option[str] = Option(
        read_driver,
        takes="a CUDA version such as 12.0",
        decides="tools",
        cuda_only=True,
        help="The oldest driver that a wheel's kernels must run on, by the CUDA version that it supports; the nvcc, or "
        "a clang, is chosen accordingly. Empty: any. At run time, this machine's driver decides.",
    )
    nvcc: Option[str] = Option(
        str.strip,
        takes="a path",
        environment="CUDACXX",
        decides="tools",
        cuda_only=True,
        help="The nvcc to use, or a clang (19 or later) with pip's parts of CUDA 12; empty: searched for. For "
        "operators, it may be of another CUDA major than torch's.",
    )
    cuda_home: Option[str] = Option(
        str.strip,
        takes="a path",
        environment="CUDA_HOME",
        decides="tools",
        cuda_only=True,
        help="The CUDA toolkit to use; empty: searched for.",
    )
    cxx: Option[str] = Option(
        str.strip,
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
    cpu: Option[tuple[str, ...]] = Option(
        _cpus,
        takes="names that -march takes, one for each platform, such as x86-64-v3 or armv8.2-a; or native",
        decides="target",
        separator=" ",
        help="The oldest CPU that libraries are compiled for; empty: every one of the platform. It is recorded and "
        "checked before loading, and `native` in flags stands for it. At run time, native if this machine has less; no "
        "wheel is built for native.",
    )
    jobs: Option[int] = Option(
        _number,
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
        choice("build", "local", "none"),
        takes="build, local or none",
        default="build",
        decides="work",
        help="How the file name of a wheel that is bound to one torch says which: by a build number, `213torch`, by a "
        "local version, `+torch2.13`, or not at all.",
    )
    manylinux: Option[Manylinux] = Option(
        choice("auto", "required"),
        takes="auto or required",
        default="auto",
        decides="work",
        help="Which manylinux tag the wheel gets. auto: the best that its libraries earn; required: the build fails if "
        "they do not earn that of the option glibc.",
    )

    @classmethod
    def resolve(
        cls, package: str, table: Mapping[str, Any], environ: Mapping[str, str], config: Mapping[str, Any] | None = None
    ) -> Self:
        """The effective settings: defaults < `table` < `environ` < `config`.

        `table` is `[tool.kernelwheel]`, options only; `config` are the front end's `-C` settings (PEP 517, "Config
        settings"): strings, or a list of strings if one was given several times, as pip and uv pass them.

        Raises:
            SettingsError: an option is unknown, has a value that it does not take, or contradicts another one; says
                where it was set.
        """
        settings = cls.of_texts(package, environ, written(table, TABLE), written(config or {}, CONFIG))
        settings.refuse_contradictions()
        return settings

    def variable(self, name: str) -> str:
        """The environment variable that sets an option: `SPLAT_CUDA`."""
        return self.OPTIONS[name].variable(self.package)

    def refuse_contradictions(self) -> None:
        """Refuse combinations that nobody can have meant.

        A standard variable such as TORCH_CUDA_ARCH_LIST may be set for other packages: without CUDA kernels it has no
        effect, so it contradicts nothing. Options in the table may be meant for a build with CUDA.
        """
        if self.archs and self.origin("archs").place != VARIABLE:  # the standard variable is checked where it is used
            arch_choice.parse(self.archs, str(self.origin("archs")))
        for option in self.OPTIONS.values():
            if self.cuda == "off" and option.cuda_only and self.origin(option.name).place == CONFIG:
                setting = self.origin(option.name)
                raise SettingsError(
                    f"{setting} is only for CUDA kernels, but cuda is off",
                    required=f"a build with CUDA kernels, for {setting}",
                    found=f"cuda is off ({self.origin('cuda')})",
                    remedies=[f"leave out {setting}", "or add -C cuda=on"],
                )

    def record(self, archs: str | None) -> dict[str, dict[str, Any]]:
        """The manifest's record of the options that decide an Artifact: {name: {value, origin}}.

        `archs` are the architectures compiled for; None if there are no CUDA kernels. Options for CUDA only then had no
        effect and are left out, except those of the package's own table: a compile at run time needs them. So are
        options for another platform, in a build for this one.
        """
        record = {}
        for option in self.OPTIONS.values():
            origin = self.origins[option.name]
            without_cuda, native = option.cuda_only and archs is None, option.cross_only and self.platform == NATIVE
            had_no_effect = (without_cuda or native) and origin.place != TABLE
            if option.decides != "work" and not had_no_effect:
                value = self.values[option.name] if option.decides != "tools" else None
                record[option.name] = {"value": value, "origin": str(origin)}
        if archs is not None:
            record["archs"]["value"] = archs  # normalised spelling, with the default list written out
        return record


OPTIONS = BuildSettings.OPTIONS
REGISTRY: tuple[Option[Any], ...] = tuple(OPTIONS.values())


def written(values: Mapping[str, Any], place: str) -> dict[str, tuple[str, Origin]]:
    """The options set in the table or the config settings: {name: (text, origin)}."""
    keys: dict[str, str] = {}
    found = {}
    for key, value in values.items():
        option = option_of(key, place)
        if option.name in keys:
            raise SettingsError(
                f"option {option.name!r} is set twice",
                required="one spelling, once",
                found=f"{keys[option.name]!r} and {key!r} in {place}",
                remedies=[f"leave out {key!r}"],
            )
        keys[option.name] = key
        found[option.name] = (_as_text(option, value, place), Origin(place, key if place != TABLE else ""))
    return found


def option_of(key: str, place: str) -> Option[Any]:
    """The option for a key, `cuda-home` or `cuda_home`; `place` is where it was set, for the message."""
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


def _as_text(option: Option[Any], value: Any, place: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int)):
        return str(value)
    texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if not texts or (option.separator is None and len(value) != 1):
        raise SettingsError(
            f"option {option.name!r} takes " + ("one value" if option.separator is None else "text, or a list of it"),
            required=option.takes,
            found=f"{value!r} in {place}",
            remedies=["write one string"],
        )
    # An item of a list in the table is one word; each -C value is a whole command line.
    return shlex.join(value) if option.parse is flags and place == TABLE else (option.separator or "").join(value)
