"""Frozen records, whose classes are quick to make, and properties that are computed once: what every import reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from functools import cached_property

    from typing_extensions import Self, dataclass_transform

    @dataclass_transform(frozen_default=True)
    class _Typed:
        """Makes type checkers read the annotations of subclasses as fields (PEP 681)."""

    remembered = cached_property
else:
    _Typed = object

    class remembered:
        """A method whose result becomes an attribute of the object on first access.

        Without a lock: before Python 3.12, a fork could leave that of functools' cached_property held for ever.
        """

        def __init__(self, make: Any) -> None:
            self._make = make
            self.__doc__ = make.__doc__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Compute the value: Python calls this only if the object does not have the attribute yet."""
            value = instance.__dict__[self._make.__name__] = self._make(instance)
            return value


class Record(_Typed):
    """The base of a class whose annotations are its fields, in order; those with a default last.

    It is used like a NamedTuple, but is no tuple. Such a class is made in 10 us, a NamedTuple in 60, because Python
    compiles code for each, and a dataclass in 500; an import of a package makes a dozen.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        cls._fields = (*cls._fields, *cls.__annotations__)
        cls._defaults = {name: getattr(cls, name) for name in cls._fields if hasattr(cls, name)}

    def __init__(self, *values: Any, **named: Any) -> None:
        names = (*self._fields[: len(values)], *named)
        given = {**self._defaults, **dict(zip(names, (*values, *named.values()), strict=False))}
        if len(set(names)) < len(values) + len(named) or given.keys() != set(self._fields):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._fields)}")
        self.__dict__.update({name: given[name] for name in self._fields})

    def __setattr__(self, name: str, value: Any = None) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name}")

    __delattr__ = __setattr__

    def _asdict(self) -> dict[str, Any]:
        return dict(vars(self))

    def _replace(self, **changes: Any) -> Self:
        return type(self)(**{**self._asdict(), **changes})

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"
