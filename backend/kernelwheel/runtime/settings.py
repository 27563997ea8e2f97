"""The values of all options and their origins: `[tool.kernelwheel]` < environment < `-C` config settings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .errors import SettingsError
from .options import Option, Options, flags
from .record import Record
from .variables import own_variable, prefix, said

if TYPE_CHECKING:
    from typing_extensions import Self

TABLE = "[tool.kernelwheel]"
VARIABLE = "environment variable"
CONFIG = "-C"


Registry = Mapping[str, Option[Any]]  # by name


class Origin(Record):
    """Where an option was set: the kind of place (TABLE, VARIABLE, CONFIG or free text) and the name used there."""

    place: str
    name: str = ""

    def __str__(self) -> str:
        """`environment variable SPLAT_CUDA`."""
        return f"{self.place} {self.name}".rstrip()


DEFAULT = Origin("default")


class Settings(Options):
    """The effective options of one build, one attribute each: `settings.cuda`, `settings.cxx_flags`."""

    OPTIONS: ClassVar[Registry]

    def __init_subclass__(cls) -> None:
        cls.OPTIONS = _options_of(cls)

    def __init__(self, package: str, values: Mapping[str, Any], origins: Mapping[str, Origin]) -> None:
        self.package = package
        self.values = values
        self.origins = origins

    def variable(self, name: str) -> str:
        """The environment variable that sets an option: `SPLAT_CUDA`."""
        return self.OPTIONS[name].variable(self.package)

    def origin(self, name: str) -> Origin:
        """Where an option was set."""
        return self.origins[name]

    def changed(self, name: str, value: Any, origin: Origin) -> Self:
        """The same settings with one option changed."""
        return type(self)(self.package, {**self.values, name: value}, {**self.origins, name: origin})

    def content(self, cuda: bool) -> dict[str, Any]:
        """The options that are part of the content of kernels, as JSON values; with those for CUDA only, or without."""
        chosen = {each.name: self.values[each.name] for each in self.OPTIONS.values() if each.in_content(cuda)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}

    @classmethod
    def resolve(
        cls, package: str, table: Mapping[str, Any], environ: Mapping[str, str], config: Mapping[str, Any] | None = None
    ) -> Self:
        """The effective settings: defaults < `table` < `environ` < `config`.

        Args:
            package: the package's name, from which the names of its own environment variables are derived.
            table: `[tool.kernelwheel]`, options only.
            environ: the process environment; an empty variable counts as not set.
            config: the front end's `-C` settings (PEP 517, "Config settings"): strings, or a list of strings if one
                was given several times, as pip and uv pass them.
        """
        options = cls.OPTIONS
        raw = {name: (option.default, DEFAULT) for name, option in options.items()}
        raw |= _written(options, table, TABLE)
        _refuse_unknown_variables(options, package, environ)
        for option in options.values():
            variable = option.variable(package)
            if text := said(environ, variable):
                raw[option.name] = (text, Origin(VARIABLE, variable))
        raw |= _written(options, config or {}, CONFIG)
        values = {name: _parse(options[name], *setting) for name, setting in raw.items()}
        settings = cls(package, values, {name: origin for name, (_, origin) in raw.items()})
        settings.refuse_contradictions()
        return settings

    def refuse_contradictions(self) -> None:
        """Refuse what contradicts itself; none of these options does."""

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON values, for `from_json` in another process."""
        origins = {name: [origin.place, origin.name] for name, origin in self.origins.items()}
        return {"package": self.package, "values": dict(self.values), "origins": origins}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The settings that `to_json` described."""
        typed = {name: tuple(each) if isinstance(each, list) else each for name, each in values["values"].items()}
        return cls(values["package"], typed, {name: Origin(*each) for name, each in values["origins"].items()})


def _options_of(kind: type) -> dict[str, Option[Any]]:
    every = (each for base in reversed(kind.__mro__) for each in vars(base).values() if isinstance(each, Option))
    return {option.name: option for option in every}


Settings.OPTIONS = _options_of(Settings)


def recorded(record: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The options of the package's own table, read back from a manifest's `record`; `archs` is left to this machine."""
    written = {name: setting["value"] for name, setting in record.items() if setting["origin"] == TABLE}
    return {name: value for name, value in written.items() if value is not None and name != "archs"}


def _written(options: Registry, values: Mapping[str, Any], place: str) -> dict[str, tuple[str, Origin]]:
    """The options set in the table or the config settings: {name: (text, origin)}."""
    keys: dict[str, str] = {}
    found = {}
    for key, value in values.items():
        option = option_of(options, key, place)
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


def option_of(options: Registry, key: str, place: str) -> Option[Any]:
    """The option for a key, `cuda-home` or `cuda_home`; `place` is where it was set, for the message."""
    option = options.get(key.replace("_", "-"))
    if option is None:
        near = difflib.get_close_matches(key.replace("_", "-"), options, n=1)
        raise SettingsError(
            f"unknown option {key!r}",
            required="one of " + ", ".join(options),
            found=f"{key!r} in {place}",
            remedies=[f"write {near[0]!r}" if near else "remove it or correct its name"],
        )
    return option


def _refuse_unknown_variables(options: Registry, package: str, environ: Mapping[str, str]) -> None:
    """Refuse a misspelled `SPLAT_CUDDA`, or `SPLAT_ARCHS` for a standard variable: it would silently do nothing."""
    own = {option.variable(package) for option in options.values() if option.environment is None}
    standard = {own_variable(package, o.name): o.environment for o in options.values() if o.environment is not None}
    others = tuple(name.removeprefix(prefix(package)) for name in own)  # SPLAT_EXTRA_CUDA belongs to splat-extra
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


def _as_text(option: Option[Any], value: Any, place: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int)):
        return str(value)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SettingsError(
            f"option {option.name!r} has a value of the wrong type",
            required=option.takes,
            found=f"{value!r} in {place}",
            remedies=["write a string"],
        )
    if option.separator is None and len(value) != 1:
        raise SettingsError(
            f"option {option.name!r} takes one value",
            required=option.takes,
            found=f"{len(value)} values in {place}: {', '.join(map(repr, value))}",
            remedies=["keep only one of them"],
        )
    # An item of a list in the table is one word; each -C value is a whole command line.
    words = option.parse is flags and place == TABLE
    if not words:
        return (option.separator or "").join(value)
    import shlex  # imported only if needed, to keep a warm start fast

    return shlex.join(value)


def _parse(option: Option[Any], text: str, origin: Origin) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        hint = str(error)
        raise SettingsError(
            f"option {option.name!r} cannot be {text!r}",
            required=option.takes,
            found=f"{text!r} from {origin}",
            remedies=[f"{hint} Correct it, or omit it to use the default ({option.default or 'searched for'})".strip()],
        ) from None
