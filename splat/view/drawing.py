"""One picture of a scene in the chosen mode: its colours, depth, opacity, or the number of Gaussians in each tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..ops.rendering import rasterization
from ..scene.camera import Camera
from ..scene.gaussians import Gaussians
from ..scene.image import to_8_bit

MODES: Final = ("colour", "depth", "alpha", "count")
TILE: Final = 16
"""The side of the tiles of which the mode "count" shows the lists, in pixels."""

Picture = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Look:
    """What is drawn, and how; the camera is given separately."""

    scene: Gaussians
    mode: str
    """One of `MODES`."""
    degree: int
    """The highest degree of spherical harmonics to use, at most the scene's."""
    background: tuple[float, float, float]
    """Red, green and blue, 0 to 1, behind the colours; the other modes have black."""
    near: float
    """The distance of the near plane."""


def rasterized(
    scene: Gaussians, camera: Camera, colors: Tensor, **options: Any
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """What `rasterization` gives for a scene, drawn as it says, and one camera."""
    device = scene.means.device
    with torch.no_grad():
        return rasterization(
            *scene.tensors[:4],
            colors,
            camera.viewmat[None].to(device),
            camera.K[None].to(device),
            camera.width,
            camera.height,
            near_plane=camera.near,
            far_plane=camera.far,
            rasterize_mode="antialiased" if scene.antialiased else "classic",
            **options,
        )


def draw(look: Look, camera: Camera) -> Picture:
    """The picture, [H, W, 3] uint8.

    - "colour": as `splat render` draws it, byte for byte.
    - "depth": the expected depth of each pixel, the nearest white, the farthest dark grey; between the 1st and the 99th
      percentile of the pixels that are covered by half or more. The others are black.
    - "alpha": the opacity of each pixel.
    - "count": how many Gaussians are listed for each tile of 16x16 pixels of this picture, against the fullest one.
    """
    scene = look.scene
    coloured = look.mode == "colour"
    images, alphas, meta = rasterized(
        scene,
        camera,
        scene.sh if coloured else scene.opacities[:, None],
        sh_degree=look.degree if coloured else None,
        backgrounds=scene.means.new_tensor([look.background]) if coloured else None,
        render_mode="ED" if look.mode == "depth" else "RGB",
        tile_size=TILE,
    )
    if coloured:
        return to_8_bit(images[0])
    alpha = alphas[0, ..., 0]
    if look.mode == "depth":
        grey = depth_as_grey(images[0, ..., 0], alpha)
    elif look.mode == "count":
        grey = counts_as_grey(meta["isect_offsets"][0], meta["flatten_ids"].numel(), camera.width, camera.height)
    else:
        grey = alpha
    return to_8_bit(grey[..., None].expand(-1, -1, 3))


def depth_as_grey(depth: Tensor, alpha: Tensor) -> Tensor:
    """[H, W] from 1, near, to 0.1, far; 0 where `alpha` is below a half."""
    covered = alpha >= 0.5
    values = depth[covered]
    if not len(values):
        return torch.zeros_like(depth)
    ordered = values.sort().values
    near, far = (float(ordered[round(share * (len(ordered) - 1))]) for share in (0.01, 0.99))
    distance = ((depth - near) / max(far - near, 1e-30)).clamp(0, 1)
    return torch.where(covered, 1 - 0.9 * distance, 0.0)


def counts_as_grey(offsets: Tensor, listed: int, width: int, height: int) -> Tensor:
    """[H, W], the length of each tile's list against the longest.

    Args:
        offsets: [tile rows, tile columns], where the run of each tile starts.
        listed: the length of all runs together.
        width: of the image in pixels.
        height: of the image in pixels.
    """
    ends = torch.cat([offsets.flatten()[1:], offsets.new_tensor([listed])])
    counts = (ends - offsets.flatten()).reshape(offsets.shape).float()
    shares = counts / counts.max().clamp_min(1)
    return shares.repeat_interleave(TILE, 0).repeat_interleave(TILE, 1)[:height, :width]
