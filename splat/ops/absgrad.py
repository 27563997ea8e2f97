"""Blending whose backward pass also gives absolute gradients of the projected centres (Ye et al., *AbsGS*, 2024)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registration import differentiate_rasterize, keep_for_differentiating_rasterize


def rasterize_with_absgrad(
    absgrad_of: Tensor,
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
    max_alpha: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The operator `rasterize`, whose backward pass sets the attribute `absgrad` of `absgrad_of`.

    `absgrad_of` is `means2d`, or a tensor of which `means2d` is a view. The attribute has its shape and holds, summed
    over the pixels, the absolute values of their contributions to its gradient. A graph cannot set an attribute, so
    `torch.compile` runs this outside of the graph, and refuses it with `fullgraph=True`.
    """
    result: tuple[Tensor, Tensor, Tensor] = _apply(
        [absgrad_of],
        means2d, conics, colors, opacities, backgrounds, masks, width, height, tile_size, isect_offsets, flatten_ids,
        max_alpha,
    )  # fmt: skip
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
    return _RasterizeWithAbsgrad.apply(*inputs)  # type: ignore[no-untyped-call]


# This is what torch.compiler.disable does, but that would import torch's compiler with the package, which takes a
# second.
vars(_apply).update(
    _torchdynamo_disable=True,
    _torchdynamo_disable_msg="absgrad=True sets an attribute of means2d, which a compiled graph cannot do",
)
