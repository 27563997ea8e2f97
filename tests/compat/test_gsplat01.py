"""gsplat's functions before 1.0, on splat's: the pictures and gradients of `rasterization`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from scenes import Scene, random_scene
from torch import Tensor

import splat
from splat.compat import gsplat01, overlay

WIDTH, HEIGHT, BLOCK = 50, 37, 12
LEAVES = ("means", "scales", "quats", "opacities", "colors")


def scene_of(view: str = "inside") -> Scene:
    return random_scene(3, 60, WIDTH, HEIGHT, size="mixed", views=(view,))


def projected(scene: Scene, leaves: dict[str, Tensor], glob_scale: float = 1.0, rows: int = 3) -> tuple[Tensor, ...]:
    (fx, _, cx), (_, fy, cy), _ = scene.Ks[0].tolist()
    return gsplat01.project_gaussians(
        leaves["means"], leaves["scales"], glob_scale, leaves["quats"], scene.viewmats[0, :rows], fx, fy, cx, cy,
        HEIGHT, WIDTH, BLOCK,
    )  # fmt: skip


def drawn(scene: Scene, leaves: dict[str, Tensor], found: tuple[Tensor, ...], **options: Any) -> Any:
    xys, depths, radii, conics, compensations, hit, _ = found
    opacity = (leaves["opacities"] * compensations)[:, None]
    return gsplat01.rasterize_gaussians(
        xys, depths, radii, conics, hit, leaves["colors"], opacity, HEIGHT, WIDTH, BLOCK, **options
    )


@pytest.mark.parametrize("rows", [3, 4])
@pytest.mark.parametrize("view", ["front", "inside"])
def test_pictures_and_gradients_are_those_of_rasterization(view: str, rows: int) -> None:
    scene, v = scene_of(view), torch.randn(HEIGHT, WIDTH, 4, generator=torch.Generator().manual_seed(1))
    background = torch.tensor([0.2, 0.5, 0.9])
    leaves = {name: getattr(scene, name).clone().requires_grad_() for name in LEAVES}
    image, alphas = drawn(scene, leaves, projected(scene, leaves, rows=rows), background=background, return_alpha=True)
    found = torch.cat([image, alphas[..., None]], -1)
    own = torch.autograd.grad(found, list(leaves.values()), v)
    arguments = {**scene.arguments, **leaves, "rasterize_mode": "antialiased", "backgrounds": background}
    expected = torch.cat(splat.rasterization(**arguments)[:2], -1)[0]
    others = torch.autograd.grad(expected, list(leaves.values()), v)
    # A Gaussian's radius knows nothing of its opacity here, so more tiles list it: where its alpha is below 1/255.
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    for one, other in zip(own, others, strict=True):
        assert (one - other).abs().max() <= 1e-5 * other.abs().max()


def test_a_projection_says_what_gsplat_s_did() -> None:
    scene = scene_of()
    leaves = {name: getattr(scene, name) for name in LEAVES}
    xys, depths, radii, conics, compensations, hit, covars = projected(scene, leaves, glob_scale=0.5)
    expected = splat.fully_fused_projection(
        scene.means, None, scene.quats, scene.scales / 2, scene.viewmats, scene.Ks, WIDTH, HEIGHT,
        calc_compensations=True,
    )  # fmt: skip
    both, *others = (each[0] for each in expected if each is not None)
    assert radii.dtype == hit.dtype == torch.int32
    assert torch.equal(radii, both.amax(-1))
    assert 0 < (radii > 0).sum() < len(radii)
    assert torch.equal(radii > 0, hit > 0)
    for each, other in zip((xys, depths, conics, compensations), others, strict=True):
        assert torch.equal(each, other)
    full, _ = splat.quat_scale_to_covar_preci(scene.quats, scene.scales / 2, triu=True)
    assert torch.equal(covars, full)


def test_the_background_is_white_and_colours_may_be_bytes() -> None:
    scene = scene_of()
    leaves = {name: getattr(scene, name) for name in LEAVES}
    found = projected(scene, leaves)
    leaves["colors"] = (scene.colors * 255).round().byte()
    image = drawn(scene, leaves, found)
    leaves["colors"] = leaves["colors"].float() / 255
    assert torch.equal(image, drawn(scene, leaves, found, background=torch.ones(3)))
    assert torch.equal(
        drawn(scene, leaves, (*found[:2], torch.zeros_like(found[2]), *found[3:])), torch.ones_like(image)
    )


def test_harmonics_are_splat_s() -> None:
    directions, coeffs = torch.randn(5, 3), torch.randn(5, 9, 3)
    found = gsplat01.spherical_harmonics(1, directions, coeffs, method="poly")
    assert torch.equal(found, splat.spherical_harmonics(1, directions, coeffs))


@pytest.mark.parametrize("version", ["0.1.9", "0.1.13", "1.0.0", "1.3.0"])
def test_the_overlay_puts_them_where_gsplat_had_them(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release = ModuleType("gsplat.version")
    release.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gsplat.version", release)
    monkeypatch.setattr(overlay, "replaced", {})
    for name, functions in overlay.OLD_FUNCTIONS.items():
        module = ModuleType(name)
        overlay.change(module)
        for function in functions:
            assert getattr(module, function) is getattr(gsplat01, function)
            assert overlay.replaced[f"{name}.{function}"] == f"splat.compat.gsplat01.{function}"
