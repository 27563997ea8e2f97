"""gsplat 1.4.0's `rasterization`, for programs that are pinned to it, such as Nerfstudio 1.1.5::

    from splat.compat.gsplat14 import rasterization  # was: from gsplat.rendering import rasterization

Programs for gsplat 1.5.3 import `splat.rasterization`. Between the two, `radii` became two numbers, and `segmented`
came in between two parameters.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..ops import rendering
from ..ops.arguments import RasterizeMode, RenderMode
from ..ops.defaults import EPS2D, FAR_PLANE, NEAR_PLANE

__all__ = ["rasterization"]


def rasterization(
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float = NEAR_PLANE,
    far_plane: float = FAR_PLANE,
    radius_clip: float = 0.0,
    eps2d: float = EPS2D,
    sh_degree: int | None = None,
    packed: bool = True,
    tile_size: int = 16,
    backgrounds: Tensor | None = None,
    render_mode: RenderMode = "RGB",
    sparse_grad: bool = False,
    absgrad: bool = False,
    rasterize_mode: RasterizeMode = "classic",
    channel_chunk: int = 32,
    distributed: bool = False,
    camera_model: str = "pinhole",
    covars: Tensor | None = None,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """`splat.rasterization`, which documents the parameters, with gsplat 1.4.0's order of them and its `radii`.

    `meta["radii"]` is one number for each Gaussian, int32 [C, N] or [M], the larger of the two axes', which is what the
    strategies of gsplat 1.4.0 read. The picture is that of `splat.rasterization`, and so of gsplat 1.5.3: 1.4.0 itself
    cuts Gaussians off at 3 standard deviations along the longer axis, 1.5.3 at 3.33 along each, or where they fade out.

    Returns:
        Images, opacities and `meta`, as `splat.rasterization`.

    Raises:
        NotImplementedError, TypeError, ValueError, IncompatibleArtifactError: as `splat.rasterization`.
    """
    images, alphas, meta = rendering.rasterization(
        means, quats, scales, opacities, colors, viewmats, Ks, width, height,
        near_plane=near_plane, far_plane=far_plane, radius_clip=radius_clip, eps2d=eps2d, sh_degree=sh_degree,
        packed=packed, tile_size=tile_size, backgrounds=backgrounds, render_mode=render_mode, sparse_grad=sparse_grad,
        absgrad=absgrad, rasterize_mode=rasterize_mode, channel_chunk=channel_chunk, distributed=distributed,
        camera_model=camera_model, covars=covars,
    )  # fmt: skip
    meta["radii"] = meta["radii"].amax(-1)
    return images, alphas, meta
