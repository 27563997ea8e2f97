"""Blending 3D Gaussians into images, each by its largest value along a pixel's ray (Wu et al., *3DGUT*, 2025).

Shapes: `...` leading dimensions of B sets in all, of N Gaussians each; C cameras that see each set, D channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import _kernels
from .autocast import in_float32
from .checks import (
    check_dimensions,
    check_memory,
    check_shape,
    check_tensor,
    checked_alpha,
    for_images,
    integer,
    shaped,
)
from .defaults import MAX_ALPHA
from .pixels import check_blending


@in_float32
def rasterize_along_rays(
    means: Tensor,
    frames: Tensor,
    colors: Tensor,
    opacities: Tensor,
    rays: Tensor,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None = None,
    masks: Tensor | None = None,
    *,
    max_alpha: float = MAX_ALPHA,
    distance_channel: int | None = None,
    normal_channel: int | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Blend Gaussians front to back, each with its largest value along the ray.

    That is :math:`\exp(-|u \times g|^2 / 2 |g|^2)` with :math:`u = M (o - \mu)` and :math:`g = M d`, for the frame M,
    the mean :math:`\mu` and the ray from o along d. The same as gsplat 1.5.3's `rasterize_to_pixels_eval3d`, but for
    what that knows of cameras. Differentiable with respect to means, frames, colors, opacities and backgrounds. It is
    faster if all rays of an image have one origin, that of the middle pixel: all but those of rolling shutters do.

    Args:
        means: float32 [..., N, 3], one for all cameras; the other tensors are on the same device.
        frames: float32 [..., N, 3, 3], whose rows are the Gaussian's axes, over their standard deviations.
        colors: float32 [..., C, N, D].
        opacities: float32 [..., C, N].
        rays: float32 [..., C, height, width, 6], origins and directions in space. Directions have any length; where one
            is zero, there is no ray, and nothing is drawn.
        tile_size: side of a tile in pixels, 1 to 32.
        isect_offsets: int32 [..., C, rows, columns], of `isect_offset_encode`, with as many tiles as the image needs.
        flatten_ids: int32 [L], of `isect_tiles`.
        backgrounds: float32 [..., C, D], or [D] for all images; None: zeros.
        masks: bool [..., C, rows, columns]; tiles where it is False show the background and give no gradients.
        max_alpha: as for `rasterize_to_pixels`.
        distance_channel: 0 to D - 1, or None: a channel that shows, in place of its colour, how far from its origin the
            ray is nearest to the mean as the frame measures it: :math:`|d| |u \cdot g| / |g|^2`.
        normal_channel: 0 to D - 3, or None: the first of three channels that are a vector; it is turned around where it
            points away from the ray's origin.

    Returns:
        Colours [..., C, height, width, D], and opacities [..., C, height, width, 1].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
        NotImplementedError: if rays require a gradient.
        RuntimeError: on CUDA, for gradients, where torch.use_deterministic_algorithms forbids them.
        torch.OutOfMemoryError: if images of a gigabyte or more do not fit into memory.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    check_tensor("means", means)
    for name, tensor, least, words in (
        ("means", means, 2, "[..., N, 3]"), ("frames", frames, 3, "[..., N, 3, 3]"),
        ("rays", rays, 4, "[..., C, height, width, 6]"),
    ):  # fmt: skip
        check_tensor(name, tensor, means)
        check_dimensions(name, tensor, least, words)
    if rays.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError("rays require a gradient, and there is no gradient by rays; pass rays.detach()")
    *sets, count, _ = means.shape
    cameras, height, width = rays.shape[-4:-1]
    images = (*sets, cameras)
    check_shape("means", means, (*sets, count, 3), "[..., N, 3]")
    check_shape("frames", frames, (*sets, count, 3, 3), "[..., N, 3, 3]")
    check_shape("rays", rays, (*images, height, width, 6), "[..., C, height, width, 6]")
    size = width, height, tile_size
    check_blending_in_space(means, cameras, colors, opacities, size, isect_offsets, flatten_ids, backgrounds, masks)
    _kernels.require_for(means, frames, colors, opacities, backgrounds, part="rays")
    total, channels, (rows, columns) = math.prod(images), colors.shape[-1], isect_offsets.shape[-2:]
    check_memory(total, height, width, channels, means.device)
    image, alphas, _ = torch.ops.splat.rasterize_along_rays(
        shaped(means, math.prod(sets), count, 3),
        shaped(frames, math.prod(sets), count, 3, 3),
        shaped(colors, total, count, channels),
        shaped(opacities, total, count),
        shaped(rays, total, height, width, 6),
        None if backgrounds is None else for_images(backgrounds, images, channels),
        None if masks is None else shaped(masks, total, rows, columns),
        tile_size,
        shaped(isect_offsets, total, rows, columns),
        flatten_ids,
        checked_alpha(max_alpha),
        _checked_channel("distance_channel", distance_channel, channels),
        _checked_channel("normal_channel", normal_channel, channels - 2),
    )
    return shaped(image, *images, height, width, channels), shaped(alphas, *images, height, width, 1)


def check_blending_in_space(
    means: Tensor,
    cameras: int,
    colors: Tensor,
    opacities: Tensor,
    size: tuple[int, int, int],
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None,
    masks: Tensor | None,
) -> tuple[int, int, int]:
    """`check_blending` of Gaussians, of which each of so many cameras sees each set."""
    *sets, count, _ = means.shape
    whole = means[..., None, :, :].expand(*sets, cameras, count, 3)
    lists = isect_offsets, flatten_ids, backgrounds, masks
    return check_blending({"means": (whole, (3,))}, colors, opacities, size, *lists, packed=False)


def _checked_channel(name: str, value: int | None, below: int) -> int | None:
    """The number of a channel, if any; raise TypeError or ValueError if it is none."""
    if value is None:
        return None
    value = integer(name, value)
    if not 0 <= value < below:
        raise ValueError(f"{name} must be 0 to {below - 1} with this many colours, found {value}")
    return value
