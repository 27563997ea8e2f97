"""Directions that the pixels of lenses see are kept on the CPU: what is found again, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scenes import Scene, random_scene
from torch import Tensor
from unscented_cases import LENSES, moved

import splat
from splat import RollingShutterType
from splat.ops import lens_directions

WIDTH, HEIGHT = 40, 30


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The sizes of pictures whose lenses were inverted, with nothing kept before."""
    sizes: list[tuple[int, int]] = []

    def counting(lens: Any, width: int, height: int, like: Tensor) -> Tensor:
        sizes.append((width, height))
        return inverted(lens, width, height, like)

    inverted = lens_directions._directions
    monkeypatch.setattr(lens_directions, "_directions", counting)
    monkeypatch.setattr(lens_directions, "_kept", {})
    return sizes


def scene_of(seed: int = 6) -> Scene:
    return random_scene(seed, 60, WIDTH, HEIGHT, size="mixed", views=("front",))


def drawn(scene: Scene, lens: str = "opencv", shutter: str = "GLOBAL", **others: Any) -> Tensor:
    options = {name: each[:1] if isinstance(each, Tensor) else each for name, each in LENSES[lens].items()}
    last = None if shutter == "GLOBAL" else moved(scene.viewmats)
    arguments = {**scene.arguments, **options, "rolling_shutter": RollingShutterType[shutter], "viewmats_rs": last}
    image: Tensor = splat.rasterization(**{**arguments, **others}, packed=False, with_ut=True, with_eval3d=True)[0]
    return image


@pytest.mark.parametrize(
    ("lens", "shutter"),
    [
        *((lens, "GLOBAL") for lens in LENSES),
        *(("opencv", each.name) for each in RollingShutterType if each.name != "GLOBAL"),
    ],
)
def test_a_lens_is_inverted_once_and_draws_the_same(lens: str, shutter: str, made: list[tuple[int, int]]) -> None:
    scene = scene_of()
    with torch.inference_mode():
        expected = drawn(scene, lens, shutter).clone()
    colors = scene.colors.clone().requires_grad_()
    image = drawn(scene, lens, shutter, colors=colors)
    image.sum().backward()
    assert torch.equal(image, expected)
    assert colors.grad is not None
    drawn(scene, lens, shutter, viewmats=moved(scene.viewmats))
    assert made == [(WIDTH, HEIGHT)]


@pytest.mark.parametrize("name", ["radial_coeffs", "tangential_coeffs", "thin_prism_coeffs", "Ks"])
def test_a_number_that_changes_in_place_makes_another_lens(name: str, made: list[tuple[int, int]]) -> None:
    scene = scene_of()
    values = (scene.Ks if name == "Ks" else LENSES["opencv"][name][:1]).clone()
    before = drawn(scene, **{name: values})
    values += 0.02
    assert not torch.equal(drawn(scene, **{name: values}), before)
    assert len(made) == 2


def test_cameras_models_and_sizes_are_told_apart(made: list[tuple[int, int]]) -> None:
    scene = scene_of()
    pictures = [drawn(scene, lens) for lens in LENSES]
    drawn(scene, width=WIDTH + 1)
    drawn(scene, height=HEIGHT + 1)
    assert len(made) == len(LENSES) + 2
    assert all(torch.equal(drawn(scene, lens), picture) for lens, picture in zip(LENSES, pictures, strict=True))
    assert len(made) == len(LENSES) + 2


def test_the_lenses_last_used_are_kept_and_no_more_pixels_than_allowed(
    made: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lens_directions, "_KEPT", 2 * WIDTH * HEIGHT + 1)
    scene = scene_of()
    for lens in ("radial", "opencv", "radial", "fisheye"):  # the last takes the place of opencv
        drawn(scene, lens)
    assert len(made) == 3
    drawn(scene, "radial")
    assert len(made) == 3
    drawn(scene, "opencv")
    assert len(made) == 4
    drawn(scene, width=3 * WIDTH)
    assert sum(each[..., 0].numel() for each in lens_directions._kept.values()) <= 2 * WIDTH * HEIGHT + 1
