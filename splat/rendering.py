"""The public function `rasterization`, with the signature and the meanings of gsplat 1.5.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import _kernels
from .arguments import Arguments, RollingShutterType, check, refuse_unsupported

# The operators' number of the camera model (csrc/math/projection.h).
_PINHOLE = 0


def rasterization(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    radius_clip: float = 0.0,
    eps2d: float = 0.3,
    sh_degree: int | None = None,
    packed: bool = True,
    tile_size: int = 16,
    backgrounds: Tensor | None = None,
    render_mode: str = "RGB",
    sparse_grad: bool = False,
    absgrad: bool = False,
    rasterize_mode: str = "classic",
    channel_chunk: int = 32,
    distributed: bool = False,
    camera_model: str = "pinhole",
    segmented: bool = False,
    covars: Tensor | None = None,
    with_ut: bool = False,
    with_eval3d: bool = False,
    radial_coeffs: Tensor | None = None,
    tangential_coeffs: Tensor | None = None,
    thin_prism_coeffs: Tensor | None = None,
    ftheta_coeffs: object | None = None,
    rolling_shutter: object = RollingShutterType.GLOBAL,
    viewmats_rs: Tensor | None = None,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    r"""Render N Gaussians into the images of C pinhole cameras.

    Follows Kerbl et al., *3D Gaussian Splatting for Real-Time Radiance Field Rendering* (2023): each Gaussian
    is projected by the EWA approximation, :math:`\Sigma' = J W \Sigma W^T J^T` (equation 5, after Zwicker et al.,
    *EWA Splatting*, 2002), then blended front to back,
    :math:`C = \sum_i c_i \alpha_i \prod_{j<i} (1 - \alpha_j)` (equation 3).

    All tensors are float32 on one device, CPU or CUDA; they need not be contiguous.

    Args:
        means: [N, 3] centres, in world coordinates.
        quats: [N, 4] rotations as quaternions w, x, y, z; need not be normalised.
        scales: [N, 3] standard deviations along the rotated axes, in world units.
        opacities: [N] between 0 and 1.
        colors: [N, D] or [C, N, D] values with any D >= 1; with `sh_degree`, [N, K, 3] or [C, N, K, 3]
            coefficients of spherical harmonics, evaluated towards each camera; 0.5 is added and negative
            results become 0.
        viewmats: [C, 4, 4] world-to-camera matrices; the camera looks along +z, with x to the right and y
            down.
        Ks: [C, 3, 3] intrinsics in pixels; focal lengths and principal point are used, a skew is not.
        width: image width in pixels, 1 to 1048576.
        height: image height in pixels, 1 to 1048576.
        near_plane: Gaussians whose centre is nearer than this depth are left out.
        far_plane: Gaussians whose centre is beyond this depth are left out.
        radius_clip: Gaussians whose radius in pixels is at most this along both axes are left out.
        eps2d: added to the diagonal of each projected covariance, in square pixels.
        sh_degree: 0 to 4, or None for direct values; may be below the degree of the coefficients.
        packed: layout of the entries of `meta`, see below. The images are the same.
        tile_size: side of the square tiles in pixels, 1 to 32. The images are the same.
        backgrounds: [C, D] values behind everything, or None for zeros. Depth has background 0, whatever is given.
        render_mode: "RGB" renders `colors`, "D" the accumulated depth :math:`\sum_i w_i z_i`, "ED" the
            expected depth :math:`\sum_i w_i z_i / \sum_i w_i`; "RGB+D" and "RGB+ED" put depth behind the
            colours as the last channel.
        rasterize_mode: "classic", or "antialiased" to scale opacities by the root of the ratio of the
            projected covariance's determinants before and after `eps2d` (the 2D Mip filter of Yu et al.,
            *Mip-Splatting*, 2024).
        channel_chunk: must be positive; has no effect: the kernels take any number of channels at once.
        sparse_grad: must be False.
        absgrad: must be False.
        distributed: must be False.
        camera_model: must be "pinhole".
        segmented: must be False.
        covars: must be None.
        with_ut: must be False.
        with_eval3d: must be False.
        radial_coeffs: must be None.
        tangential_coeffs: must be None.
        thin_prism_coeffs: must be None.
        ftheta_coeffs: must be None.
        rolling_shutter: must be GLOBAL.
        viewmats_rs: must be None.

    Returns:
        The images [C, height, width, X] with X = D, 1 or D + 1 by `render_mode`; the accumulated opacities
        [C, height, width, 1]; and `meta`, the intermediate results. With no Gaussians the images are the
        background.

        Tensors in `meta` have one entry for each camera and Gaussian, [C, N, ...] (zeros where culled), or if
        `packed` one for each of the M visible pairs, [M, ...], ordered by camera, then Gaussian:
        radii (int32, [..., 2]), means2d ([..., 2]), depths, conics ([..., 3], the upper triangle of the
        inverse covariance), opacities (after compensation) and tiles_per_gauss (int32); if `packed` also
        batch_ids, camera_ids and gaussian_ids (int64, [M]), else these are None. Then isect_ids (int64, [L]:
        image, tile and depth of each Gaussian in each tile, sorted), flatten_ids (int32, [L]: which entry
        that is), isect_offsets (int32, [C, tile_height, tile_width]: where each tile's run starts) and the
        integers tile_width, tile_height, width, height, tile_size, n_batches and n_cameras. A tile that a
        Gaussian's rectangle overlaps but its ellipse does not reach is not listed, so the lists are shorter
        than gsplat's.

    Raises:
        NotImplementedError: for gsplat's features that are not here: those marked "must be" above, leading
            batch dimensions, and tensors that require grad while grad mode is on.
        TypeError: if a tensor is not float32 or a number is not one.
        ValueError: if a shape, device or value is wrong.
        IncompatibleArtifactError: if no kernels for this device can be had.
    """
    refuse_unsupported(
        camera_model,
        rolling_shutter,
        covars=covars,
        sparse_grad=sparse_grad,
        absgrad=absgrad,
        distributed=distributed,
        segmented=segmented,
        with_ut=with_ut,
        with_eval3d=with_eval3d,
        radial_coeffs=radial_coeffs,
        tangential_coeffs=tangential_coeffs,
        thin_prism_coeffs=thin_prism_coeffs,
        ftheta_coeffs=ftheta_coeffs,
        viewmats_rs=viewmats_rs,
    )
    arguments = check(
        means=means,
        quats=quats,
        scales=scales,
        opacities=opacities,
        colors=colors,
        viewmats=viewmats,
        Ks=Ks,
        width=width,
        height=height,
        near_plane=near_plane,
        far_plane=far_plane,
        radius_clip=radius_clip,
        eps2d=eps2d,
        sh_degree=sh_degree,
        tile_size=tile_size,
        backgrounds=backgrounds,
        render_mode=render_mode,
        rasterize_mode=rasterize_mode,
        channel_chunk=channel_chunk,
    )
    _kernels.require(arguments.device)

    splats = _project(arguments)
    if packed:
        splats = _pack(splats)
    return _rasterize(arguments, splats)


@dataclass(frozen=True)
class _Splats:
    """Projected Gaussians, [C, N, ...] or, packed, [M, ...] with their camera and Gaussian numbers."""

    radii: Tensor
    means2d: Tensor
    depths: Tensor
    conics: Tensor
    opacities: Tensor
    features: Tensor
    """What is blended: colours, depth or both, [..., X]."""
    camera_ids: Tensor | None = None
    gaussian_ids: Tensor | None = None


def _project(a: Arguments) -> _Splats:
    radii, means2d, depths, conics, compensations = torch.ops.splat.project(
        a.means,
        a.quats,
        a.scales,
        None,
        a.opacities,
        a.viewmats,
        a.Ks,
        a.width,
        a.height,
        a.eps2d,
        a.near_plane,
        a.far_plane,
        a.radius_clip,
        a.antialiased,
        _PINHOLE,
    )
    opacities = a.opacities.expand(a.cameras, -1)
    features = [_colors(a, radii)] if a.renders_color else []
    if a.renders_depth:
        features.append(depths[..., None])
    return _Splats(
        radii=radii,
        means2d=means2d,
        depths=depths,
        conics=conics,
        opacities=opacities * compensations if a.antialiased else opacities,
        features=torch.cat(features, dim=-1) if len(features) > 1 else features[0],
    )


def _colors(a: Arguments, radii: Tensor) -> Tensor:
    """Colours [C, N, D] as each camera sees them; what they are where culled does not matter."""
    if a.sh_degree is None:
        return a.colors.expand(a.cameras, -1, -1)
    centers = torch.linalg.inv(a.viewmats)[:, :3, 3]
    directions = a.means - centers[:, None]
    coeffs = a.colors if a.colors.ndim == 4 else a.colors[None]
    visible = (radii > 0).all(dim=-1)
    values: Tensor = torch.ops.splat.spherical_harmonics(a.sh_degree, directions, coeffs, visible)
    return (values + 0.5).clamp_min(0.0)


def _pack(splats: _Splats) -> _Splats:
    camera_ids, gaussian_ids = (splats.radii > 0).all(dim=-1).nonzero(as_tuple=True)
    return _Splats(
        radii=splats.radii[camera_ids, gaussian_ids],
        means2d=splats.means2d[camera_ids, gaussian_ids],
        depths=splats.depths[camera_ids, gaussian_ids],
        conics=splats.conics[camera_ids, gaussian_ids],
        opacities=splats.opacities[camera_ids, gaussian_ids],
        features=splats.features[camera_ids, gaussian_ids],
        camera_ids=camera_ids,
        gaussian_ids=gaussian_ids,
    )


def _rasterize(a: Arguments, splats: _Splats) -> tuple[Tensor, Tensor, dict[str, Any]]:
    tile_width = -(-a.width // a.tile_size)
    tile_height = -(-a.height // a.tile_size)
    tiles_per_gauss, isect_ids, flatten_ids, isect_offsets = torch.ops.splat.intersect(
        splats.means2d,
        splats.radii,
        splats.depths,
        splats.conics,
        splats.opacities,
        splats.camera_ids,
        a.cameras,
        a.tile_size,
        tile_width,
        tile_height,
    )
    images, alphas, _ = torch.ops.splat.rasterize(
        splats.means2d,
        splats.conics,
        splats.features,
        splats.opacities,
        _backgrounds(a),
        None,
        a.width,
        a.height,
        a.tile_size,
        isect_offsets,
        flatten_ids,
    )
    if a.expects_depth:
        depth = images[..., -1:] / alphas.clamp_min(1e-10)
        images = torch.cat([images[..., :-1], depth], dim=-1)
    meta = {
        "batch_ids": None if splats.camera_ids is None else torch.zeros_like(splats.camera_ids),
        "camera_ids": splats.camera_ids,
        "gaussian_ids": splats.gaussian_ids,
        "radii": splats.radii,
        "means2d": splats.means2d,
        "depths": splats.depths,
        "conics": splats.conics,
        "opacities": splats.opacities,
        "tile_width": tile_width,
        "tile_height": tile_height,
        "tiles_per_gauss": tiles_per_gauss,
        "isect_ids": isect_ids,
        "flatten_ids": flatten_ids,
        "isect_offsets": isect_offsets,
        "width": a.width,
        "height": a.height,
        "tile_size": a.tile_size,
        "n_batches": 1,
        "n_cameras": a.cameras,
    }
    return images, alphas, meta


def _backgrounds(a: Arguments) -> Tensor | None:
    """Backgrounds [C, X], zero for depth; None if there is nothing but zeros."""
    if a.backgrounds is None or not a.renders_color:
        return None
    if a.renders_depth:
        return torch.cat([a.backgrounds, a.backgrounds.new_zeros(a.cameras, 1)], dim=-1)
    return a.backgrounds
