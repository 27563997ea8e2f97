"""The public function `rasterization_2dgs`, with the signature and the meanings of gsplat 1.5.3."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from .arguments import RENDER_MODES, RenderMode, Sizes
from .autocast import in_float32
from .camera_space import camera_to_world
from .checks import one_of
from .defaults import EPS2D, FAR_PLANE, MAX_ALPHA, NEAR_PLANE
from .draw_arguments import Cameras, Options, Scene
from .drawing import check_drawing
from .harmonics import spherical_harmonics
from .intersection import intersect
from .normals_2dgs import in_world, surface_normals
from .packing import Visible, meta_of_ids
from .pairs import meta_of_lists
from .pixels_2dgs import rasterize_2dgs
from .projection import Colors
from .projection_2dgs import Discs, dense, project_discs

DepthMode = Literal["expected", "median"]


@in_float32
def rasterization_2dgs(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float = NEAR_PLANE,
    far_plane: float = FAR_PLANE,
    radius_clip: float = 0.0,
    eps2d: float = EPS2D,
    sh_degree: int | None = None,
    packed: bool = False,
    tile_size: int = 16,
    backgrounds: Tensor | None = None,
    render_mode: RenderMode = "RGB",
    sparse_grad: bool = False,
    absgrad: bool = False,
    distloss: bool = False,
    depth_mode: DepthMode = "expected",
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor, dict[str, Any]]:
    """Render N flat Gaussians into the images of C cameras (Huang et al., *2D Gaussian Splatting*, 2024).

    The arguments are those of `rasterization`, where they have the same name; the third scale is ignored, and the third
    axis of each rotation is the normal of its disc. Differentiable with respect to every tensor but Ks.

    Args:
        means: [..., N, 3].
        quats: [..., N, 4].
        scales: [..., N, 3].
        opacities: [..., N].
        colors: [..., N, D] or [..., C, N, D], or with `sh_degree` [..., N, K, 3] or [..., C, N, K, 3].
        viewmats: [..., C, 4, 4].
        Ks: [..., C, 3, 3].
        width: in pixels.
        height: in pixels.
        near_plane: as for `rasterization`.
        far_plane: as for `rasterization`.
        radius_clip: as for `rasterization`.
        eps2d: has no effect, as in gsplat.
        sh_degree: as for `rasterization`.
        packed: as for `rasterization`.
        tile_size: as for `rasterization` with `with_eval3d`.
        backgrounds: as for `rasterization`.
        render_mode: as for `rasterization`.
        sparse_grad: as for `rasterization`.
        absgrad: as for `rasterization`.
        distloss: whether the distortion is computed; needs a depth in `render_mode`.
        depth_mode: the depth that `surf_normals` are of, "expected" or "median".
        max_alpha: as for `rasterization`.

    Returns:
        The images [..., C, height, width, X] as of `rasterization`; opacities [..., C, height, width, 1]; normals
        [..., C, height, width, 3] in world coordinates, weighted as colours are; surf_normals, of the surface that the
        depth shows, with "RGB+D" and "RGB+ED", else None, of the same shape, but as in gsplat without a first dimension
        of 1; the distortion of the depth, and the median depth (without depth in `render_mode`, of the last colour),
        [..., C, height, width, 1]; and `meta`, as of
        `rasterization`, with ray_transforms [*, 3, 3] and normals [*, 3] in place of conics, render_distort, and
        gradient_2dgs [*, 2], whose gradient is that of the centre in the image (see `rasterize_to_pixels_2dgs`).

    Raises:
        NotImplementedError, TypeError, ValueError, RuntimeError: as of `rasterization` and `rasterize_to_pixels_2dgs`.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    scene = Scene(means, quats, scales, opacities, colors, sh_degree, backgrounds)
    cameras = Cameras(viewmats, Ks, width, height, near_plane, far_plane)
    options = Options(render_mode, radius_clip, eps2d, packed, tile_size, sparse_grad, absgrad, max_alpha)
    drawing = check_drawing(scene, cameras, options, RENDER_MODES)
    sizes, features, settings, grid = drawing.sizes, drawing.features, drawing.settings, drawing.grid
    one_of("depth_mode", depth_mode, ("expected", "median"))
    if distloss and not features.depth:
        raise ValueError(f"distloss=True needs a render_mode with depth, D, ED, RGB+D or RGB+ED; found {render_mode!r}")

    finite = opacities.detach().isfinite()[..., None, :]
    if features.colors is not None:
        finite = finite & features.colors.finite
    discs = project_discs(means, quats, scales, viewmats, Ks, sizes, settings, sparse_grad, finite)
    visible = discs.visible
    rotations, places = camera_to_world(viewmats)
    shown_colors = None if features.colors is None else _colors(features.colors, discs, places, sizes)
    shown = [*discs[2:], _gaussians(opacities, visible, sizes, False), features.with_depth(shown_colors, discs.depths)]
    if not packed:
        shown = [dense(values, visible, sizes) for values in shown]
    radii, means2d, depths, ray_transforms, normals, shown_opacities, drawn = shown
    ids = visible.image_ids if packed else None
    listed = meta_of_lists(depths, intersect(means2d, radii, depths, None, None, ids, sizes.images, *grid), sizes, grid)
    densify = torch.zeros_like(means2d, requires_grad=True)
    size = settings.width, settings.height, grid[0]
    given = means2d, ray_transforms, drawn, shown_opacities, normals, densify
    lists = listed["isect_offsets"], listed["flatten_ids"]
    images, alphas, image_normals, distortions, medians = rasterize_2dgs(
        *given, size, *lists, features.backgrounds, None, packed, absgrad, distloss, drawing.max_alpha
    )
    images, _ = features.apart(images, alphas)
    surf_normals = None
    if features.colors is not None and features.depth:
        surf_normals = surface_normals(images[..., -1:] if depth_mode == "expected" else medians, rotations, Ks)
        surf_normals = surf_normals.squeeze(0)  # programs for gsplat count on it
    pairs = {
        **meta_of_ids(visible if packed else None, sizes),
        "radii": radii,
        "means2d": means2d,
        "depths": depths,
        "ray_transforms": ray_transforms,
        "opacities": shown_opacities,
        "normals": normals,
    }
    meta = drawing.meta(pairs, listed, {"render_distort": distortions, "gradient_2dgs": densify})
    return images, alphas, in_world(image_normals, rotations), surf_normals, distortions, medians, meta


def _gaussians(values: Tensor, visible: Visible, sizes: Sizes, per_camera: bool) -> Tensor:
    """[..., N, *], or [..., C, N, *] if `per_camera`, as [M, *]."""
    lead = len(sizes.batch) + (2 if per_camera else 1)
    sets = visible.image_ids if per_camera else visible.batch_ids(sizes)
    return values.reshape(-1, *values.shape[lead:])[sets * sizes.gaussians + visible.gaussian_ids]


def _colors(colors: Colors, discs: Discs, places: Tensor, sizes: Sizes) -> Tensor:
    """The colours of the visible pairs, [M, D], seen from the cameras' places [..., C, 3]."""
    values = _gaussians(colors.values, discs.visible, sizes, colors.per_camera)
    if colors.degree is None:
        return values
    directions = discs.means - places.reshape(-1, 3)[discs.visible.image_ids]
    return (spherical_harmonics(colors.degree, directions, values) + 0.5).clamp_min(0.0)
