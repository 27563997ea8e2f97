"""What help() and the site say of public names: each has a docstring, and each tensor in it a shape."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import kernelwheel
import pytest
import torch
from kernelwheel import runtime

import splat
from splat.compat import gsplat14, gsplat_helpers
from splat.strategy import ops

MODULES = [splat, ops, gsplat14, gsplat_helpers, kernelwheel, runtime]


def public() -> Iterator[tuple[str, Any]]:
    """Functions and classes, and these's own methods, by name."""
    for module in MODULES:
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if not callable(value) or (module is runtime and name.startswith("_")):
                continue
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                own = ((method, each) for method, each in vars(value).items() if not method.startswith("_"))
                yield from ((f"{module.__name__}.{name}.{method}", each) for method, each in own if callable(each))


PUBLIC = dict(public())


def without_shape(function: Callable[..., Any]) -> list[str]:
    """The tensors that a function takes or gives, of which its docstring does not say the shape."""
    text = inspect.getdoc(function) or ""
    if "`splat.rasterization`, which documents the parameters" in text:
        return []
    signature = inspect.signature(function)
    found = [name for name, each in signature.parameters.items() if "Tensor" in str(each.annotation)]
    lacking = [name for name in found if not re.search(r"\[|shaped like|as for `|has no effect", said_of(name, text))]
    returned = text.partition("\nReturns:")[2] or text.partition("\n")[0]
    return lacking + ["Returns"] * ("Tensor" in str(signature.return_annotation) and "[" not in returned)


def said_of(parameter: str, text: str) -> str:
    """What stands behind a parameter in the list of them, or in a sentence that names it."""
    entry = re.search(rf"^    {parameter}: (.*?)(?=^    \w+: |^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    sentence = entry or re.search(rf"`{parameter}`([^.]*)", text)
    return sentence[1] if sentence else ""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_docstring_with_the_shapes_of_its_tensors(name: str) -> None:
    assert inspect.getdoc(PUBLIC[name])
    if inspect.isfunction(PUBLIC[name]):
        assert without_shape(PUBLIC[name]) == []


def test_a_docstring_without_a_shape_is_noticed() -> None:
    def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """What is scaled, by `y`, [N].

        Args:
            x: what is scaled.
        """
        return x * y

    assert without_shape(scaled) == ["x"]
