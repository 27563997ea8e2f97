"""The values of the loader's options and their origins: the package's own table < environment."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .errors import SettingsError
from .options import Option, Options
from .record import Record
from .variables import own_variable, prefix, said

if TYPE_CHECKING:
    from typing_extensions import Self

TABLE = "[tool.kernelwheel]"
VARIABLE = "environment variable"


Registry = Mapping[str, Option[Any]]  # by name


class Origin(Record):
    """Where an option was set: the kind of place (TABLE, VARIABLE, CONFIG or free text) and the name used there."""

    place: str
    name: str = ""

    def __str__(self) -> str:
        """`environment variable SPLAT_CUDA`."""
        return f"{self.place} {self.name}".rstrip()


DEFAULT = Origin("default")


Texts = Mapping[str, tuple[str, Origin]]  # by option


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
            if text := said(environ, variable):
                raw[option.name] = (text, Origin(VARIABLE, variable))
        raw |= above
        values = {name: _parse(options[name], *setting) for name, setting in raw.items()}
        return cls(package, values, {name: origin for name, (_, origin) in raw.items()})

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


def recorded(record: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The options of the package's own table, as texts, from a manifest's record; `archs` is left to this machine."""
    import shlex  # imported only if needed, to keep a warm start fast

    written = {name: setting["value"] for name, setting in record.items() if setting["origin"] == TABLE}
    texts = {name: shlex.join(value) if isinstance(value, list) else value for name, value in written.items()}
    return {name: text for name, text in texts.items() if text is not None and name != "archs"}


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
