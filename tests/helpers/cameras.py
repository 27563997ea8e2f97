"""Cameras for tests, as objects and as JSON."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from splat.scene.camera import Camera
from splat.scene.camera_file import camera_from
from splat.scene.gaussians import Gaussians

EYE = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 5], [0, 0, 0, 1]]
K = [[50, 0, 40], [0, 50, 30], [0, 0, 1]]
GOOD: dict[str, Any] = {"width": 80, "height": 60, "viewmat": EYE, "K": K, "near": 0.1}


def changed(**values: object) -> dict[str, object]:
    """The good camera with other values; None takes one away."""
    return {name: value for name, value in {**GOOD, **values}.items() if value is not None}


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    """One of some texts of JSON, changed in one to three places."""
    content = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(content))
        content[at : at + rng.randint(0, 3)] = rng.choice([b"", b"9", b"-", b"e99", b"[", b"null", b"\xff", b"NaN"])
    return bytes(content)


def check(camera: Camera) -> None:
    assert torch.isfinite(camera.viewmat).all()
    assert torch.isfinite(camera.K).all()
    assert 0 < camera.near < math.inf
    assert min(camera.width, camera.height) >= 1
    assert torch.linalg.det(camera.viewmat[:3, :3].double()).item() == pytest.approx(1, abs=0.01)


def camera(position: tuple[float, float, float] = (0, 0, 0), rotation: Any = (1, 0, 0, 0), **values: Any) -> Camera:
    pose = {"position": list(position), "rotation": list(rotation)}
    return camera_from(changed(viewmat=None, K=None, **{"fov": 60, **pose, **values}))


def place(found: Camera) -> Tensor:
    return -found.viewmat[:3, :3].double().T @ found.viewmat[:3, 3].double()


def some_cameras(count: int) -> tuple[Camera, ...]:
    """Of different places, rotations, lenses and near planes."""
    rng = random.Random(count)
    return tuple(
        camera(
            (rng.uniform(-5, 5), rng.uniform(-5, 5), rng.uniform(-5, 5)),
            [rng.gauss(0, 1) for _ in range(4)],
            fov=rng.uniform(20, 90),
            near=rng.uniform(0.01, 1),
        )
        for _ in range(count)
    )


def middle_of(scene: Gaussians) -> Tensor:
    lower, upper = scene.bounds()
    return (lower + upper).double() / 2
