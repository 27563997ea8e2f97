"""Shape inference and the gradient of the operator `rasterize_along_rays`; `registration` registers them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .autograd import keep_call, kept_call
from .checks import check_sums


def rasterize_along_rays_shapes(
    means: Tensor, frames: Tensor, colors: Tensor, opacities: Tensor, rays: Tensor, *others: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Colours [I, H, W, D], alphas [I, H, W, 1] and the last Gaussian blended, i32 [I, H, W]."""
    pixels = rays.shape[:3]
    return (
        colors.new_empty((*pixels, colors.shape[-1])),
        colors.new_empty((*pixels, 1)),
        colors.new_empty(pixels, dtype=torch.int32),
    )


def rasterize_along_rays_backward_shapes(*inputs: Any) -> tuple[Tensor, ...]:
    """Gradients of means, frames, colours and opacities."""
    return tuple(torch.empty_like(each, memory_format=torch.contiguous_format) for each in inputs[:4])


def keep_for_differentiating_rasterize_along_rays(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Keep what the gradient needs."""
    _, alphas, last_ids = output
    ctx.mark_non_differentiable(last_ids)
    keep_call(ctx, inputs, alphas, last_ids)


def differentiate_rasterize_along_rays(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of the operator's inputs."""
    v_colors, v_alphas, _ = gradients
    inputs, (alphas, last_ids) = kept_call(ctx)
    check_sums("Gaussians along rays", alphas)
    if v_colors is None:
        v_colors = alphas.new_zeros((*alphas.shape[:-1], inputs[2].shape[-1]))
    found = torch.ops.splat.rasterize_along_rays_backward(*inputs, alphas, last_ids, v_colors, v_alphas)
    # The weight of the background in a pixel is its remaining transmittance.
    v_backgrounds = None if inputs[5] is None else (v_colors * (1 - alphas)).sum((1, 2))
    return *found, None, v_backgrounds, *[None] * (len(inputs) - 6)
