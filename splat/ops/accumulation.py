"""Blending the Gaussians, or 2D Gaussians, that pixels show, from lists of them, as an expression of torch.

Shapes: `...` leading dimensions of I images in all, N Gaussians of each, D channels, M pairs of pixel and Gaussian.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .autocast import in_float32
from .blended_lists import FlatSplats, Shapes, check_splats, flat_splats
from .checks import MAX_SIDE, check_channels, check_dimensions, check_ids, check_shape, check_tensor, positive_int
from .defaults import MAX_ALPHA


@in_float32
def accumulate(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    colors: Tensor,
    gaussian_ids: Tensor,
    pixel_ids: Tensor,
    image_ids: Tensor,
    image_width: int,
    image_height: int,
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor]:
    r"""Blend given pairs of pixel and Gaussian front to back.

    :math:`C = \sum_i c_i \alpha_i \prod_{j<i} (1 - \alpha_j)`, Kerbl et al. (2023), equation 3. gsplat 1.5.3's
    function, without nerfacc, which that one needs. Differentiable with respect to means2d, conics, opacities and
    colors. All pairs are blended, also those that the rasterizer would skip.

    Args:
        means2d: float32 [..., N, 2]; the other tensors are on the same device.
        conics: float32 [..., N, 3], upper triangles of the inverse covariances.
        opacities: float32 [..., N].
        colors: float32 [..., N, D], D >= 1.
        gaussian_ids: int64 [M], 0 to N - 1.
        pixel_ids: int64 [M], row * image_width + column.
        image_ids: int64 [M], 0 to I - 1. Pairs of one pixel are blended in the order in which they are given.
        image_width: in pixels.
        image_height: in pixels.
        max_alpha: as for `rasterization`.

    Returns:
        Colours [..., image_height, image_width, D], and opacities [..., image_height, image_width, 1].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    splats = means2d, Shapes("conics", conics), opacities, colors
    return _accumulate(*splats, gaussian_ids, pixel_ids, image_ids, image_width, image_height, max_alpha)


@in_float32
def accumulate_2dgs(
    means2d: Tensor,
    ray_transforms: Tensor,
    opacities: Tensor,
    colors: Tensor,
    normals: Tensor,
    gaussian_ids: Tensor,
    pixel_ids: Tensor,
    image_ids: Tensor,
    image_width: int,
    image_height: int,
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor, Tensor]:
    """Blend given pairs of pixel and 2D Gaussian front to back, as `accumulate` does, and the Gaussians' normals too.

    Args:
        means2d: float32 [..., N, 2]; the other tensors are on the same device.
        ray_transforms: float32 [..., N, 3, 3], of `fully_fused_projection_2dgs`.
        opacities: float32 [..., N].
        colors: float32 [..., N, D], D >= 1.
        normals: float32 [..., N, 3].
        gaussian_ids: int64 [M], 0 to N - 1.
        pixel_ids: int64 [M], row * image_width + column.
        image_ids: int64 [M], 0 to I - 1.
        image_width: in pixels.
        image_height: in pixels.
        max_alpha: as for `rasterization`.

    Returns:
        Colours [..., image_height, image_width, D], opacities with one channel, and normals with three.

    Raises:
        TypeError, ValueError: as `accumulate`.
    """
    check_tensor("means2d", means2d)
    check_tensor("normals", normals, means2d)
    check_tensor("colors", colors, means2d)
    check_shape("normals", normals, (*means2d.shape[:-1], 3), "[..., N, 3]")
    check_dimensions("colors", colors, 1, "[..., N, D]")
    check_shape("colors", colors, (*means2d.shape[:-1], colors.shape[-1]), "[..., N, D]")
    splats = means2d, Shapes("ray_transforms", ray_transforms), opacities, torch.cat([colors, normals], dim=-1)
    images, alphas = _accumulate(*splats, gaussian_ids, pixel_ids, image_ids, image_width, image_height, max_alpha)
    return images[..., :-3], alphas, images[..., -3:]


def _accumulate(
    means2d: Tensor,
    shapes: Shapes,
    opacities: Tensor,
    colors: Tensor,
    gaussian_ids: Tensor,
    pixel_ids: Tensor,
    image_ids: Tensor,
    image_width: int,
    image_height: int,
    max_alpha: float,
) -> tuple[Tensor, Tensor]:
    width = positive_int("image_width", image_width, MAX_SIDE)
    height = positive_int("image_height", image_height, MAX_SIDE)
    check_tensor("means2d", means2d)
    check_tensor("colors", colors, means2d)
    lead = check_splats(means2d, shapes, opacities)
    images, count = lead[:-1], lead[-1]
    check_dimensions("colors", colors, 1, "[..., N, D]")
    channels = colors.shape[-1]
    check_shape("colors", colors, (*lead, channels), "[..., N, D]")
    check_channels(colors)
    limits = {"gaussian_ids": count, "pixel_ids": width * height, "image_ids": math.prod(images)}
    for (name, limit), ids in zip(limits.items(), (gaussian_ids, pixel_ids, image_ids), strict=True):
        check_tensor(name, ids, means2d, torch.int64)
        check_shape(name, ids, (gaussian_ids.numel(),), "[M]")
        check_ids(name, ids, limit)

    rays, order = (image_ids * width * height + pixel_ids).sort(stable=True)
    rows = (image_ids * count + gaussian_ids)[order]
    splats = flat_splats(means2d, shapes, opacities, max_alpha)
    weights = blended_weights(rays, rows, splats, (width, height))
    total = math.prod(images) * width * height
    values = torch.cat([colors.reshape(-1, channels)[rows], torch.ones_like(weights[:, None])], dim=-1)
    sums = means2d.new_zeros(total, channels + 1).index_add(0, rays, weights[:, None] * values)
    whole = sums.reshape(*images, height, width, channels + 1)
    return whole[..., :channels], whole[..., channels:]


def blended_weights(pixels: Tensor, ids: Tensor, splats: FlatSplats, size: tuple[int, int]) -> Tensor:
    """How much of each Gaussian its pixel shows, [M], of pairs and Gaussians as of `blended_pairs`."""
    width, height = size
    within = pixels % (width * height)
    x, y = (within % width).float() + 0.5, (within // width).float() + 0.5
    _, alphas = splats.alphas(ids, x, y)
    return alphas * _transmittances(alphas, pixels)


def _transmittances(alphas: Tensor, rays: Tensor) -> Tensor:
    """What is left of each ray before each of its Gaussians; [M], ordered by ray."""
    # As sums of logarithms over all rays at once, from which those before the ray are taken away; in float64, so that
    # the difference keeps its digits.
    logs = torch.log1p(-alphas.double())
    before = logs.cumsum(0) - logs
    firsts = torch.searchsorted(rays, rays)
    return (before - before[firsts]).exp().float()
