"""The public function `rasterization`, with the signature and the meanings of gsplat 1.5.3: its parameters are named
here, and checked and drawn by drawing.py.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .arguments import RENDER_MODES, LensArguments, RasterizeMode, RenderMode, RollingShutterType
from .autocast import in_float32, widened
from .checks import positive_int
from .defaults import EPS2D, FAR_PLANE, MAX_ALPHA, NEAR_PLANE
from .draw_arguments import Cameras, Options, Scene
from .drawing import check_drawing, draw
from .features import RAY_MODES, RayMode, check_along_rays, refuse_newer


@in_float32
def rasterization(
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    opacities: Tensor,
    colors: Tensor | None,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float = NEAR_PLANE,
    far_plane: float = FAR_PLANE,
    radius_clip: float = 0.0,
    eps2d: float = EPS2D,
    sh_degree: int | None = None,
    packed: bool = True,
    tile_size: int | None = 16,
    backgrounds: Tensor | None = None,
    render_mode: RenderMode | RayMode = "RGB",
    sparse_grad: bool = False,
    absgrad: bool = False,
    rasterize_mode: RasterizeMode = "classic",
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
    *,
    capacity: int | None = None,
    max_alpha: float = MAX_ALPHA,
    extra_signals: Tensor | None = None,
    extra_signals_sh_degree: int | None = None,
    rays: Tensor | None = None,
    ut_params: object | None = None,
    return_normals: bool = False,
    global_z_order: bool = True,
    lidar_coeffs: object | None = None,
    external_distortion_coeffs: object | None = None,
    renderer_config: object | None = None,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    r"""Render N Gaussians into the images of C cameras.

    Follows Kerbl et al., *3D Gaussian Splatting for Real-Time Radiance Field Rendering* (2023): each Gaussian
    is projected by the EWA approximation, :math:`\Sigma' = J W \Sigma W^T J^T` (equation 5, after Zwicker et al.,
    *EWA Splatting*, 2002), then blended front to back,
    :math:`C = \sum_i c_i \alpha_i \prod_{j<i} (1 - \alpha_j)` (equation 3).

    All tensors are float32 on one device, CPU or CUDA; they need not be contiguous. `...` are any number of batch
    dimensions: separate scenes, rendered in one call. Differentiable with respect to all but Ks, without `with_ut`.

    Args:
        means: [..., N, 3] centres, in world coordinates.
        quats: [..., N, 4] rotations as quaternions w, x, y, z; they need not be normalised. None only with `covars`.
        scales: [..., N, 3] standard deviations along the rotated axes, in world units. None only with `covars`.
        opacities: [..., N] between 0 and 1.
        colors: [..., N, D] or [..., C, N, D] values with any D >= 1; with `sh_degree`, [..., N, K, 3] or
            [..., C, N, K, 3] coefficients of spherical harmonics, evaluated towards each camera; 0.5 is added and
            negative results become 0. The coefficients may be float16. None where `render_mode` is depth alone.
        viewmats: [..., C, 4, 4] world-to-camera matrices; the last row is taken to be 0, 0, 0, 1. The camera
            looks along +z, with x to the right and y down.
        Ks: [..., C, 3, 3] intrinsics in pixels; the focal lengths and the principal point are used, skew is ignored.
        width: image width in pixels, 1 to 1048576.
        height: image height in pixels, 1 to 1048576.
        near_plane: Gaussians whose centre is nearer than this depth are left out.
        far_plane: Gaussians whose centre is beyond this depth are left out.
        radius_clip: Gaussians whose radius in pixels is at most this along both axes are left out.
        eps2d: added to the diagonal of each projected covariance, in square pixels.
        sh_degree: 0 to 4, or None for direct values; may be below the degree of the coefficients.
        packed: layout of the entries of `meta`, see below. It does not change the images.
        tile_size: side of the square tiles in pixels, 1 to 32, or None for 16. It does not change the images; but with
            `with_eval3d`, tiles cut off Gaussians that are near the camera, as in gsplat.
        backgrounds: [..., C, D] values behind everything, [D] for all images, or None for zeros. The background of
            depth is always 0. That of extra signals follows that of colours: [..., C, D + E], or E with depth alone.
        render_mode: "RGB" renders `colors`, "D" the accumulated depth :math:`\sum_i w_i z_i`, "ED" the
            expected depth :math:`\sum_i w_i z_i / \sum_i w_i`; "RGB+D" and "RGB+ED" append depth to the
            colours as the last channel. "d", "Ed", "RGB-d" and "RGB-Ed" of gsplat 1.6.0, with `with_eval3d`, have the
            distance along the pixel's ray in its place.
        sparse_grad: gradients of means, quats, scales and covars are sparse COO tensors of the visible Gaussians;
            requires `packed` and no batch dimensions.
        absgrad: the backward pass sets `meta["means2d"].absgrad`, of the shape of means2d, to the sums over the pixels
            of the absolute gradients (Ye et al., *AbsGS*, 2024).
        rasterize_mode: "classic", or "antialiased" to scale opacities by the root of the ratio of the
            projected covariance's determinants before and after `eps2d` (the 2D Mip filter of Yu et al.,
            *Mip-Splatting*, 2024).
        channel_chunk: must be positive; has no effect: the kernels take any number of channels at once.
        distributed: each process of torch.distributed's default group (a rank) brings its own Gaussians and cameras,
            and gets the images of its cameras with the Gaussians of all; gradients go to the rank that has the
            Gaussian. All ranks must call this, and `backward`, equally often. The sizes of images may differ, and the
            numbers of Gaussians and cameras, which may be 0. Needs colours without a dimension for cameras, and no
            batch dimensions.
        camera_model: "pinhole", "ortho" (focal lengths in pixels per world unit) or "fisheye" (equidistant); with
            `with_ut` not "ortho", and "ftheta" too.
        segmented: has no effect: the results are the same with either sort.
        covars: [..., N, 3, 3] covariances, in place of quats and scales, which are then ignored. Only the upper
            triangle of each matrix is used.
        with_ut: whether Gaussians are projected by the unscented transform (Wu et al., *3DGUT*, 2025), which takes any
            lens and shutter, and has no gradients: without `with_eval3d`, only colours and opacities get any. This and
            `with_eval3d` need `packed=False`, and quats and scales.
        with_eval3d: whether Gaussians are evaluated in space, where a pixel's ray comes nearest to each, not in the
            image. Then means, quats, scales, opacities and colours have gradients, and viewmats must not require any.
        radial_coeffs: [..., C, 6], k1 to k6 of OpenCV's pinhole cameras, or [..., C, 4] of its fisheye cameras; this
            and the following need `with_ut`.
        tangential_coeffs: [..., C, 2], p1 and p2 of OpenCV's pinhole cameras.
        thin_prism_coeffs: [..., C, 4], s1 to s4 of OpenCV's pinhole cameras.
        ftheta_coeffs: FThetaCameraDistortionParameters of all cameras, which are "ftheta".
        rolling_shutter: RollingShutterType, the order in which rows or columns are taken.
        viewmats_rs: [..., C, 4, 4] where the cameras are when the last row or column is taken, if not all are at once;
            `viewmats` are where they are at the first. Both have rotations without scale, for lenses and rays.
        capacity: not in gsplat: room for how many pairs of Gaussian and tile the lists have, `packed=False` only. With
            one, nothing waits for a GPU, and a CUDA graph can capture the call. If `meta["n_pairs"]` is larger, the
            farthest Gaussians are missing in the images, and from 2**32 on all; on the CPU that is an error. None: as
            much as is needed.
        max_alpha: not in gsplat: what an alpha is at most; 0.99 draws as gsplat 1.6 and Kerbl et al. (2023) do.
        extra_signals: of gsplat 1.6.0, like all that follow: [..., N, E] or [..., C, N, E] values with any E >= 1, or
            [N, K, E] with `extra_signals_sh_degree`, which are drawn into `meta["render_extra_signals"]`.
        extra_signals_sh_degree: 0 to 4: the signals are coefficients of spherical harmonics, evaluated as colours are,
            but for negative results, which stay.
        rays: float32 [..., C, height, width, 6], with `with_eval3d` alone, in place of those of the cameras: origins
            and directions of any length, in world coordinates. A pixel whose direction is 0 shows the background.
        ut_params: UnscentedTransformParameters of `with_ut`; None for the usual ones.
        return_normals: with `with_eval3d`, `meta["normals"]` are [..., C, height, width, 3] the normals, blended as
            colours are: of each Gaussian the third axis of its rotation, on the side that the ray comes from.
        global_z_order: False, with `with_ut` alone, to sort by the distances of the centres from the camera, which are
            then the depth too, and by which ftheta cameras cull.
        lidar_coeffs: must be None.
        external_distortion_coeffs: must be None.
        renderer_config: must be None.

    Returns:
        The images [..., C, height, width, X] with X = D, 1 or D + 1 by `render_mode`; the accumulated opacities
        [..., C, height, width, 1]; and `meta`, the intermediate results. With no Gaussians the images are the
        background.

        Tensors in `meta` have one entry for each camera and Gaussian, [..., C, N, *] (zeros where culled), or if
        `packed` one for each of the M visible pairs, [M, *], ordered by batch, camera, then Gaussian:
        radii (int32, [*, 2]), means2d ([*, 2]; takes `retain_grad()`), depths, conics ([*, 3], the upper triangle of
        the inverse covariance), opacities (after compensation) and tiles_per_gauss (int32); if `packed` also
        batch_ids, camera_ids and gaussian_ids (int64, [M]), else these are None. Then isect_ids (int64, [L]:
        image, tile and depth of each Gaussian in each tile, sorted), flatten_ids (int32, [L]: which entry
        that is), isect_offsets (int32, [..., C, tile_height, tile_width]: where each tile's run starts) and the
        integers tile_width, tile_height, width, height, tile_size, n_batches and n_cameras. A tile that a
        Gaussian's rectangle overlaps but its ellipse does not reach is not listed, so the lists are shorter than
        gsplat's, unless `with_eval3d`. Not in gsplat: n_pairs (int64, []), how many pairs of Gaussian and tile there
        are: L, unless there is a `capacity`, which L is then, and flatten_ids -1 behind them. And n_invalid (int64,
        []), how often an image leaves out a Gaussian because of a NaN or an infinity in its parameters or in the
        colours that it would show. Its gradients by this image are 0.

    Raises:
        NotImplementedError: for features of gsplat 1.6.0 that splat does not have: those marked "must be" above. If Ks,
            a coefficient of a lens, viewmats_rs, or with `with_eval3d` viewmats requires grad while grad mode is on.
        TypeError: if a tensor is not float32 or a number is not one.
        ValueError: if a shape, device or value is wrong. The values of cameras on a GPU are not checked, because that
            would wait for the GPU.
        RuntimeError: if, on the CPU, `capacity` is too small, or the lists do not fit into memory.
        torch.OutOfMemoryError: if images of a gigabyte or more do not fit into memory.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    refuse_newer(
        global_z_order=None if global_z_order or with_ut else False,
        lidar_coeffs=lidar_coeffs,
        external_distortion_coeffs=external_distortion_coeffs,
        renderer_config=renderer_config,
    )
    check_along_rays(with_eval3d, rays, return_normals, render_mode)
    positive_int("channel_chunk", channel_chunk)
    if covars is not None:
        quats = scales = None
    scene = Scene(
        means, quats, scales, opacities, colors if sh_degree is None else widened(colors), sh_degree, backgrounds,
        covars=covars, extra_signals_sh_degree=extra_signals_sh_degree,
        extra_signals=extra_signals if extra_signals_sh_degree is None else widened(extra_signals),
    )  # fmt: skip
    lens = LensArguments(
        radial_coeffs, tangential_coeffs, thin_prism_coeffs, ftheta_coeffs, rolling_shutter, viewmats_rs
    )
    cameras = Cameras(viewmats, Ks, width, height, near_plane, far_plane, camera_model, lens, rays)
    options = Options(
        render_mode, radius_clip, eps2d, packed, 16 if tile_size is None else tile_size, sparse_grad, absgrad,
        max_alpha, rasterize_mode=rasterize_mode, capacity=capacity, distributed=distributed, with_ut=with_ut,
        with_eval3d=with_eval3d, ut_params=ut_params, return_normals=return_normals, global_z_order=global_z_order,
    )  # fmt: skip
    return draw(check_drawing(scene, cameras, options, (*RENDER_MODES, *RAY_MODES)))
