"""Blending Gaussians that are evaluated in space, along the rays of cameras with any lens and shutter.

Shapes: `...` leading batch dimensions, C cameras of each batch, N Gaussians, D channels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from .arguments import LensArguments, RollingShutterType, Sizes, check_scene, without_ftheta
from .autocast import in_float32
from .checks import check_memory, check_shape, check_tensor, checked_alpha
from .defaults import MAX_ALPHA
from .lens_arguments import check_constant, check_lens_cameras
from .lens_cameras import LensCameras, camera_rays
from .pixels_rays import check_blending_in_space, rasterize_along_rays
from .projection import GaussianParameters, rotation_matrices
from .projection_ut import DEFAULT_PARAMETERS, checked_parameters


@in_float32
def rasterize_to_pixels_eval3d(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    colors: Tensor,
    opacities: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None = None,
    masks: Tensor | None = None,
    camera_model: str = "pinhole",
    ut_params: Any = DEFAULT_PARAMETERS,
    radial_coeffs: Tensor | None = None,
    tangential_coeffs: Tensor | None = None,
    thin_prism_coeffs: Tensor | None = None,
    ftheta_coeffs: Any = None,
    rolling_shutter: Any = RollingShutterType.GLOBAL,
    viewmats_rs: Tensor | None = None,
    rays: Tensor | None = None,
    *,
    max_alpha: float = MAX_ALPHA,
    use_hit_distance: bool = False,
) -> tuple[Tensor, Tensor]:
    """Blend Gaussians front to back, each with its largest value along the ray of a pixel.

    Wu et al., *3DGUT* (2025), section 4.2. The same as gsplat 1.5.3's function, for any number of channels.
    Differentiable with respect to means, quats, scales, colors, opacities and backgrounds.

    Args:
        means: [..., N, 3] centres; this and all other tensors but the lists and masks float32, on one device.
        quats: [..., N, 4] rotations w, x, y, z; they need not be normalised.
        scales: [..., N, 3] standard deviations.
        colors: [..., C, N, D].
        opacities: [..., C, N].
        viewmats: [..., C, 4, 4] world-to-camera matrices.
        Ks: [..., C, 3, 3] intrinsics in pixels.
        image_width: in pixels.
        image_height: in pixels.
        tile_size: side of a tile in pixels, 1 to 32.
        isect_offsets: int32 [..., C, rows, columns], of `isect_offset_encode`, with as many tiles as the image needs.
        flatten_ids: int32 [L], of `isect_tiles`.
        backgrounds: [..., C, D], or [D] for all images; None: zeros.
        masks: bool [..., C, rows, columns]; tiles where it is False show the background and give no gradients.
        camera_model: "pinhole", "fisheye" or "ftheta".
        ut_params: has no effect, as in gsplat.
        radial_coeffs: this and the following as for `fully_fused_projection_with_ut`.
        tangential_coeffs: [..., C, 2].
        thin_prism_coeffs: [..., C, 4].
        ftheta_coeffs: FThetaCameraDistortionParameters.
        rolling_shutter: RollingShutterType.
        viewmats_rs: [..., C, 4, 4].
        rays: of gsplat 1.6.0: as for `rasterization`.
        max_alpha: as for `rasterize_to_pixels`.
        use_hit_distance: of gsplat 1.6.0: whether the last channel shows the distance along the ray, as "d" of
            `rasterization` does, in place of its colour.

    Returns:
        Colours [..., C, image_height, image_width, D], and opacities [..., C, image_height, image_width, 1]. A pixel
        that the lens has no ray for shows the background.

    Raises:
        NotImplementedError: if viewmats, Ks, a coefficient or viewmats_rs requires grad.
        TypeError, ValueError: if a type, shape or value is wrong.
        torch.OutOfMemoryError: if images of a gigabyte or more do not fit into memory.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    checked_as = without_ftheta(camera_model)
    sizes = check_scene(means=means, quats=quats, scales=scales, viewmats=viewmats, Ks=Ks, camera_model=checked_as)
    check_constant("viewmats", viewmats, means)
    checked_parameters(ut_params)
    lists = isect_offsets, flatten_ids, backgrounds, masks
    size = image_width, image_height, tile_size
    # Before the rays are made, which takes long.
    width, height, _ = check_blending_in_space(means, sizes.cameras, colors, opacities, size, *lists)
    max_alpha = checked_alpha(max_alpha)
    given = LensArguments(
        radial_coeffs, tangential_coeffs, thin_prism_coeffs, ftheta_coeffs, rolling_shutter, viewmats_rs
    )
    cameras = check_lens_cameras(sizes, means, viewmats, Ks, width, height, camera_model, given)
    gaussians = GaussianParameters(means, quats, scales, None, None)
    rays = checked_rays(rays, cameras, sizes, means)
    frames = _frames(gaussians)
    distance_channel = colors.shape[-1] - 1 if use_hit_distance else None
    return rasterize_along_rays(
        means, frames, colors, opacities, rays, tile_size, *lists,
        max_alpha=max_alpha, distance_channel=distance_channel,
    )  # fmt: skip


def checked_rays(rays: Tensor | None, cameras: LensCameras, sizes: Sizes, means: Tensor) -> Tensor:
    """Rays [..., C, height, width, 6] that are given, or those of the cameras. Raises TypeError or ValueError."""
    if rays is None:
        check_memory(sizes.images, cameras.height, cameras.width, 6, means.device)
        return camera_rays(cameras, sizes)
    check_tensor("rays", rays, means)
    shape = (*sizes.batch, sizes.cameras, cameras.height, cameras.width, 6)
    check_shape("rays", rays, shape, "[..., C, height, width, 6]")
    return rays


def draw_along_rays(
    gaussians: GaussianParameters,
    rays: Tensor,
    colors: Tensor,
    opacities: Tensor,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    backgrounds: Tensor | None,
    max_alpha: float,
    with_distance: bool,
    with_normals: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Images, opacities, and images of normals or None, of checked Gaussians; the last colour may be the distance.

    The normal of a Gaussian is the third axis of its rotation, on the side that the ray comes from.
    """
    assert gaussians.quats is not None
    channels = colors.shape[-1]
    if with_normals:
        normals = rotation_matrices(gaussians.quats)[..., None, :, :, 2]
        colors = torch.cat([colors, normals.expand(*colors.shape[:-1], 3)], dim=-1)
        backgrounds = None if backgrounds is None else pad(backgrounds, (0, 3))
    images, alphas = rasterize_along_rays(
        gaussians.means, _frames(gaussians), colors, opacities, rays, tile_size, isect_offsets, flatten_ids,
        backgrounds,
        max_alpha=max_alpha,
        distance_channel=channels - 1 if with_distance else None,
        normal_channel=channels if with_normals else None,
    )  # fmt: skip
    return images[..., :channels], alphas, images[..., channels:] if with_normals else None


def _frames(gaussians: GaussianParameters) -> Tensor:
    """The axes over their standard deviations, [..., N, 3, 3]; NaN, with gradients of 0, for what has no such frame."""
    assert gaussians.quats is not None
    assert gaussians.scales is not None
    axes, scales = rotation_matrices(gaussians.quats).mT, gaussians.scales[..., None]
    # Where the derivatives are finite too: times a gradient of 0 they are NaN otherwise.
    exists = (axes / scales.square()).detach().isfinite().all(-1, keepdim=True).all(-2, keepdim=True)
    return torch.where(exists, axes / torch.where(exists, scales, 1.0), math.nan)
