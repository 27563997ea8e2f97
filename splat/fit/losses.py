"""The difference between a rendered image and its target: PSNR, SSIM, and the loss of training."""

from __future__ import annotations

import torch
from torch import Tensor

_WINDOW = 11
_SIGMA = 1.5


def psnr(image: Tensor, target: Tensor, mask: Tensor | None = None) -> float:
    """Peak signal-to-noise ratio in decibels, of images [H, W, 3] with values from 0 to 1.

    Only the pixels where `mask` [H, W] is true count.
    """
    errors = (image.clamp(0, 1) - target).square()
    error = float((errors if mask is None else errors[mask]).mean())
    return float("inf") if error == 0 else -10 * torch.log10(torch.tensor(error)).item()


def ssim(image: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Structural similarity of images [H, W, 3] with values from 0 to 1: 1 where they are the same.

    Wang et al., *Image Quality Assessment: From Error Visibility to Structural Similarity* (2004), equation 13, over
    windows of 11 x 11 pixels weighted by a Gaussian of 1.5 pixels, with zeros around the image; the mean over the
    pixels where `mask` [H, W] is true.
    """
    x, y = (part.movedim(-1, 0)[:, None] for part in (image, target))
    means = _blur(torch.cat([x, y, x * x, y * y, x * y], dim=1))
    mean_x, mean_y, xx, yy, xy = means.unbind(1)
    variances, covariance = xx - mean_x * mean_x + yy - mean_y * mean_y, xy - mean_x * mean_y
    c1, c2 = 0.01**2, 0.03**2
    luminance = (2 * mean_x * mean_y + c1) / (mean_x * mean_x + mean_y * mean_y + c1)
    similarity = luminance * (2 * covariance + c2) / (variances + c2)
    return (similarity if mask is None else similarity[:, mask]).mean()


def _blur(images: Tensor) -> Tensor:
    """Smooth each channel of [3, 5, H, W], one axis at a time."""
    offsets = torch.arange(_WINDOW, device=images.device) - _WINDOW // 2
    weights = torch.exp(-0.5 * (offsets / _SIGMA) ** 2)
    # All as channels of one image, convolved separately: by far the fastest shape of a convolution on a CPU.
    channels = images.flatten(0, 1)[None]
    count = channels.shape[1]
    kernels = (weights / weights.sum()).to(images.dtype).expand(count, 1, 1, -1)
    for padding, kernel in (((0, _WINDOW // 2), kernels), ((_WINDOW // 2, 0), kernels.mT)):
        channels = torch.nn.functional.conv2d(channels, kernel, padding=padding, groups=count)
    return channels.reshape(images.shape)


def masked(image: Tensor, mask: Tensor | None) -> Tensor:
    """An image [H, W, 3] that is black where `mask` [H, W] is false: windows of SSIM reach over a mask's edge."""
    return image if mask is None else image * mask[..., None]


def training_loss(image: Tensor, target: Tensor, mask: Tensor | None = None, ssim_share: float = 0.2) -> Tensor:
    """Kerbl et al. (2023), equation 7: the mean absolute difference, and 1 - SSIM with the weight `ssim_share`.

    What is where `mask` [H, W] is false does not matter, and gets no gradient.
    """
    image, target = masked(image, mask), masked(target, mask)
    return (1 - ssim_share) * (image - target).abs().mean() + ssim_share * (1 - ssim(image, target))
