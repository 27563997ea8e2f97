"""Structural similarity and the loss of training, from their definitions, by torch's convolutions in any dtype.

Wang et al. (2004), equation 13; the window and the constants are those of the package fused-ssim, which leave the mean
of its map: C1 = 0.01^2, C2 = 0.03^2, eleven taps of a Gaussian of 1.5 pixels, zeros around the images.
"""

from __future__ import annotations

import torch
from torch import Tensor


def similarity_map(image: Tensor, target: Tensor) -> Tensor:
    """SSIM in each value of images [I, D, H, W]."""
    x, y = image, target
    mean_x, mean_y = blurred(x), blurred(y)
    variance_x, variance_y = blurred(x * x) - mean_x**2, blurred(y * y) - mean_y**2
    covariance = blurred(x * y) - mean_x * mean_y
    luminance = (2 * mean_x * mean_y + 0.01**2) / (mean_x**2 + mean_y**2 + 0.01**2)
    return luminance * (2 * covariance + 0.03**2) / (variance_x + variance_y + 0.03**2)


def blurred(images: Tensor) -> Tensor:
    """Each channel of [I, D, H, W], weighted by the window."""
    channels = images.shape[1]
    offsets = torch.arange(11, device=images.device, dtype=images.dtype) - 5
    weights = torch.exp(-(offsets**2) / (2 * 1.5**2))
    kernel = (weights / weights.sum()).expand(channels, 1, 1, 11)
    along = torch.nn.functional.conv2d(images, kernel, padding=(0, 5), groups=channels)
    return torch.nn.functional.conv2d(along, kernel.mT, padding=(5, 0), groups=channels)


def image_loss(
    image: Tensor, target: Tensor, mask: Tensor | None, absolute_weight: float, ssim_weight: float, margin: int = 0
) -> Tensor:
    """What `splat::image_loss` computes, of images [I, H, W, D] and a mask [I, H, W]."""
    used = torch.ones_like(image[..., 0], dtype=torch.bool) if mask is None else mask
    x, y = (torch.where(used[..., None], each, 0).movedim(-1, 1) for each in (image, target))
    counted = torch.zeros_like(used)
    inside = slice(margin, -margin or None)
    counted[:, inside, inside] = used[:, inside, inside]
    similar = similarity_map(x, y).movedim(1, -1)[counted].mean()
    return absolute_weight * (x - y).abs().mean() + ssim_weight * similar
