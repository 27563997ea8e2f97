"""Shape inference and gradients of the compiled operators, which `torch.compile`, `torch.export` and autograd need.

Shapes: B scenes, I images, N Gaussians, M rows of a packed layout, K coefficients of spherical harmonics, D channels,
n intersections.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, library

from .autograd import refuse_derivatives, register_autograd
from .image_loss_gradient import (
    differentiate_image_loss,
    image_loss_backward_shapes,
    image_loss_shapes,
    keep_for_differentiating_image_loss,
)
from .rasterize_gradient import (
    differentiate_rasterize,
    keep_for_differentiating_rasterize,
    rasterize_backward_shapes,
    rasterize_shapes,
)
from .rays_gradient import (
    differentiate_rasterize_along_rays,
    keep_for_differentiating_rasterize_along_rays,
    rasterize_along_rays_backward_shapes,
    rasterize_along_rays_shapes,
)
from .shapes_2dgs import rasterize_2dgs_backward_shapes, rasterize_2dgs_shapes


@functools.cache
def register() -> None:
    """Register the shape functions and gradients."""
    library.register_fake("splat::project", _project_shapes)
    library.register_fake("splat::project_backward", _project_backward_shapes)
    library.register_fake("splat::spherical_harmonics", _spherical_harmonics_shapes)
    library.register_fake("splat::spherical_harmonics_backward", _spherical_harmonics_backward_shapes)
    library.register_fake("splat::intersect", _intersect_shapes)
    library.register_fake("splat::pack", _pack_shapes)
    library.register_fake("splat::pack_backward", _pack_backward_shapes)
    library.register_fake("splat::rasterize", rasterize_shapes)
    library.register_fake("splat::rasterize_backward", rasterize_backward_shapes)
    library.register_fake("splat::image_loss", image_loss_shapes)
    library.register_fake("splat::image_loss_backward", image_loss_backward_shapes)
    library.register_fake("splat::rasterize_2dgs", rasterize_2dgs_shapes)
    library.register_fake("splat::rasterize_2dgs_backward", rasterize_2dgs_backward_shapes)
    library.register_fake("splat::rasterize_along_rays", rasterize_along_rays_shapes)
    library.register_fake("splat::rasterize_along_rays_backward", rasterize_along_rays_backward_shapes)
    register_autograd("project", _keep_for_differentiating_project, _differentiate_project)
    register_autograd(
        "spherical_harmonics", _keep_for_differentiating_spherical_harmonics, _differentiate_spherical_harmonics
    )
    register_autograd("pack", _keep_for_differentiating_pack, _differentiate_pack)
    register_autograd("rasterize", keep_for_differentiating_rasterize, differentiate_rasterize)
    register_autograd(
        "rasterize_along_rays", keep_for_differentiating_rasterize_along_rays, differentiate_rasterize_along_rays
    )
    register_autograd("image_loss", keep_for_differentiating_image_loss, differentiate_image_loss)
    refuse_derivatives()


def _project_shapes(
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    covars: Tensor | None,
    opacities: Tensor | None,
    coeffs: Tensor | None,
    viewmats: Tensor,
    *others: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Radii i32 [I, N, 2], means2d [I, N, 2], depths [I, N], conics [I, N, 3], compensations [I, N], colours
    [I, N, 3], which are [0, N, 3] without coefficients, and the number of rows that are not finite, i64 []."""
    images, gaussians = viewmats.shape[0], means.shape[0]
    return (
        means.new_empty((images, gaussians, 2), dtype=torch.int32),
        means.new_empty((images, gaussians, 2)),
        means.new_empty((images, gaussians)),
        means.new_empty((images, gaussians, 3)),
        means.new_empty((images, gaussians)),
        means.new_empty((0 if coeffs is None else images, gaussians, 3)),
        means.new_empty((), dtype=torch.int64),
    )


