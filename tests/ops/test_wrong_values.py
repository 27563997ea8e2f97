"""What is no dense tensor of values, and numbers beyond all bounds: one error of ours from every public function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from public_calls import public_calls, public_functions, tensors_of
from torch import Tensor

import splat

CALLS = public_calls()
KINDS: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "a list": (lambda tensor: [1, 2], "torch.Tensor, found list"),
    "sparse": (lambda tensor: tensor.to_sparse(), "must be a dense tensor, found torch.sparse_coo"),
    "meta": (lambda tensor: tensor.to("meta"), "must have values, found a tensor on the device meta"),
    "nested": (
        lambda tensor: torch.nested.as_nested_tensor([tensor], layout=torch.jagged),
        "must be a dense tensor, found a nested one",
    ),
}


def test_every_public_function_is_called() -> None:
    assert CALLS.keys() == public_functions()
    for function, given in CALLS.values():
        function(**given)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_dense_tensor_is_refused_by_name(name: str) -> None:
    function, given = CALLS[name]
    for argument in tensors_of(given):
        for kind, (change, words) in KINDS.items():
            if kind == "nested" and given[argument].ndim < 2:
                continue
            with pytest.raises((TypeError, ValueError), match=f"^{argument} .*{words}"):
                function(**{**given, argument: change(given[argument])})


@pytest.mark.parametrize("name", CALLS)
def test_none_is_refused_by_name_where_a_tensor_is_needed(name: str) -> None:
    function, given = CALLS[name]
    optional = {each for each, one in inspect.signature(function).parameters.items() if "None" in str(one.annotation)}
    for argument in set(tensors_of(given)) - optional:
        with pytest.raises((TypeError, ValueError), match=argument):
            function(**{**given, argument: None})


@pytest.mark.parametrize("name", CALLS)
def test_vmap_is_refused_in_a_sentence(name: str) -> None:
    function, given = CALLS[name]
    first = tensors_of(given)[0]

    def call(value: Tensor) -> Any:
        return function(**{**given, first: value})

    with pytest.raises(NotImplementedError, match=f"^{first} is batched by torch.vmap"):
        torch.vmap(call)(given[first][None])


@pytest.mark.parametrize("value", [10**400, 10**5000, -(10**400)], ids=["large", "very large", "small"])
@pytest.mark.parametrize("name", CALLS)
def test_numbers_without_end_are_refused_by_name(name: str, value: int) -> None:
    function, given = CALLS[name]
    numbers = {
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if str(parameter.annotation).partition(" ")[0] in ("int", "float")
    }
    for argument in sorted(numbers - {"far_plane", "sh_degree", "extra_signals_sh_degree", "n_images", "capacity"}):
        with pytest.raises(ValueError, match=f"^{argument} "):
            function(**{**given, argument: value})


def test_opacities_are_required() -> None:
    for name in ("rasterization", "rasterization_2dgs"):
        function, given = CALLS[name]
        with pytest.raises(TypeError, match=r"^opacities must be a float32 torch.Tensor, found NoneType"):
            function(**{**given, "opacities": None})


def test_a_wrong_number_changes_nothing() -> None:
    _, given = CALLS["adam"]
    for changes in (
        {"eps": "much"},
        {"eps": torch.nan},
        {"lr": None},
        {"b1": 2.0},
        {"b2": -1.0},
        {"valid": torch.ones(3).bool()},
    ):
        copies = {name: each.clone() if isinstance(each, Tensor) else each for name, each in given.items()}
        with pytest.raises((TypeError, ValueError), match=f"^{next(iter(changes))} must"):
            splat.adam(**{**copies, **changes})
        assert all(torch.equal(copies[name], given[name]) for name in tensors_of(given))


def test_a_step_of_which_one_group_is_wrong_changes_none() -> None:
    parameters = [torch.nn.Parameter(torch.rand(4, 3)) for _ in range(2)]
    optimizer = splat.SelectiveAdam([{"params": [each]} for each in parameters], eps=1e-8, betas=(0.9, 0.99))
    for each in parameters:
        each.grad = torch.ones_like(each)
    optimizer.param_groups[1]["eps"] = None
    before = [each.detach().clone() for each in parameters]
    with pytest.raises(TypeError, match=r"^eps must be a number"):
        optimizer.step(torch.ones(4, dtype=torch.bool))
    assert all(map(torch.equal, before, parameters))


def test_shapes_are_looked_at_before_rays_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    from splat.ops import pixels_eval3d

    monkeypatch.setattr(pixels_eval3d, "camera_rays", lambda *_: pytest.fail("rays are made"))
    function, given = CALLS["rasterize_to_pixels_eval3d"]
    changes = {
        "colors": torch.rand(2, 3), "opacities": torch.rand(3), "isect_offsets": torch.zeros(1, 1).int(),
        "flatten_ids": torch.zeros(1, 1).int(), "tile_size": 33, "image_width": 0, "max_alpha": 2.0,
    }  # fmt: skip
    for name, value in changes.items():
        with pytest.raises(ValueError, match=f"^{name} must"):
            function(**{**given, name: value})


def test_the_lists_of_a_capacity_are_taken() -> None:
    _, given = CALLS["rasterize_num_contributing_gaussians"]
    longer = {**given, "flatten_ids": torch.cat([given["flatten_ids"], torch.full((7,), -1, dtype=torch.int32)])}
    for name in (
        "rasterize_num_contributing_gaussians",
        "rasterize_contributing_gaussian_ids",
        "rasterize_top_contributing_gaussian_ids",
        "rasterize_to_indices_in_range",
    ):
        function, own = CALLS[name]
        found, expected = function(**{**own, "flatten_ids": longer["flatten_ids"]}), function(**own)
        assert all(map(torch.equal, found, expected))
    with pytest.raises(ValueError, match="flatten_ids must be from 0 to"):
        splat.rasterize_num_contributing_gaussians(**{**given, "flatten_ids": longer["flatten_ids"].flip(0)})
