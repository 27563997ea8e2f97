"""functools.cached_property without its lock, which before Python 3.12 a fork beside a thread keeps for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class remembered(Generic[T]):
    """A method whose result becomes an attribute of the object the first time it is asked for."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        """Python asks here only where the object has no such attribute."""
        value = instance.__dict__[self._make.__name__] = self._make(instance)
        return value
