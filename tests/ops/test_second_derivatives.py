"""A second derivative is right or an error, never silently 0: of every operator, and of every function of splat's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from disc_reference import disc_arguments, disc_scene
from parts import require_all_parts
from ray_reference import ray_arguments
from scenes import random_scene
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import splat
from splat.ops.pixels_rays import rasterize_along_rays

require_all_parts()

REFUSED = "splat::[a-z_0-9]+ has no (second )?derivative: detach "
TENSORS = ("means", "quats", "scales", "opacities", "colors", "viewmats")


def render(*tensors: Tensor, **options: Any) -> Any:
    scene = random_scene(3, 12, 24, 20, size="mixed").arguments
    options = {"packed": False, **options}
    return splat.rasterization(**{**scene, **dict(zip(TENSORS, tensors, strict=False)), **options})[:2]


def render_2dgs(*tensors: Tensor, **options: Any) -> Any:
    return splat.rasterization_2dgs(**{**disc_scene(2, 12), **dict(zip(TENSORS, tensors, strict=True))}, **options)[:6]


def scene_tensors(seed: int = 3) -> list[Tensor]:
    scene = random_scene(seed, 12, 24, 20, size="mixed")
    return [getattr(scene, name) for name in TENSORS]


def disc_tensors() -> list[Tensor]:
    scene: dict[str, Any] = {**disc_scene(2, 12), "colors": torch.rand(12, 3)}
    return [scene[name] for name in TENSORS]


def along_rays(*tensors: Tensor) -> Any:
    names = ("means", "frames", "colors", "opacities", "backgrounds")
    return rasterize_along_rays(**{**ray_arguments(count=10), **dict(zip(names, tensors, strict=True))})


def ray_tensors() -> list[Tensor]:
    arguments = ray_arguments(count=10)
    return [arguments[name] for name in ("means", "frames", "colors", "opacities", "backgrounds")]


def blend_2dgs(*tensors: Tensor) -> Any:
    names = ("means2d", "ray_transforms", "colors", "opacities", "normals", "backgrounds")
    return splat.rasterize_to_pixels_2dgs(**{**disc_arguments(count=10), **dict(zip(names, tensors, strict=True))})


def blend_2dgs_tensors() -> list[Tensor]:
    arguments = disc_arguments(count=10)
    names = ("means2d", "ray_transforms", "colors", "opacities", "normals", "backgrounds")
    return [arguments[name] for name in names]


def harmonics(means: Tensor, coeffs: Tensor) -> Tensor:
    return splat.spherical_harmonics(2, means, coeffs)


def pictures() -> list[Tensor]:
    return list(torch.rand(2, 1, 3, 16, 16))


def ssim(image: Tensor, target: Tensor) -> Tensor:
    return splat.fused_ssim(image, target.detach())


def covariances() -> list[Tensor]:
    return [torch.randn(5, 4), 0.5 + torch.rand(5, 3)]


def projected_discs(*tensors: Tensor) -> Any:
    scene: dict[str, Any] = disc_scene(2, 12)
    others = [scene[name] for name in ("Ks", "width", "height")]
    return splat.fully_fused_projection_2dgs(*tensors, *others)[1:]


def disc_geometry() -> list[Tensor]:
    scene: dict[str, Any] = disc_scene(2, 12)
    return [scene[name] for name in ("means", "quats", "scales", "viewmats")]


# A function, and the tensors that it is differentiated by.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], Sequence[Tensor]]]] = {
    "rasterization": (render, scene_tensors),
    "packed": (partial(render, packed=True, render_mode="RGB+ED"), scene_tensors),
    "absgrad": (partial(render, absgrad=True), scene_tensors),
    "antialiased": (partial(render, rasterize_mode="antialiased"), scene_tensors),
    "along rays": (partial(render, with_eval3d=True), lambda: scene_tensors()[:5]),
    "unscented": (partial(render, with_ut=True, with_eval3d=True, render_mode="RGB+D"), lambda: scene_tensors()[:5]),
    "rasterization_2dgs": (partial(render_2dgs, render_mode="RGB+ED", distloss=True), disc_tensors),
    "2dgs, packed": (partial(render_2dgs, packed=True, absgrad=True), disc_tensors),
    "rasterize_to_pixels_2dgs": (blend_2dgs, blend_2dgs_tensors),
    "rasterize_along_rays": (along_rays, ray_tensors),
    "spherical_harmonics": (harmonics, lambda: [torch.randn(6, 3), torch.randn(6, 9, 3)]),
    "fused_ssim": (ssim, pictures),
    "quat_scale_to_covar_preci": (splat.quat_scale_to_covar_preci, covariances),
    "fully_fused_projection_2dgs": (projected_discs, disc_geometry),
}


def first_derivative(function: Callable[..., Any], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Of a sum of squares, by each tensor, as a graph."""
    leaves = [each if each.requires_grad else each.detach().clone().requires_grad_() for each in tensors]
    images = function(*leaves)
    images = [images] if isinstance(images, Tensor) else images
    floats = [each for each in images if each is not None and each.requires_grad]
    found = torch.autograd.grad(
        sum(each.square().sum() for each in floats), leaves, create_graph=True, allow_unused=True
    )
    return [torch.zeros_like(leaf) if each is None else each for leaf, each in zip(leaves, found, strict=True)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_second_derivative_is_refused_or_right(name: str) -> None:
    torch.manual_seed(1)
    function, tensors = FUNCTIONS[name]
    refused: list[str] = []
    # The target of fused_ssim is not differentiated by.
    for number, each in enumerate(tensors()[: 1 if name == "fused_ssim" else None]):
        leaves = [other.detach().clone().requires_grad_() for other in tensors()]
        generator = torch.Generator().manual_seed(1)
        first = first_derivative(function, leaves)[number]
        v, direction = (torch.randn(each.shape, generator=generator) for _ in range(2))
        try:
            (second,) = torch.autograd.grad((first * v).sum(), leaves[number], materialize_grads=True)
        except NotImplementedError as error:
            refused.append(str(error))
            continue
        sides = []
        for sign in (1, -1):
            moved = [other.detach() for other in leaves]
            moved[number] = moved[number] + sign * 1e-3 * direction
            sides.append((first_derivative(function, moved)[number] * v).sum().item())
        expected = (sides[0] - sides[1]) / 2e-3
        assert (second * direction).sum().item() == pytest.approx(expected, rel=0.05, abs=1e-2), (name, number)
    assert all(re.match(REFUSED, words) for words in refused)
    assert refused or name in ("quat_scale_to_covar_preci", "fully_fused_projection_2dgs")


class Recorder(TorchDispatchMode):
    """Keeps the arguments of the first call of each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, tuple[Any, ...]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "splat":
            self.calls.setdefault(func._schema.name, args)
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def calls() -> dict[str, tuple[Any, ...]]:
    """Arguments of the operators, as the functions call them."""
    with Recorder() as recorder:
        for function, tensors in FUNCTIONS.values():
            first_derivative(function, tensors())
        coeffs = torch.randn(12, 4, 3)
        first_derivative(partial(render, packed=True, sh_degree=1), [*scene_tensors()[:4], coeffs])
    return recorder.calls


def operators() -> list[str]:
    """Whichever the library defines that take tensors and give some."""
    schemas = [torch.ops.splat.__getattr__(name.partition("::")[2]).default._schema for name in registered()]
    return [
        schema.name
        for schema in schemas
        if all(any("Tensor" in str(one.type) for one in part) for part in (schema.arguments, schema.returns))
    ]


def registered() -> list[str]:
    return sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("splat::"))


@pytest.mark.parametrize("name", operators())
def test_no_operator_has_a_second_derivative_of_zero(name: str, calls: dict[str, tuple[Any, ...]]) -> None:
    assert name in calls, f"add a function that calls {name} to FUNCTIONS"
    given = [
        each.detach().clone().requires_grad_() if isinstance(each, Tensor) and each.is_floating_point() else each
        for each in calls[name]
    ]
    leaves = [each for each in given if isinstance(each, Tensor) and each.requires_grad]
    results = getattr(torch.ops.splat, name.partition("::")[2])(*given)
    results = [results] if isinstance(results, Tensor) else results
    floats = [each for each in results if each.requires_grad]
    if not floats:
        assert not any(each.is_floating_point() for each in results)
        return

    def twice() -> None:
        found = torch.autograd.grad(
            sum(each.square().sum() for each in floats), leaves, create_graph=True, allow_unused=True
        )
        torch.autograd.grad(sum(each.square().sum() for each in found if each is not None), leaves, allow_unused=True)

    with pytest.raises(NotImplementedError, match=REFUSED):
        twice()
