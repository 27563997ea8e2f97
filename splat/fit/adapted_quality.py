"""The quality of a scene after exposure and pose were fitted to the pictures that it is measured by.

A picture that nothing was fitted to has no map of colours and no corrected camera. Papers on such models fit both to it
while the scene stays as it is, and measure then. That uses the picture that is measured by, so it is a second number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import torch

from ..scene.gaussians import Gaussians
from .camera_corrections import CameraCorrections
from .color_maps import with_colors_of
from .losses import training_loss
from .picture_quality import Quality, judge
from .views import Views, render

_STEPS: Final = 60


class Adapted(NamedTuple):
    """How well a scene shows some pictures after something was fitted to each of them."""

    quality: Quality
    cameras: bool
    colors: bool

    @property
    def what(self) -> str:
        """What was done, in words."""
        done = ["refining the camera"] * self.cameras + ["fitting the colours"] * self.colors
        return " and ".join(done)


def judge_adapted(scene: Gaussians, views: Views, extent: float, cameras: bool, colors: bool) -> Adapted:
    """PSNR and SSIM of each of the pictures after its camera was refined, and then its colours fitted, by itself."""
    if cameras:
        views = _refined(scene, views, extent)
    return Adapted(judge(scene, views, with_colors_of if colors else None), cameras, colors)


def _refined(scene: Gaussians, views: Views, extent: float) -> Views:
    """The pictures, each with the camera that shows the scene most like it."""
    found = []
    for view in range(len(views)):
        one = views.select([view])
        # With a single camera everything would be common to all.
        camera = CameraCorrections(one.viewmats, extent, _STEPS, common=True)
        for step in range(1, _STEPS + 1):
            image, _ = render(scene, one, 0, scene.degree, viewmats=camera.viewmats_of([0]))
            training_loss(image, one.target(0), one.mask(0)).backward()
            camera.values.step([0], step)
        found.append(camera.corrected()[0])
    return replace(views, viewmats=torch.stack(found))
