"""The dict of intermediate results that `splat.rasterization` returns, and values that are made when they are read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterator, ValuesView
from typing import Any

import torch
from torch.utils import _pytree


class LazyValue:
    """A value of `lazy_meta` that is made when it is first read."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


class _Meta(dict[str, Any]):
    """A dict that shows what its `LazyValue` values make. Its copies are ordinary dicts."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, LazyValue):
            self[key] = value = value.make()
        return value

    def __iter__(self) -> Iterator[str]:
        # As dict's own; but only because this is another function do dict(meta) and **meta call __getitem__.
        return super().__iter__()

    def _make_all(self) -> None:
        for key in self:
            self[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - this is get itself

    def setdefault(self, key: str, default: Any = None) -> Any:
        super().setdefault(key, default)
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        self.get(key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        self._make_all()
        return super().popitem()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self._make_all()
        return super().values()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self._make_all()
        return super().items()

    def copy(self) -> dict[str, Any]:
        return dict(self)

    __copy__ = copy

    def __reduce__(self) -> tuple[Any, ...]:
        # Of all dicts that are not made by a pickle itself, torch.load takes this one.
        return OrderedDict, (), None, None, iter(self.items())

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def __eq__(self, other: object) -> bool:
        return dict(self) == other

    def __ne__(self, other: object) -> bool:
        return dict(self) != other

    def __repr__(self) -> str:
        return repr(dict(self))


# A tree like any other dict, which does not hold for its subclasses.
_pytree.register_pytree_node(
    _Meta,
    lambda meta: (list(meta.values()), list(meta)),
    lambda values, keys: dict(zip(keys, values, strict=True)),
    serialized_type_name="splat.meta",
    flatten_with_keys_fn=lambda meta: ([(_pytree.MappingKey(key), meta[key]) for key in meta], list(meta)),
)


def lazy_meta(entries: dict[str, Any]) -> dict[str, Any]:
    """A dict that makes its `LazyValue` values when they are read. A graph makes them, unless it never reads them."""
    if torch.compiler.is_compiling():
        return {key: value.make() if isinstance(value, LazyValue) else value for key, value in entries.items()}
    return _Meta(entries)