def _keep_for_differentiating_project(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    radii, _, _, conics, compensations, colors, invalid = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(radii, invalid)
    ctx.save_for_backward(*inputs[:8], radii, conics, compensations, colors)
    ctx.numbers = inputs[8:-1]


def _differentiate_project(ctx: Any, _v_radii: None, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of means, quats, scales, covars, coeffs and viewmats. Opacities, Ks and direct colours, of which only
    it matters here whether they are finite, have none."""
    *gradients_of_floats, _v_invalid = gradients
    *tensors, radii, conics, compensations, colors = ctx.saved_tensors
    poses = ctx.needs_input_grad[6]
    v_means, v_quats, v_scales, v_covars, v_coeffs, v_viewmats = torch.ops.splat.project_backward(
        *tensors, *ctx.numbers, radii, conics, compensations, colors, *gradients_of_floats, poses
    )
    shape = (v_quats, v_scales, None) if tensors[3] is None else (None, None, v_covars)
    by_colors = None if tensors[5] is None else v_coeffs
    return (v_means, *shape, None, by_colors, v_viewmats if poses else None, None, *(None for _ in ctx.numbers), None)


def _project_backward_shapes(
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    covars: Tensor | None,
    opacities: Tensor | None,
    coeffs: Tensor | None,
    viewmats: Tensor,
    *others: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of means, quats, scales, covars, coeffs and viewmats; of size 0 for inputs that are None, and for
    viewmats if the last argument, `poses`, is False."""
    poses = others[-1] if isinstance(others[-1], bool) else True
    axes, whole = (0, means.shape[0]) if quats is None else (means.shape[0], 0)
    return (
        means.new_empty(means.shape),
        means.new_empty((axes, 4)),
        means.new_empty((axes, 3)),
        means.new_empty((whole, 6)),
        means.new_empty((0,) if coeffs is None else coeffs.shape),
        means.new_empty((viewmats.shape[0] if poses else 0, 4, 4)),
    )


def _spherical_harmonics_shapes(degree: int, directions: Tensor, coeffs: Tensor, mask: Tensor | None) -> Tensor:
    """Values [I, N, 3]."""
    return directions.new_empty(directions.shape)


def _keep_for_differentiating_spherical_harmonics(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.degree = inputs[0]
    ctx.save_for_backward(*inputs[1:])


def _differentiate_spherical_harmonics(ctx: Any, v_colors: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of directions and coeffs."""
    v_directions, v_coeffs = torch.ops.splat.spherical_harmonics_backward(ctx.degree, *ctx.saved_tensors, v_colors)
    return None, v_directions, v_coeffs, None


def _spherical_harmonics_backward_shapes(
    degree: int, directions: Tensor, coeffs: Tensor, mask: Tensor | None, v_colors: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of directions and coeffs: their shapes."""
    return directions.new_empty(directions.shape), directions.new_empty(coeffs.shape)


def _intersect_shapes(
    means2d: Tensor,
    radii: Tensor,
    depths: Tensor,
    conics: Tensor,
    opacities: Tensor,
    image_ids: Tensor | None,
    images: int,
    tile_size: int,
    tile_width: int,
    tile_height: int,
    capacity: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Tiles per Gaussian i32 [I, N] or [M], indices i32 [n] or [capacity], and offsets i32 [I, rows, columns]."""
    intersections = library.get_ctx().new_dynamic_size() if capacity is None else capacity
    return (
        depths.new_empty(depths.shape, dtype=torch.int32),
        depths.new_empty((intersections,), dtype=torch.int32),
        depths.new_empty((images, tile_height, tile_width), dtype=torch.int32),
    )


def _pack_shapes(
    radii: Tensor,
    means2d: Tensor,
    depths: Tensor,
    conics: Tensor,
    opacities: Tensor,
    colors: Tensor | None,
    tile_size: int,
    tile_width: int,
    tile_height: int,
) -> tuple[Tensor, ...]:
    """Image and Gaussian i64 [M]; radii i32 [M, 2], means2d [M, 2], depths [M], conics [M, 3], opacities [M], colours
    [M, D]; places i32 [I, N]; and what `intersect` gives for these rows, of size 0 without tiles."""
    rows = library.get_ctx().new_dynamic_size()
    pairs = library.get_ctx().new_dynamic_size() if tile_size else 0
    floats = [
        means2d.new_empty((rows, *shape)) for shape in ((2,), (), (3,), (), (0 if colors is None else colors.shape[2],))
    ]
    return (
        radii.new_empty((rows,), dtype=torch.int64),
        radii.new_empty((rows,), dtype=torch.int64),
        radii.new_empty((rows, 2)),
        *floats,
        radii.new_empty(radii.shape[:2]),
        radii.new_empty((rows if tile_size else 0,)),
        radii.new_empty((pairs,)),
        radii.new_empty((radii.shape[0], tile_height, tile_width)),
    )


def _keep_for_differentiating_pack(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    radii, colors = inputs[0], inputs[5]
    image_ids, gaussian_ids, packed_radii, *_, places, tiles_per_gauss, flatten_ids, offsets = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(image_ids, gaussian_ids, packed_radii, places, tiles_per_gauss, flatten_ids, offsets)
    ctx.save_for_backward(radii, places)
    ctx.sets = radii.shape[0] if colors is None else colors.shape[0]


def _differentiate_pack(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of means2d, depths, conics, opacities and colours."""
    needed = [v if needs else None for v, needs in zip(gradients[3:8], ctx.needs_input_grad[1:6], strict=True)]
    found = torch.ops.splat.pack_backward(*ctx.saved_tensors, ctx.sets, *needed)
    given = [None if v is None else one for v, one in zip(needed, found, strict=True)]
    return None, *given, None, None, None


def _pack_backward_shapes(
    radii: Tensor, places: Tensor, sets: int, *gradients: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of means2d, depths, conics, opacities and colours; of size 0 where there is no incoming one."""
    images, gaussians = radii.shape[:2]
    v_means2d, v_depths, v_conics, v_opacities, v_colors = (
        0 if v is None else sets if i == 4 else images for i, v in enumerate(gradients)
    )
    channels = 0 if gradients[4] is None else gradients[4].shape[1]
    shapes = (
        (v_means2d, gaussians, 2), (v_depths, gaussians), (v_conics, gaussians, 3), (v_opacities, gaussians),
        (v_colors, gaussians, channels),
    )  # fmt: skip
    one, two, three, four, five = (radii.new_empty(shape, dtype=torch.float32) for shape in shapes)
    return one, two, three, four, five
