"""Blending 2D Gaussians into images (Huang et al., *2D Gaussian Splatting*, 2024).

Shapes: `...` leading dimensions of I images in all, N Gaussians of each, M rows of a packed layout, D channels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from .. import _kernels
from .autocast import in_float32
from .autograd import keep_call, kept_call
from .checks import check_memory, check_sums, checked_alpha, for_images, shaped
from .defaults import MAX_ALPHA
from .pixels import check_blending

Images2dgs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


@in_float32
def rasterize_to_pixels_2dgs(
    means2d: Tensor,
    ray_transforms: Tensor,
    colors: Tensor,
    opacities: Tensor,
    normals: Tensor,
    densify: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None = None,
    masks: Tensor | None = None,
    packed: bool = False,
    absgrad: bool = False,
    distloss: bool = False,
    *,
    max_alpha: float = MAX_ALPHA,
) -> Images2dgs:
    """Blend flat Gaussians front to back, each where a pixel's ray meets its plane.

    The same as gsplat 1.5.3's function, except that it takes any number of channels. Differentiable with respect to all
    tensors of floats; on CUDA, gradients are added up in no fixed order.

    Args:
        means2d: float32 [..., N, 2], or [M, 2] if `packed`; the other tensors are on the same device.
        ray_transforms: float32 [..., N, 3, 3] or [M, 3, 3], of `fully_fused_projection_2dgs`.
        colors: float32 [..., N, D] or [M, D]; the last channel is taken for the depth.
        opacities: float32 [..., N] or [M].
        normals: float32 [..., N, 3] or [M, 3].
        densify: float32, shaped like means2d; not read. Its gradient is that of the centre in the image, by the ray
            transform, for strategies that add Gaussians.
        image_width: in pixels.
        image_height: in pixels.
        tile_size: side of a tile in pixels, 1 to 32.
        isect_offsets: int32 [..., rows, columns], of `isect_offset_encode`.
        flatten_ids: int32 [L], of `isect_tiles`.
        backgrounds: float32 [..., D], or [D] for all images; None: zeros.
        masks: bool [..., rows, columns]; tiles where it is False show the background and give no gradients.
        packed: whether the Gaussians are packed.
        absgrad: the backward pass sets `means2d.absgrad`, as `rasterize_to_pixels` does.
        distloss: whether the distortion is computed.
        max_alpha: as for `rasterize_to_pixels`.

    Returns:
        Colours [..., image_height, image_width, D], and, with one channel but for the normals' three: opacities,
        normals, the distortion of the depth (equation 13, with `|z_i - z_j|` for its square; zeros without `distloss`)
        and the median depth, of the last Gaussian in front of which more than half of the light passes.

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
        RuntimeError: on CUDA, for gradients, where torch.use_deterministic_algorithms forbids them.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    gaussians = {
        "means2d": (means2d, (2,)), "ray_transforms": (ray_transforms, (3, 3)), "normals": (normals, (3,)),
        "densify": (densify, (2,)),
    }  # fmt: skip
    size = check_blending(
        gaussians, colors, opacities, (image_width, image_height, tile_size), isect_offsets, flatten_ids,
        backgrounds, masks, packed,
    )  # fmt: skip
    given = means2d, ray_transforms, colors, opacities, normals, densify
    lists = isect_offsets, flatten_ids
    return rasterize_2dgs(*given, size, *lists, backgrounds, masks, packed, absgrad, distloss, checked_alpha(max_alpha))


def rasterize_2dgs(
    means2d: Tensor,
    ray_transforms: Tensor,
    colors: Tensor,
    opacities: Tensor,
    normals: Tensor,
    densify: Tensor,
    size: tuple[int, int, int],
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None,
    masks: Tensor | None,
    packed: bool,
    absgrad: bool,
    distloss: bool,
    max_alpha: float,
) -> Images2dgs:
    """`rasterize_to_pixels_2dgs` without its checks; `size` is the width and height of an image, and that of a tile."""
    _kernels.require_for(means2d, ray_transforms, colors, opacities, normals, densify, backgrounds, part="2dgs")
    width, height, _ = size
    *images, rows, columns = isect_offsets.shape
    count, channels = math.prod(images), colors.shape[-1]
    check_memory(count, height, width, channels + 7, means2d.device)
    flat = means2d.shape[:-1] if packed else (count, means2d.shape[-2])
    ray_transforms = _with_densify(ray_transforms, densify)
    drawn, alphas, distortions, medians = _Rasterize2dgs.apply(
        [means2d] if absgrad else [],
        shaped(means2d, *flat, 2),
        ray_transforms.reshape(*flat, 9),
        torch.cat([colors, normals], dim=-1).reshape(*flat, channels + 3),
        shaped(opacities, *flat),
        colors[..., -1].reshape(flat),
        None if backgrounds is None else for_images(pad(backgrounds, (0, 3)), images, channels + 3),
        None if masks is None else shaped(masks, count, rows, columns),
        *size,
        shaped(isect_offsets, count, rows, columns),
        flatten_ids,
        max_alpha,
        distloss,
    )
    if not distloss:
        distortions = torch.zeros_like(alphas)
    results = drawn[..., :channels], alphas, drawn[..., channels:], distortions, medians
    colors, alphas, normals, distortions, medians = (
        image.reshape(*images, height, width, image.shape[-1]) for image in results
    )
    return colors, alphas, normals, distortions, medians


class _Rasterize2dgs(torch.autograd.Function):
    """The operator; its backward pass sets the attribute `absgrad` of the tensor in the list, if there is one."""

    @staticmethod
    def forward(ctx: Any, absgrad_of: list[Tensor], *inputs: Any) -> Any:
        *images, depth_sums, last_ids, median_ids = torch.ops.splat.rasterize_2dgs(*inputs)
        ctx.absgrad_of = absgrad_of
        keep_call(ctx, inputs, images[1], depth_sums, last_ids, median_ids)
        return tuple(images)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        v_colors, v_alphas, v_distortions, v_medians = gradients
        (*inputs, distloss), (alphas, *others) = kept_call(ctx)
        check_sums("2D Gaussians", inputs[0])
        if v_colors is None:
            v_colors = alphas.new_zeros((*alphas.shape[:-1], inputs[2].shape[-1]))
        given = v_colors, v_alphas, v_distortions if distloss else None, v_medians, bool(ctx.absgrad_of)
        found = torch.ops.splat.rasterize_2dgs_backward(*inputs, alphas, *others, *given)
        v_means2d, v_absolute, v_ray_transforms, v_features, v_opacities, v_depths = found
        for tensor in ctx.absgrad_of:
            tensor.absgrad = v_absolute.reshape(tensor.shape)
        # The weight of the background in a pixel is its remaining transmittance.
        v_backgrounds = None if inputs[5] is None else (v_colors * (1 - alphas)).sum((1, 2))
        by_inputs = v_means2d, v_ray_transforms, v_features, v_opacities, v_depths, v_backgrounds
        return None, *by_inputs, *[None] * (len(inputs) + 1 - len(by_inputs))


def _with_densify(ray_transforms: Tensor, densify: Tensor) -> Tensor:
    """The ray transforms; the gradient by the centre, times its depth, is also that of `densify`."""
    result: Tensor = _Densify.apply(ray_transforms, densify)
    return result


class _Densify(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ray_transforms: Tensor, densify: Tensor) -> Tensor:
        ctx.save_for_backward(ray_transforms)
        return ray_transforms.view_as(ray_transforms)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (ray_transforms,) = ctx.saved_tensors
        return gradients[0], gradients[0][..., :2, 2] * ray_transforms[..., 2, 2, None]
