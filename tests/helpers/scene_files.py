"""Scenes that every file format can hold, and what reading a hostile file may cost."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from splat.scene.formats import read_scene
from splat.scene.gaussians import Gaussians, SceneError

MEBIBYTE = 2**20


def some_scene(n: int = 300, degree: int = 3, seed: int = 0, extent: float = 3.0) -> Gaussians:
    """Gaussians that every format can hold."""
    rng = np.random.default_rng(seed)
    sh = np.clip(rng.normal(size=(n, (degree + 1) ** 2, 3)) * 0.3, -0.9, 0.9)
    arrays = (
        rng.normal(size=(n, 3)) * extent,
        rng.normal(size=(n, 4)) * np.exp(rng.uniform(-2, 2, size=(n, 1))),
        np.exp(rng.uniform(-9, 5, size=(n, 3))),
        rng.uniform(0, 1, n),
        sh,
    )
    return Gaussians(*(torch.from_numpy(np.asarray(array, np.float32)) for array in arrays))


def angles(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Angles in radians between rotations [N, 4]."""
    a, b = (torch.nn.functional.normalize(q.double(), dim=1) for q in (a, b))
    return 2 * (a * b).sum(dim=1).abs().clamp(max=1).acos()


def refused_in_little_memory(path: Path, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(SceneError, match=message) as raised:
            read_scene(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(raised.value).startswith(f"{path}: ")
    assert peak < 4 * MEBIBYTE
