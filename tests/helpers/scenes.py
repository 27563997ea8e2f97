"""Scenes for tests: random ones of chosen kinds, drawn from a seed, and real ones where their files are."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from folders import REPOSITORY
from torch import Tensor


def real_scene(name: str) -> Path:
    """A file of the folder SPLAT_TEST_SCENES, else of shared/scenes beside the checkout or in it; else skips."""
    folder = os.environ.get("SPLAT_TEST_SCENES")
    folders = [Path(folder)] if folder else [base / "shared" / "scenes" for base in (REPOSITORY.parent, REPOSITORY)]
    for path in (folder / name for folder in folders):
        if path.exists():
            return path
    pytest.skip(f"{name} is not in {' or '.join(map(str, folders))}; SPLAT_TEST_SCENES names the folder")


SIZES = {"tiny": (0.0005, 0.01), "small": (0.01, 0.06), "mixed": (0.03, 0.25), "huge": (0.5, 3.0)}
OPACITIES = ("any", "faint", "solid", "zero", "edge")
VIEWS = ("front", "inside", "behind", "close", "beside")


@dataclass(frozen=True)
class Scene:
    """Arguments of `rasterization`, float32 on the CPU."""

    means: Tensor
    quats: Tensor
    scales: Tensor
    opacities: Tensor
    colors: Tensor
    viewmats: Tensor
    Ks: Tensor
    width: int
    height: int

    @property
    def arguments(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_colors(self, colors: Tensor) -> Scene:
        return replace(self, colors=colors)


def random_scene(
    seed: int,
    gaussians: int = 60,
    width: int = 33,
    height: int = 21,
    size: str = "small",
    opacity: str = "any",
    views: tuple[str, ...] = ("front",),
    channels: int = 3,
) -> Scene:
    """Gaussians in a ball of radius 1 around the origin, seen by one camera for each of `views`."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(gaussians, 3)) * 0.4
    low, high = SIZES[size]
    scales = np.exp(rng.uniform(np.log(low), np.log(high), size=(gaussians, 3)))
    # Lengths far from 1: quaternions need not be normalised.
    quats = rng.normal(size=(gaussians, 4)) * np.exp(rng.uniform(-3, 3, size=(gaussians, 1)))
    opacities = {
        "any": rng.uniform(0, 1, gaussians),
        "faint": rng.uniform(0, 0.03, gaussians),
        "solid": 1 - 0.05 * rng.uniform(0, 1, gaussians) ** 4,
        "zero": np.zeros(gaussians),
        "edge": rng.choice([0, 1 / 255, 0.5, 0.999, 1], gaussians),
    }[opacity]
    return Scene(
        means=_tensor(means),
        quats=_tensor(quats),
        scales=_tensor(scales),
        opacities=_tensor(opacities),
        colors=_tensor(rng.uniform(0, 1, size=(gaussians, channels))),
        viewmats=_tensor(np.stack([_view(rng, view) for view in views])),
        Ks=_tensor(np.stack([_intrinsics(rng, width, height) for _ in views])),
        width=width,
        height=height,
    )


def on_tile_edges(gaussians: int = 24, tile_size: int = 16, width: int = 47, height: int = 35) -> Scene:
    """Gaussians whose means, borders or both lie exactly on borders between tiles and pixels."""
    rng = np.random.default_rng(5)
    focal, depth = 32.0, 2.0
    corners = rng.integers(0, 4, size=(gaussians, 2)) * tile_size
    steps = rng.choice([0.0, 0.5, -0.5, 3.0, -3.0], size=(gaussians, 2))
    xy = (corners + steps - np.array([width, height]) / 2) * depth / focal
    return Scene(
        means=_tensor(np.concatenate([xy, depth + 0.01 * np.arange(gaussians)[:, None]], axis=1)),
        quats=_tensor(np.tile([1.0, 0, 0, 0], (gaussians, 1))),
        scales=_tensor(np.tile(rng.uniform(0.01, 0.15, size=(gaussians, 1)), (1, 3))),
        opacities=_tensor(np.full(gaussians, 0.6)),
        colors=_tensor(rng.uniform(0, 1, size=(gaussians, 3))),
        viewmats=torch.eye(4)[None],
        Ks=_tensor(np.array([[[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]]])),
        width=width,
        height=height,
    )


def garden(reduction: int) -> Scene:
    """The points of the garden as Gaussians of a fixed random shape, images reduced by a factor."""
    with np.load(real_scene("test_garden.npz")) as data:
        near = (np.abs(data["means3d"]) <= 2).all(axis=1)
        means, colors = data["means3d"][near], data["colors"][near] / 255
        viewmats, Ks = data["viewmats"], data["Ks"].copy()
        width, height = int(data["width"]) // reduction, int(data["height"]) // reduction
    Ks[:, :2] /= reduction
    rng = np.random.default_rng(42)
    return Scene(
        means=_tensor(means),
        quats=_tensor(rng.normal(size=(len(means), 4))),
        scales=_tensor(rng.uniform(0, 0.02, size=(len(means), 3))),
        opacities=_tensor(rng.uniform(0, 1, len(means))),
        colors=_tensor(colors),
        viewmats=_tensor(viewmats),
        Ks=_tensor(Ks),
        width=width,
        height=height,
    )


def _view(rng: np.random.Generator, view: str) -> np.ndarray:
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    rotation = q * np.sign(np.linalg.det(q))
    distance = {"front": 2.5, "inside": 0.0, "behind": -2.5, "close": 1.0, "beside": 1.5}[view]
    matrix = np.eye(4)
    matrix[:3, :3] = rotation
    matrix[:3, 3] = [1.2 if view == "beside" else 0.0, 0.1, distance]
    return matrix


def _intrinsics(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    fx, fy = max(width, height) * rng.uniform(0.6, 1.6, size=2)
    cx, cy = width * rng.uniform(0.3, 0.7), height * rng.uniform(0.3, 0.7)
    return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))
