"""Functions of gsplat before 1.0, which 1.0 to 1.3 have too: of one image, in their own words; for `splat.as_gsplat`.

The picture is `splat.rasterization`'s: as in gsplat 1.4.0, theirs cuts Gaussians off at 3 standard deviations.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..ops import harmonics
from ..ops.intersection import isect_offset_encode, isect_tiles
from ..ops.pixels import rasterize_to_pixels
from ..ops.projection import fully_fused_projection, quat_scale_to_covar_preci


def project_gaussians(
    means3d: Tensor,
    scales: Tensor,
    glob_scale: float,
    quats: Tensor,
    viewmat: Tensor,
    fx: float,
    fy: float,
    cx: float,
    cy: float,
    img_height: int,
    img_width: int,
    block_width: int,
    clip_thresh: float = 0.01,
) -> tuple[Tensor, ...]:
    """Project N Gaussians into an image. Differentiable by means3d, scales, quats and viewmat.

    Args:
        means3d: [N, 3] centres; this and the other tensors float32.
        scales: [N, 3] standard deviations.
        glob_scale: what all of them are multiplied by.
        quats: [N, 4] rotations w, x, y, z.
        viewmat: [3, 4] or [4, 4], from the world to the camera.
        fx: focal length in pixels, as fy; cx and cy are the principal point.
        fy: as fx.
        cx: as fx.
        cy: as fx.
        img_height: in pixels.
        img_width: in pixels.
        block_width: side of a tile in pixels.
        clip_thresh: Gaussians nearer than this are culled.

    Returns:
        Centres in the image [N, 2], depths [N], radii (int32 [N], 0 where culled), conics [N, 3], compensations [N],
        numbers of tiles (int32 [N]) and upper triangles of the covariances in space [N, 6].

    Raises:
        TypeError, ValueError: as `splat.fully_fused_projection`.
    """
    pose = pad(viewmat[:3], (0, 0, 0, 1)) + torch.diag(viewmat.new_tensor([0.0, 0, 0, 1]))
    K = means3d.new_tensor([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    sizes = scales * glob_scale
    found = fully_fused_projection(
        means3d, None, quats, sizes, pose[None], K[None], img_width, img_height, near_plane=clip_thresh,
        calc_compensations=True,
    )  # fmt: skip
    assert len(found) == 5
    radii, means2d, depths, conics, compensations = found
    assert compensations is not None
    tiles = -(-img_width // block_width), -(-img_height // block_width)
    counts, _, _ = isect_tiles(means2d, radii, depths, block_width, *tiles)
    covars, _ = quat_scale_to_covar_preci(quats, sizes, compute_preci=False, triu=True)
    assert covars is not None
    return means2d[0], depths[0], radii[0].amax(-1), conics[0], compensations[0], counts[0], covars


def rasterize_gaussians(
    xys: Tensor,
    depths: Tensor,
    radii: Tensor,
    conics: Tensor,
    num_tiles_hit: Tensor,
    colors: Tensor,
    opacity: Tensor,
    img_height: int,
    img_width: int,
    block_width: int,
    background: Tensor | None = None,
    return_alpha: bool | None = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Blend what `project_gaussians` returns. Differentiable by xys, conics, colors, opacity and background.

    Args:
        xys: [N, 2].
        depths: [N].
        radii: int32 [N].
        conics: [N, 3].
        num_tiles_hit: has no effect.
        colors: [N, D], or uint8, of 255 levels.
        opacity: [N, 1].
        img_height: in pixels.
        img_width: in pixels.
        block_width: side of a tile in pixels.
        background: [D]; None: ones.
        return_alpha: whether to return opacities too.

    Returns:
        The image [img_height, img_width, D]; with return_alpha, also its opacities [img_height, img_width].

    Raises:
        TypeError, ValueError: as `splat.rasterize_to_pixels`.
    """
    if colors.dtype == torch.uint8:
        colors = colors.float() / 255
    columns, rows = -(-img_width // block_width), -(-img_height // block_width)
    both = torch.stack([radii, radii], dim=-1)[None]
    splats, opacities = (xys[None], conics[None]), opacity.reshape(1, -1)
    seen = xys[None], both, depths[None], block_width, columns, rows
    _, keys, flatten_ids = isect_tiles(*seen, conics=conics[None], opacities=opacities)
    offsets = isect_offset_encode(keys, 1, columns, rows)
    backgrounds = colors.new_ones(1, colors.shape[-1]) if background is None else background[None]
    images, alphas = rasterize_to_pixels(
        *splats, colors[None], opacities, img_width, img_height, block_width, offsets, flatten_ids, backgrounds
    )
    return (images[0], alphas[0, ..., 0]) if return_alpha else images[0]


def spherical_harmonics(degrees_to_use: int, viewdirs: Tensor, coeffs: Tensor, method: str = "fast") -> Tensor:
    """`splat.spherical_harmonics`; `method` has no effect."""
    return harmonics.spherical_harmonics(degrees_to_use, viewdirs, coeffs)
