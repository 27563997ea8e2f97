"""The difference between images: structural similarity (SSIM), and the loss of training.

Shapes: `...` leading dimensions of I images in all, H x W pixels with D channels each.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import torch
from torch import Tensor

from .. import _kernels
from .autocast import in_float32
from .checks import MAX_SIDE, check_count, check_shape, check_tensor, one_of, shape_of, shaped

_WINDOW: Final = 11  # kWindowTaps of csrc/math/ssim.h
_PADDINGS: Final = ("same", "valid")


@in_float32
def fused_ssim(img1: Tensor, img2: Tensor, padding: Literal["same", "valid"] = "same", train: bool = True) -> Tensor:
    """Mean structural similarity of images with values from 0 to 1: 1 where they are the same.

    Wang et al., *Image Quality Assessment: From Error Visibility to Structural Similarity* (2004), equation 13, over
    windows of 11 x 11 pixels weighted by a Gaussian of 1.5 pixels. The parameters are those of the package fused-ssim.
    Differentiable with respect to img1. Images whose channels are neighbours in memory, as a picture of `rasterization`
    after `permute(0, 3, 1, 2)`, are not copied.

    Args:
        img1: float32 [B, C, H, W].
        img2: float32 [B, C, H, W], on the same device; it must not require a gradient.
        padding: "same": there are zeros around the images; "valid": the mean is over the pixels whose windows are
            within the image, of which there must be some.
        train: whether img1 gets a gradient, for which three numbers of each value are kept.

    Returns:
        float32 []

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    one_of("padding", padding, _PADDINGS)
    check_tensor("img1", img1)
    check_tensor("img2", img2, img1)
    if img1.ndim != 4 or img1.numel() == 0:
        raise ValueError(f"img1 must have shape [B, C, H, W] with at least one value, found {shape_of(img1)}")
    check_shape("img2", img2, img1.shape, "[B, C, H, W]")
    least, margin = (_WINDOW, _WINDOW // 2) if padding == "valid" else (1, 0)
    height, width = img1.shape[2:]
    if min(height, width) < least or max(height, width) > MAX_SIDE:
        raise ValueError(
            f"img1 must have {least} to {MAX_SIDE} pixels a side with padding={padding!r}, found {height} x {width}"
            + ('; pass padding="same"' if max(height, width) <= MAX_SIDE else "; pass parts of the images")
        )
    if img2.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            "img2 must not require a gradient, which is found for img1 alone; pass img2.detach(), or exchange the two"
        )
    image, target = (img1 if train else img1.detach()), img2
    if img1.movedim(1, -1).is_contiguous():
        image, target = image.movedim(1, -1), target.movedim(1, -1)
    else:
        image, target = image.flatten(0, 1)[..., None], target.flatten(0, 1)[..., None]
    return image_loss(image, target, None, 0.0, 1.0, margin)


def image_loss(
    image: Tensor,
    target: Tensor,
    mask: Tensor | None,
    absolute_weight: float,
    ssim_weight: float,
    margin: int = 0,
) -> Tensor:
    """The weighted sum of the mean absolute difference and the mean SSIM, without checks. For the gradient of `image`.

    Where `mask` [..., H, W] is false, both images [..., H, W, D] are taken for black; SSIM is not counted there, nor in
    pixels nearer than `margin` to the edge.
    """
    _kernels.require_for(image, target, part="loss")
    gradient = image.requires_grad and torch.is_grad_enabled()
    *lead, height, width, channels = image.shape
    count = math.prod(lead)
    check_count("images", count, remedy="take fewer at once")
    value: Tensor
    value, _, _ = torch.ops.splat.image_loss(
        shaped(image, count, height, width, channels),
        shaped(target, count, height, width, channels),
        None if mask is None else shaped(mask, count, height, width),
        absolute_weight,
        ssim_weight,
        margin,
        gradient,
    )
    return value
