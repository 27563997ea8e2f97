"""A cached_property without a lock: before Python 3.12, a fork could leave that of functools held for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property

    remembered = cached_property
else:

    class remembered:
        """A method whose result becomes an attribute of the object on first access."""

        def __init__(self, make: Any) -> None:
            self._make = make
            self.__doc__ = make.__doc__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Compute the value: Python calls this only if the object does not have the attribute yet."""
            value = instance.__dict__[self._make.__name__] = self._make(instance)
            return value
