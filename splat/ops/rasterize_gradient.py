"""Shape inference and the gradient of the operator `rasterize`, which `registration` registers; absolute gradients of
the projected centres (Ye et al., *AbsGS*, 2024).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .autograd import keep_call, kept_call


def rasterize_shapes(means2d: Tensor, conics: Tensor, colors: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Colours [I, H, W, D], alphas [I, H, W, 1] and the last Gaussian blended, i32 [I, H, W]."""
    width, height, _, isect_offsets = others[3:7]
    pixels = (isect_offsets.shape[0], height, width)
    return (
        means2d.new_empty((*pixels, colors.shape[-1])),
        means2d.new_empty((*pixels, 1)),
        means2d.new_empty(pixels, dtype=torch.int32),
    )


def rasterize_backward_shapes(
    means2d: Tensor, conics: Tensor, colors: Tensor, opacities: Tensor, backgrounds: Tensor | None, *others: Any
) -> tuple[Tensor, ...]:
    """Gradients of means2d (and absolute ones, or size 0), conics, colours, opacities and backgrounds."""
    # Of `absgrad` and `deterministic`, torch leaves out the second if it is what it is by default.
    absgrad = next(each for each in others[-2:] if isinstance(each, bool))
    found = means2d, conics, colors, opacities
    v_means2d, *gradients = (means2d.new_empty(each.shape) for each in found)
    absolute = means2d.new_empty(means2d.shape if absgrad else (0,))
    return v_means2d, absolute, *gradients, means2d.new_empty((0,) if backgrounds is None else backgrounds.shape)


def keep_for_differentiating_rasterize(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keep what `differentiate_rasterize` needs."""
    _, alphas, last_ids = output
    ctx.mark_non_differentiable(last_ids)
    keep_call(ctx, inputs, alphas, last_ids)


def differentiate_rasterize(
    ctx: Any, v_colors: Tensor | None, v_alphas: Tensor | None, _v_last_ids: Tensor | None, absgrad_of: Any = None
) -> tuple[Tensor | None, ...]:
    """Gradients of the operator's inputs; also the attribute `absgrad` of the tensor `absgrad_of`."""
    inputs, (alphas, last_ids) = kept_call(ctx)
    if v_colors is None:
        v_colors = alphas.new_zeros((*alphas.shape[:-1], inputs[2].shape[-1]))
    flags = absgrad_of is not None, torch.are_deterministic_algorithms_enabled()
    v_means2d, v_means2d_abs, *found, v_backgrounds = torch.ops.splat.rasterize_backward(
        *inputs, alphas, last_ids, v_colors, v_alphas, *flags
    )
    if absgrad_of is not None:
        absgrad_of.absgrad = v_means2d_abs.reshape(absgrad_of.shape)
    gradients = v_means2d, *found, None if inputs[4] is None else v_backgrounds
    return *gradients, *[None] * (len(inputs) - len(gradients))


def rasterize_with_absgrad(absgrad_of: Tensor, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The operator `rasterize`, whose backward pass sets the attribute `absgrad` of `absgrad_of`.

    `absgrad_of` is `means2d`, or a tensor of which `means2d` is a view. The attribute has its shape and holds, summed
    over the pixels, the absolute values of their contributions to its gradient. A graph cannot set an attribute, so
    `torch.compile` runs this outside of the graph, and refuses it with `fullgraph=True`.
    """
    result: tuple[Tensor, Tensor, Tensor] = _apply([absgrad_of], *inputs)
    return result


class _RasterizeWithAbsgrad(torch.autograd.Function):
    @staticmethod
    def forward(absgrad_of: list[Tensor], *inputs: Any) -> Any:
        # In a list, the tensor is not an input to autograd: it is means2d, or what means2d is a view of.
        return torch.ops.splat.rasterize(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        (ctx.absgrad_of,), *arguments = inputs
        keep_for_differentiating_rasterize(ctx, tuple(arguments), output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        v_colors, v_alphas, v_last_ids = gradients
        return None, *differentiate_rasterize(ctx, v_colors, v_alphas, v_last_ids, ctx.absgrad_of)


def _apply(*inputs: Any) -> Any:
    return _RasterizeWithAbsgrad.apply(*inputs)


# This is what torch.compiler.disable does, but that would import torch's compiler with the package, which takes a
# second.
vars(_apply).update(
    _torchdynamo_disable=True,
    _torchdynamo_disable_msg="absgrad=True sets an attribute of means2d, which a compiled graph cannot do",
)
