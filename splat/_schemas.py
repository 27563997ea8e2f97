"""The schemas of the operators that compiled kernels implement, each library for its own device.

Operators are defined here, in Python, and not by a library: so a call on one device does without the library for the
other. What an operator takes is what a function in csrc/operators checks, `check_*` in *_operands.h, in the same order;
a gradient's begins with what the operator takes. They are there as soon as splat is imported, which loads no more than
the kernels: a program that was exported names nothing else.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import library

_PROJECT: Final = (
    "Tensor means, Tensor? quats, Tensor? scales, Tensor? covars, Tensor? opacities, Tensor? coeffs, Tensor viewmats, "
    "Tensor Ks, int width, int height, float eps2d, float near_plane, float far_plane, float radius_clip, "
    "bool antialiased, int camera_model, int degree"
)
_HARMONICS: Final = "int degree, Tensor directions, Tensor coeffs, Tensor? mask"
_RASTERIZE: Final = (
    "Tensor means2d, Tensor conics, Tensor colors, Tensor opacities, Tensor? backgrounds, Tensor? masks, int width, "
    "int height, int tile_size, Tensor isect_offsets, Tensor flatten_ids, float max_alpha"
)
_RASTERIZE_2DGS: Final = (
    "Tensor means2d, Tensor ray_transforms, Tensor colors, Tensor opacities, Tensor depths, Tensor? backgrounds, "
    "Tensor? masks, int width, int height, int tile_size, Tensor isect_offsets, Tensor flatten_ids, float max_alpha"
)
_ALONG_RAYS: Final = (
    "Tensor means, Tensor frames, Tensor colors, Tensor opacities, Tensor rays, Tensor? backgrounds, Tensor? masks, "
    "int tile_size, Tensor isect_offsets, Tensor flatten_ids, float max_alpha, int? distance_channel, "
    "int? normal_channel"
)

SCHEMAS: Final = (
    f"project({_PROJECT}, Tensor? direct) -> (Tensor radii, Tensor means2d, Tensor depths, Tensor conics, "
    "Tensor compensations, Tensor colors, Tensor invalid)",
    f"project_backward({_PROJECT}, Tensor radii, Tensor conics, Tensor compensations, Tensor colors, "
    "Tensor? v_means2d, Tensor? v_depths, Tensor? v_conics, Tensor? v_compensations, Tensor? v_colors, "
    "bool poses=True) -> (Tensor v_means, Tensor v_quats, Tensor v_scales, Tensor v_covars, Tensor v_coeffs, "
    "Tensor v_viewmats)",
    f"spherical_harmonics({_HARMONICS}) -> Tensor",
    f"spherical_harmonics_backward({_HARMONICS}, Tensor v_colors) -> (Tensor v_directions, Tensor v_coeffs)",
    "intersect(Tensor means2d, Tensor radii, Tensor depths, Tensor conics, Tensor opacities, Tensor? image_ids, "
    "int images, int tile_size, int tile_width, int tile_height, int? capacity=None) "
    "-> (Tensor tiles_per_gauss, Tensor flatten_ids, Tensor isect_offsets)",
    "pack(Tensor radii, Tensor means2d, Tensor depths, Tensor conics, Tensor opacities, Tensor? colors, "
    "int tile_size, int tile_width, int tile_height) -> (Tensor image_ids, Tensor gaussian_ids, Tensor radii, "
    "Tensor means2d, Tensor depths, Tensor conics, Tensor opacities, Tensor colors, Tensor places, "
    "Tensor tiles_per_gauss, Tensor flatten_ids, Tensor isect_offsets)",
    "pack_backward(Tensor radii, Tensor places, int sets, Tensor? v_means2d, Tensor? v_depths, Tensor? v_conics, "
    "Tensor? v_opacities, Tensor? v_colors) "
    "-> (Tensor v_means2d, Tensor v_depths, Tensor v_conics, Tensor v_opacities, Tensor v_colors)",
    f"rasterize({_RASTERIZE}) -> (Tensor colors, Tensor alphas, Tensor last_ids)",
    f"rasterize_backward({_RASTERIZE}, Tensor alphas, Tensor last_ids, Tensor v_colors, Tensor? v_alphas, "
    "bool absgrad, bool deterministic=False) -> (Tensor v_means2d, Tensor v_means2d_abs, Tensor v_conics, "
    "Tensor v_colors, Tensor v_opacities, Tensor v_backgrounds)",
    "image_loss(Tensor image, Tensor target, Tensor? mask, float absolute_weight, float ssim_weight, int margin, "
    "bool gradient) -> (Tensor value, Tensor weights, Tensor partials)",
    "image_loss_backward(Tensor image, Tensor target, Tensor? mask, Tensor weights, Tensor partials, Tensor v_value) "
    "-> Tensor",
    f"rasterize_2dgs({_RASTERIZE_2DGS}, bool distloss) -> (Tensor colors, Tensor alphas, Tensor distortions, "
    "Tensor medians, Tensor depth_sums, Tensor last_ids, Tensor median_ids)",
    f"rasterize_2dgs_backward({_RASTERIZE_2DGS}, Tensor alphas, Tensor depth_sums, Tensor last_ids, "
    "Tensor median_ids, Tensor v_colors, Tensor? v_alphas, Tensor? v_distortions, Tensor? v_medians, bool absgrad) "
    "-> (Tensor v_means2d, Tensor v_means2d_abs, Tensor v_ray_transforms, Tensor v_colors, Tensor v_opacities, "
    "Tensor v_depths)",
    f"rasterize_along_rays({_ALONG_RAYS}) -> (Tensor colors, Tensor alphas, Tensor last_ids)",
    f"rasterize_along_rays_backward({_ALONG_RAYS}, Tensor alphas, Tensor last_ids, Tensor v_colors, "
    "Tensor? v_alphas) -> (Tensor v_means, Tensor v_frames, Tensor v_colors, Tensor v_opacities)",
)


def define_operators() -> None:
    """Define them, unless an earlier import in this process has."""
    namespace: Any = torch.ops.splat
    if "definitions" not in vars(namespace):  # they last as the namespace does
        namespace.definitions = library.Library("splat", "FRAGMENT")
        for schema in SCHEMAS:
            namespace.definitions.define(schema)
