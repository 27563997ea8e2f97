"""The camera that frames a scene by itself, the scene's bounds, and the built-in scene."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_runs import run
from PIL import Image
from scene_files import some_scene
from scenes import real_scene
from torch import Tensor

from splat.scene.builtin import knot_scene
from splat.scene.camera import UP_AXES, Camera, orbit
from splat.scene.formats import write_scene
from splat.scene.gaussians import Gaussians, SceneError
from splat.scene.ply import read_ply

AXES = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}


def gaussians(means: Tensor, opacities: Tensor | None = None) -> Gaussians:
    n = len(means)
    return Gaussians(
        means=means.float(),
        quats=torch.tensor([[1.0, 0, 0, 0]]).expand(n, -1),
        scales=torch.full((n, 3), 0.01),
        opacities=torch.ones(n) if opacities is None else opacities,
        sh=torch.zeros(n, 1, 3),
    )


def ball(center: tuple[float, float, float] = (0, 0, 0), radius: float = 1.0, n: int = 2000) -> Gaussians:
    points = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    return gaussians(torch.tensor(center) + radius * points / points.norm(dim=1, keepdim=True))


def to_pixels(camera: Camera, points: Tensor) -> tuple[Tensor, Tensor]:
    """Pixel positions [N, 2] and depths [N]."""
    at = points @ camera.viewmat[:3, :3].T + camera.viewmat[:3, 3]
    projected = at @ camera.K.T
    return projected[:, :2] / projected[:, 2:], at[:, 2]


@pytest.mark.parametrize("up", UP_AXES)
@pytest.mark.parametrize("elevation", [-90.0, 45.0])
@pytest.mark.parametrize("azimuth", [-100.0, 30.0])
def test_the_scene_is_upright_in_the_middle_and_in_front(up: str, elevation: float, azimuth: float) -> None:
    center = torch.tensor([3.0, -2.0, 5.0])
    camera = orbit(ball((3, -2, 5), 0.5), 80, 60, up=up, elevation=elevation, azimuth=azimuth)
    rotation = camera.viewmat[:3, :3]
    assert torch.allclose(rotation @ rotation.T, torch.eye(3), atol=1e-6)
    assert torch.linalg.det(rotation).item() == pytest.approx(1, abs=1e-5)

    axis = torch.tensor(AXES[up[-1]], dtype=torch.float32) * (-1 if up.startswith("-") else 1)
    pixels, depths = to_pixels(camera, torch.stack([center, center + 0.1 * axis]))
    assert pixels[0].tolist() == pytest.approx([40, 30], abs=0.5)
    assert depths[0] > 0.5
    assert pixels[1, 0].item() == pytest.approx(pixels[0, 0].item(), abs=1e-2)
    # From above, up points at the camera; otherwise up in the image, where y points down.
    assert pixels[1, 1] < pixels[0, 1] or abs(elevation) == 90
    assert (depths[0] - depths[1]).item() == pytest.approx(0.1 * math.sin(math.radians(elevation)), abs=1e-5)


@pytest.mark.parametrize(
    ("up", "azimuth", "position"),
    [
        ("y", 0, (0, 0, 1)),
        ("y", 90, (1, 0, 0)),
        ("z", 0, (0, -1, 0)),
        ("z", 90, (1, 0, 0)),
        ("-y", 0, (0, 0, -1)),
        ("-y", 90, (1, 0, 0)),
    ],
)
def test_azimuth_goes_counter_clockwise_from_the_front(
    up: str, azimuth: float, position: tuple[float, float, float]
) -> None:
    camera = orbit(ball(), 10, 10, up=up, azimuth=azimuth)
    eye = -camera.viewmat[:3, :3].T @ camera.viewmat[:3, 3]
    assert (eye / eye.norm()).tolist() == pytest.approx(position, abs=0.02)


@pytest.mark.parametrize(("width", "height"), [(100, 100), (160, 90), (70, 200)])
@pytest.mark.parametrize("fov", [10.0, 50.0, 120.0])
def test_the_scene_fills_the_image(fov: float, width: int, height: int) -> None:
    camera = orbit(ball(radius=2), width, height, fov=fov, azimuth=20, elevation=10)
    pixels, depths = to_pixels(camera, ball(radius=2).means)
    assert (depths > 0).all()
    short = min(width, height)
    reach = (pixels - torch.tensor([width / 2, height / 2])).abs().max().item()
    # The box's sphere, sqrt(3) larger than the ball, touches the shorter sides.
    assert 0.3 * short / 2 < reach <= short / 2
    assert (camera.width, camera.height) == (width, height)
    assert 2 * math.degrees(math.atan(short / 2 / camera.K[0, 0].item())) == pytest.approx(fov, abs=1e-3)
    assert camera.K[0, 0] == camera.K[1, 1]


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_scenes_of_any_size_are_behind_the_near_plane(size: float) -> None:
    camera = orbit(ball(radius=size), 50, 50)
    pixels, depths = to_pixels(camera, ball(radius=size).means)
    assert (depths > camera.near).all()
    assert 0.0005 * size < camera.near < 0.01 * size
    assert pixels.min() > 0
    assert pixels.max() < 50


def test_distance_is_a_factor() -> None:
    near, far = (orbit(ball(), 10, 10, distance=factor).viewmat[2, 3].item() for factor in (1.0, 2.5))
    assert far == pytest.approx(2.5 * near, rel=1e-3)


def test_bounds_pass_over_what_is_far_or_transparent() -> None:
    means = torch.rand(1000, 3, generator=torch.Generator().manual_seed(1))
    clean = torch.stack(gaussians(means).bounds())
    assert torch.allclose(clean, torch.tensor([[0.02], [0.98]]).expand(2, 3), atol=0.02)

    floaters = torch.full((9, 3), 1e6)
    assert torch.allclose(torch.stack(gaussians(torch.cat([means, floaters])).bounds()), clean, atol=0.03)
    ghosts = torch.full((5000, 3), -70.0)
    opacities = torch.cat([torch.ones(1000), torch.zeros(5000)])
    assert torch.equal(torch.stack(gaussians(torch.cat([means, ghosts]), opacities).bounds()), clean)

    lower, upper = gaussians(means).bounds(outside=0)
    assert torch.equal(lower, means.amin(0))
    assert torch.equal(upper, means.amax(0))


@pytest.mark.parametrize("scene", [gaussians(torch.zeros(0, 3)), gaussians(torch.zeros(3, 3), torch.zeros(3))])
def test_nothing_to_look_at(scene: Gaussians) -> None:
    with pytest.raises(SceneError, match=rf"the scene has no visible Gaussian \(of {len(scene)}\)"):
        orbit(scene, 10, 10)


def test_a_single_gaussian_is_seen_from_outside() -> None:
    camera = orbit(gaussians(torch.tensor([[5.0, 5.0, 5.0]])), 10, 10)
    pixels, depths = to_pixels(camera, torch.tensor([[5.0, 5.0, 5.0]]))
    assert pixels[0].tolist() == pytest.approx([5, 5], abs=1e-3)
    assert depths[0] > 0.03


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width and height must be at least 1, found 0 and 10"),
        ({"fov": 180.0}, "fov must be between 0 and 180 degrees, found 180.0"),
        ({"fov": math.nan}, "fov must be between 0 and 180"),
        ({"elevation": 91.0}, "elevation must be between -90 and 90 degrees, found 91.0"),
        ({"azimuth": math.inf}, "azimuth must be finite, found inf"),
        ({"distance": 0.0}, "distance must be above 0 and finite, found 0.0"),
        ({"up": "w"}, "up must be one of x, -x, y, -y, z, -z, found 'w'"),
    ],
)
def test_bad_options(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        orbit(ball(), **{"width": 10, "height": 10, **changes})


def test_bulba_is_framed() -> None:
    bulba = read_ply(real_scene("bulba.ply"))
    lower, upper = bulba.bounds()
    extent = bulba.means.amax(0) - bulba.means.amin(0)
    assert ((upper - lower) < extent).all()
    pixels, depths = to_pixels(orbit(bulba, 200, 150), bulba.means)
    inside = (depths > 0) & (pixels >= 0).all(1) & (pixels <= torch.tensor([200, 150])).all(1)
    share = bulba.opacities[inside].sum() / bulba.opacities.sum()
    assert share > 0.9


def test_the_builtin_scene_is_the_same_every_time() -> None:
    state = torch.get_rng_state()
    first, second = knot_scene(), knot_scene()
    assert torch.equal(torch.get_rng_state(), state)
    for value, again in zip(first.tensors, second.tensors, strict=True):
        assert torch.equal(value, again)
        assert torch.isfinite(value).all()
        assert value.dtype == torch.float32
    assert 5_000 < len(first) < 30_000
    assert first.degree == 3
    assert first.opacities.min() >= 0
    assert first.opacities.max() <= 1
    assert first.scales.min() > 0


@pytest.mark.parametrize("size", [1e-11, 1e7, 1e11, 1e13])
def test_a_scene_of_any_size_fills_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str], size: float) -> None:
    scene = replace(some_scene(60, degree=0), scales=torch.full((60, 3), 0.3))
    pictures = []
    for name, factor in (("a", 1.0), ("b", size)):
        path, out = tmp_path / f"{name}.ply", tmp_path / f"{name}.png"
        write_scene(path, replace(scene, means=scene.means * factor, scales=scene.scales * factor))
        assert run(capsys, "render", path, "--size", "40x30", "--device", "cpu", "-o", out)[0] == 0
        pictures.append(np.asarray(Image.open(out), int))
        words = ("--path", "orbit", "--seconds", "1", "--fps", "2", "--size", "40x30", "--device", "cpu")
        assert run(capsys, "render", path, *words, "-o", tmp_path / name)[0] == 0
        pictures.append(np.asarray(Image.open(sorted((tmp_path / name).iterdir())[1]), int))
    assert all(picture.std() > 10 for picture in pictures)
    assert np.abs(pictures[0] - pictures[2]).max() <= 1
    assert np.abs(pictures[1] - pictures[3]).max() <= 1


@pytest.mark.parametrize("size", [1e-20, 1e20, 1e30])
def test_a_scene_that_float32_cannot_draw_is_one_error(size: float) -> None:
    with pytest.raises(SceneError, match=r"from 1e-13 to 1e\+15 away is required, .* `splat convert --scale` makes it"):
        orbit(replace(ball(radius=size), scales=torch.full((2000, 3), size)), 40, 30)
