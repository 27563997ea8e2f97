"""What cameras see of a scene, and what is left out of it."""

from __future__ import annotations

import pytest
import torch
from scene_files import some_scene

from splat.scene import pruning as module
from splat.scene.camera import Camera
from splat.scene.gaussians import Gaussians
from splat.scene.pruning import Pruning, prune_scene, seen_by


def looking_ahead(x: float = 0.0) -> Camera:
    """At x, 0, 0, along z; it sees half as far aside as ahead."""
    viewmat = torch.eye(4)
    viewmat[0, 3] = -x
    return Camera(viewmat, torch.tensor([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]]), 100, 100, 0.1)


PLACES = {
    "ahead": (0.0, 0.0, 2.0),
    "at the edge": (0.99, -0.99, 2.0),
    "aside": (1.01, 0.0, 2.0),
    "above": (0.0, -1.01, 2.0),
    "behind": (0.0, 0.0, -2.0),
    "before the near plane": (0.0, 0.0, 0.09),
    "far": (0.0, 0.0, 50.0),
}


@pytest.fixture
def scene() -> Gaussians:
    scene = some_scene(len(PLACES))
    scene.means[:] = torch.tensor([*PLACES.values()])
    scene.scales[:] = torch.tensor([0.2, 0.5, 0.1])
    return scene


def named(values: torch.Tensor) -> dict[str, float]:
    return dict(zip(PLACES, values.tolist(), strict=True))


@pytest.mark.parametrize("at_once", [2, 2**16])
def test_who_sees_what_and_how_large(scene: Gaussians, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    back = looking_ahead()
    back.viewmat[2, 3] = 10  # ten units behind: all of it is in its picture
    counts, sizes = seen_by(scene, [looking_ahead(), looking_ahead(0.5), back])
    assert named(counts) == {
        "ahead": 3, "at the edge": 3, "aside": 2, "above": 1, "behind": 1, "before the near plane": 1, "far": 3
    }  # fmt: skip
    assert named(sizes) == pytest.approx(
        {
            "ahead": 0.25, "at the edge": 0.25, "aside": 0.25, "above": 0.5 / 12, "behind": 0.5 / 8,
            "before the near plane": 0.5 / 10.09, "far": 0.01,
        }
    )  # fmt: skip


def test_what_nobody_sees_has_no_size(scene: Gaussians) -> None:
    counts, sizes = seen_by(scene, [looking_ahead(1e6)])
    assert (counts.tolist(), sizes.tolist()) == ([0] * 7, [0] * 7)


def test_each_reason_is_counted_and_nothing_else_changes(scene: Gaussians) -> None:
    scene.opacities[:] = torch.tensor([1.0, 0.2, 0.2, 1, 1, 1, 1])
    cameras = [looking_ahead(), looking_ahead(-0.5)]
    found, counts = prune_scene(scene, Pruning(0.3, 1, 0.2), cameras)
    assert counts == {
        "of opacity below 0.3": 2,
        "that fewer than 1 of 2 cameras see": 4,
        "larger than 0.2 of their distance": 2,
    }
    assert torch.equal(found.means, scene.means[-1:])
    untouched, none = prune_scene(scene, Pruning())
    assert (len(untouched), none) == (len(scene), {})
    assert len(prune_scene(scene.select(slice(0)), Pruning(0.3, 1, 0.2), cameras)[0]) == 0
