"""`meta` is a dict like any other, although one of its values is made when it is first read."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scenes import random_scene
from torch.utils import _pytree

import splat
from splat.ops import pairs
from splat.ops.meta import LazyValue, lazy_meta

Meta = dict[str, Any]
Read = Callable[[Meta], Any]


class Maker:
    """Makes the value of `b`, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        return "made"


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def meta(maker: Maker) -> Meta:
    return lazy_meta({"a": 1, "b": LazyValue(maker), "c": None})


ALL = {"a": 1, "b": "made", "c": None}

READS: dict[str, tuple[Read, Any]] = {
    "[]": (lambda m: m["b"], "made"),
    "get": (lambda m: m.get("b"), "made"),
    "pop": (lambda m: m.pop("b"), "made"),
    "setdefault": (lambda m: m.setdefault("b", 2), "made"),
    "popitem": (lambda m: [m.popitem() for _ in range(3)], [("c", None), ("b", "made"), ("a", 1)]),
    "values": (lambda m: list(m.values()), [1, "made", None]),
    "items": (lambda m: list(m.items()), [("a", 1), ("b", "made"), ("c", None)]),
    "dict": (dict, ALL),
    "tree_map": (lambda m: _pytree.tree_map(str, m), {"a": "1", "b": "made", "c": "None"}),
    "tree_map_with_path": (
        lambda m: _pytree.tree_map_with_path(lambda path, value: _pytree.keystr(path), m),
        {"a": "['a']", "b": "['b']", "c": "['c']"},
    ),
    "update": (lambda m: updated({}, m), ALL),
    "**": (lambda m: (lambda **values: values)(**m), ALL),
    "{**}": (lambda m: {**m}, ALL),
    "|": (lambda m: m | {}, ALL),
    "| of a dict": (lambda m: {} | m, ALL),
    "==": (lambda m: (m == ALL, m != ALL), (True, False)),
    "repr": (repr, repr(ALL)),
    "copy": (lambda m: m.copy(), ALL),
    "copy.copy": (copy.copy, ALL),
    "deepcopy": (copy.deepcopy, ALL),
    "pickle": (lambda m: pickle.loads(pickle.dumps(m)), ALL),
    "match": (lambda m: matched(m), "made"),
}


def updated(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    one.update(other)
    return one


def matched(subject: Any) -> Any:
    match subject:
        case {"b": value}:
            return value


@pytest.mark.parametrize("name", READS)
def test_whoever_reads_the_value_gets_what_is_made(meta: Meta, maker: Maker, name: str) -> None:
    read, expected = READS[name]
    found = read(meta)
    assert found == expected
    assert type(found) is not type(meta)
    assert maker.calls == 1


def test_it_is_made_once_and_only_if_it_is_read(meta: Meta, maker: Maker) -> None:
    assert isinstance(meta, dict)
    assert ("b" in meta, "d" in meta, len(meta)) == (True, False, 3)
    assert list(meta) == list(meta.keys()) == list(ALL)
    assert (meta["a"], meta.get("c", 5), meta.get("d", 5), meta.pop("d", 6)) == (1, None, 5, 6)
    with pytest.raises(KeyError):
        meta["d"]
    with pytest.raises(KeyError):
        meta.pop("d")
    assert maker.calls == 0
    assert meta["b"] == meta["b"] == meta.get("b") == "made"
    assert maker.calls == 1


def test_what_is_set_in_its_place_stays(meta: Meta, maker: Maker) -> None:
    meta["b"] = 2
    assert dict(meta) == ALL | {"b": 2}
    del meta["b"]
    assert "b" not in meta
    assert meta.setdefault("b", 3) == 3
    assert maker.calls == 0


def test_rendering_makes_no_keys_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    keys = pairs.intersection_keys

    def counted(*arguments: Any) -> Any:
        made.append(arguments)
        return keys(*arguments)

    monkeypatch.setattr(pairs, "intersection_keys", counted)
    scene = random_scene(0, 30, 29, 19)
    gaussians = scene.means, scene.quats, scene.scales, scene.opacities, scene.colors
    image, _, meta = splat.rasterization(*gaussians, scene.viewmats, scene.Ks, 29, 19)
    assert image.any()
    assert "isect_ids" in meta
    assert not made
    saved = io.BytesIO()
    torch.save(meta, saved)
    assert len(made) == 1
    saved.seek(0)
    assert torch.equal(torch.load(saved)["isect_ids"], meta["isect_ids"])
    assert len(made) == 1
