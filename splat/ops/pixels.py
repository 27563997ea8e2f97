"""Blending projected Gaussians into images.

Shapes: `...` leading dimensions of I images in all, N Gaussians of each, M rows of a packed layout, D channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import _kernels
from .autocast import in_float32
from .checks import (
    MAX_SIDE,
    MAX_TILE_SIZE,
    check_backgrounds,
    check_channels,
    check_count,
    check_dimensions,
    check_memory,
    check_shape,
    check_tensor,
    check_tiles,
    check_values,
    checked_alpha,
    for_images,
    positive_int,
    shape_of,
    shaped,
)
from .defaults import MAX_ALPHA


@in_float32
def rasterize_to_pixels(
    means2d: Tensor,
    conics: Tensor,
    colors: Tensor,
    opacities: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None = None,
    masks: Tensor | None = None,
    packed: bool = False,
    absgrad: bool = False,
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor]:
    r"""Blend Gaussians front to back, :math:`C = \sum_i c_i \alpha_i \prod_{j<i} (1 - \alpha_j)`.

    Kerbl et al. (2023), equation 3. The same as gsplat 1.5.3's function, except that it takes any number of channels,
    and backgrounds in a packed layout too. Differentiable with respect to means2d, conics, colors, opacities and
    backgrounds.

    Args:
        means2d: float32 [..., N, 2], or [M, 2] if `packed`; the other tensors are on the same device.
        conics: float32 [..., N, 3] or [M, 3], upper triangles of the inverse covariances.
        colors: float32 [..., N, D] or [M, D], D >= 1.
        opacities: float32 [..., N] or [M].
        image_width: in pixels.
        image_height: in pixels.
        tile_size: side of a tile in pixels, 1 to 32.
        isect_offsets: int32 [..., rows, columns], of `isect_offset_encode`, with as many tiles as the image needs.
        flatten_ids: int32 [L], of `isect_tiles`.
        backgrounds: float32 [..., D], or [D] for all images; None: zeros.
        masks: bool [..., rows, columns]; tiles where it is False show the background and give no gradients.
        packed: whether the Gaussians are packed.
        absgrad: the backward pass sets `means2d.absgrad`, of the shape of means2d, to the sums over the pixels of the
            absolute gradients (Ye et al., *AbsGS*, 2024).
        max_alpha: not in gsplat: what an alpha is at most; 0.99 draws as gsplat 1.6 and Kerbl et al. (2023) do.

    Returns:
        Colours [..., image_height, image_width, D], and opacities [..., image_height, image_width, 1].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
        torch.OutOfMemoryError: if images of a gigabyte or more do not fit into memory.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    width, height, size = check_blending(
        {"means2d": (means2d, (2,)), "conics": (conics, (3,))}, colors, opacities,
        (image_width, image_height, tile_size), isect_offsets, flatten_ids, backgrounds, masks, packed,
    )  # fmt: skip
    return rasterize(
        means2d,
        conics,
        colors,
        opacities,
        backgrounds,
        masks,
        width,
        height,
        size,
        isect_offsets,
        flatten_ids,
        packed=packed,
        absgrad=absgrad,
        max_alpha=checked_alpha(max_alpha),
    )


def check_blending(
    others: dict[str, tuple[Tensor, tuple[int, ...]]],
    colors: Tensor,
    opacities: Tensor,
    size: tuple[int, int, int],
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None,
    masks: Tensor | None,
    packed: bool,
) -> tuple[int, int, int]:
    """Check Gaussians in images and their lists; return the checked width and height of an image, and side of a tile.

    `others` are tensors [..., N, *] or [M, *] by name, with what * must be; the first says what the rest is.
    """
    first, (like, ending) = next(iter(others.items()))
    check_tensor(first, like)
    width, height = (
        positive_int(name, each, MAX_SIDE) for name, each in zip(("image_width", "image_height"), size[:2], strict=True)
    )
    side = positive_int("tile_size", size[2], MAX_TILE_SIZE)
    rows, columns = -(-height // side), -(-width // side)
    for name, tensor in (*((name, tensor) for name, (tensor, _) in others.items()), ("colors", colors)):
        check_tensor(name, tensor, like)
    check_tensor("opacities", opacities, like)
    for name, tensor in (("isect_offsets", isect_offsets), ("flatten_ids", flatten_ids)):
        check_tensor(name, tensor, like, torch.int32)
    words = "M" if packed else "..., N"
    check_dimensions(first, like, 2, f"[{words}, {ending[0]}]")
    check_dimensions("isect_offsets", isect_offsets, 2, "[..., rows, columns]")
    lead = tuple(like.shape[:-1])
    if packed and len(lead) != 1:
        raise ValueError(f"{first} must have shape [M, {ending[0]}] if packed, found {shape_of(like)}")
    images = tuple(isect_offsets.shape[:-2]) if packed else lead[:-1]
    for name, (tensor, ending) in others.items():
        check_shape(name, tensor, (*lead, *ending), f"[{', '.join([words, *map(str, ending)])}]")
    check_shape("opacities", opacities, lead, f"[{words}]")
    check_dimensions("colors", colors, 1, f"[{words}, D]")
    channels = colors.shape[-1]
    check_shape("colors", colors, (*lead, channels), f"[{words}, D]")
    check_channels(colors)
    count = math.prod(images)
    check_tiles(count, columns, rows)
    check_count("images x Gaussians", 1 if packed else count, lead[-1])
    check_values(count, height, width, channels)
    check_shape("isect_offsets", isect_offsets, (*images, rows, columns), "[..., rows, columns]")
    check_shape("flatten_ids", flatten_ids, (flatten_ids.numel(),), "[L]")
    check_count("entries of flatten_ids", flatten_ids.shape[0])
    if backgrounds is not None:
        check_tensor("backgrounds", backgrounds, like)
        check_backgrounds(backgrounds, images, channels)
    if masks is not None:
        check_tensor("masks", masks, like, torch.bool)
        check_shape("masks", masks, (*images, rows, columns), "[..., rows, columns]")
    return width, height, side


def rasterize(
    means2d: Tensor,
    conics: Tensor,
    colors: Tensor,
    opacities: Tensor,
    backgrounds: Tensor | None,
    masks: Tensor | None,
    width: int,
    height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    *,
    packed: bool,
    absgrad: bool,
    max_alpha: float,
) -> tuple[Tensor, Tensor]:
    """`rasterize_to_pixels` without its checks."""
    _kernels.require_for(means2d, conics, colors, opacities, backgrounds)
    *images, rows, columns = isect_offsets.shape
    count, channels = math.prod(images), colors.shape[-1]
    check_memory(count, height, width, channels, means2d.device)
    flat = means2d.shape[:-1] if packed else (count, means2d.shape[-2])
    inputs = (
        shaped(means2d, *flat, 2),
        shaped(conics, *flat, 3),
        shaped(colors, *flat, channels),
        shaped(opacities, *flat),
        None if backgrounds is None else for_images(backgrounds, images, channels),
        None if masks is None else shaped(masks, count, rows, columns),
        width,
        height,
        tile_size,
        shaped(isect_offsets, count, rows, columns),
        flatten_ids,
        max_alpha,
    )
    if absgrad:
        from .rasterize_gradient import rasterize_with_absgrad  # not at the top: only training needs it

        image, alphas, _ = rasterize_with_absgrad(means2d, *inputs)
    else:
        image, alphas, _ = torch.ops.splat.rasterize(*inputs)
    return shaped(image, *images, height, width, channels), shaped(alphas, *images, height, width, 1)
