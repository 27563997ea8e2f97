"""Shape inference and the gradient of the operator image_loss; `registration` registers them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def image_loss_shapes(
    image: Tensor,
    target: Tensor,
    mask: Tensor | None,
    absolute_weight: float,
    ssim_weight: float,
    margin: int,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss [], the weights [2] of its parts in each value, and partial derivatives [3, I, H, W, D], or [0]."""
    return image.new_empty(()), image.new_empty((2,)), image.new_empty((3, *image.shape) if gradient else (0,))


def keep_for_differentiating_image_loss(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep what `differentiate_image_loss` needs."""
    _, weights, partials = output
    ctx.mark_non_differentiable(weights, partials)
    ctx.save_for_backward(*inputs[:3], weights, partials)


def differentiate_image_loss(ctx: Any, v_value: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradient of the image."""
    return torch.ops.splat.image_loss_backward(*ctx.saved_tensors, v_value), *[None] * 6


def image_loss_backward_shapes(image: Tensor, *others: Tensor | None) -> Tensor:
    """The gradient of the image, of its shape."""
    return image.new_empty(image.shape)
