"""The difference between a rendered image and its target: PSNR, SSIM, and the loss of training."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.image_loss import image_loss


def psnr(image: Tensor, target: Tensor, mask: Tensor | None = None) -> float:
    """Peak signal-to-noise ratio in decibels, of images [H, W, 3] with values from 0 to 1.

    Only the pixels where `mask` [H, W] is true count.
    """
    errors = (image.clamp(0, 1) - target).square()
    error = float((errors if mask is None else errors[mask]).mean())
    return float("inf") if error == 0 else -10 * torch.log10(torch.tensor(error)).item()


def ssim(image: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Structural similarity of images [H, W, 3], as `splat.fused_ssim`: the mean over the pixels where `mask` is true.

    Both are taken for black where `mask` [H, W] is false.
    """
    return image_loss(image, target, mask, 0.0, 1.0)


def training_loss(image: Tensor, target: Tensor, mask: Tensor | None = None, ssim_share: float = 0.2) -> Tensor:
    """Kerbl et al. (2023), equation 7: the mean absolute difference, and 1 - SSIM with the weight `ssim_share`.

    What is where `mask` [H, W] is false does not matter, and gets no gradient.
    """
    return ssim_share + image_loss(image, target, mask, 1 - ssim_share, -ssim_share)
