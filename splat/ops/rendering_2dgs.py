"""The public function `rasterization_2dgs`, with the signature and the meanings of gsplat 1.5.3."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from .arguments import RENDER_MODES, ProjectionSettings, RenderMode, Sizes, check_colors, check_scene
from .autocast import in_float32
from .checks import MAX_TILE_SIZE, check_tiles, check_values, checked_alpha, one_of, positive_int
from .defaults import EPS2D, FAR_PLANE, MAX_ALPHA, NEAR_PLANE
from .harmonics import spherical_harmonics
from .intersection import intersect
from .meta import lazy_meta
from .packing import Visible, meta_of_ids
from .pairs import meta_of_lists
from .pixels_2dgs import rasterize_2dgs
from .projection import Colors, check_sparse
from .projection_2dgs import dense, project_discs

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
        tile_size: as for `rasterization`.
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
    sizes = check_scene(
        means=means, quats=quats, scales=scales, opacities=opacities, opacities_required=True, viewmats=viewmats, Ks=Ks
    )
    one_of("render_mode", render_mode, RENDER_MODES)
    one_of("depth_mode", depth_mode, ("expected", "median"))
    renders_color, renders_depth = render_mode.startswith("RGB"), render_mode.endswith("D")
    if distloss and not renders_depth:
        raise ValueError(f"distloss=True needs a render_mode with depth, D, ED, RGB+D or RGB+ED; found {render_mode!r}")
    per_camera = check_colors(colors, backgrounds, sizes, sh_degree, means, render_mode)
    settings = ProjectionSettings(
        width=width,
        height=height,
        eps2d=eps2d,
        near_plane=near_plane,
        far_plane=far_plane,
        radius_clip=radius_clip,
    )
    tile_size = positive_int("tile_size", tile_size, MAX_TILE_SIZE)
    columns, rows = -(-settings.width // tile_size), -(-settings.height // tile_size)
    check_tiles(sizes.images, columns, rows)
    channels = (colors.shape[-1] if renders_color else 0) + renders_depth
    check_values(sizes.images, settings.height, settings.width, channels)
    check_sparse(sparse_grad, packed, sizes)
    max_alpha = checked_alpha(max_alpha)

    finite = opacities.detach().isfinite()[..., None, :]
    if renders_color:
        finite = finite & Colors(colors, per_camera, sh_degree).finite
    discs = project_discs(means, quats, scales, viewmats, Ks, sizes, settings, sparse_grad, finite)
    visible = discs.visible
    poses = torch.linalg.inv(viewmats)
    shown = [*discs[1:], _gaussians(opacities, visible, sizes, False)]
    features = [_colors(means, colors, poses, sh_degree, per_camera, visible, sizes)] if renders_color else []
    drawn = torch.cat([*features, *([discs.depths[..., None]] if renders_depth else [])], dim=-1)
    if not packed:
        *shown, drawn = (dense(values, visible, sizes) for values in (*shown, drawn))
    radii, means2d, depths, ray_transforms, normals, shown_opacities = shown
    grid = tile_size, columns, rows
    ids = visible.image_ids if packed else None
    lists = intersect(means2d, radii, depths, None, None, ids, sizes.images, *grid)
    listed = meta_of_lists(depths, lists, sizes, grid)
    if backgrounds is not None and renders_depth:
        backgrounds = pad(backgrounds, (0, 1)) if renders_color else None
    densify = torch.zeros_like(means2d, requires_grad=True)
    size = settings.width, settings.height, tile_size
    given = means2d, ray_transforms, drawn, shown_opacities, normals, densify
    drawn_lists = listed["isect_offsets"], listed["flatten_ids"]
    images, alphas, image_normals, distortions, medians = rasterize_2dgs(
        *given, size, *drawn_lists, backgrounds, None, packed, absgrad, distloss, max_alpha
    )
    if render_mode.endswith("ED"):
        images = torch.cat([images[..., :-1], images[..., -1:] / alphas.clamp_min(1e-10)], dim=-1)
    rotations = poses[..., :3, :3]
    surf_normals = None
    if renders_color and renders_depth:
        surf_normals = _surface_normals(images[..., -1:] if depth_mode == "expected" else medians, rotations, Ks)
        surf_normals = surf_normals.squeeze(0)  # programs for gsplat count on it
    meta: dict[str, Any] = {
        **meta_of_ids(visible if packed else None, sizes),
        "radii": radii,
        "means2d": means2d,
        "depths": depths,
        "ray_transforms": ray_transforms,
        "opacities": shown_opacities,
        "normals": normals,
        **listed,
        "width": settings.width,
        "height": settings.height,
        "tile_size": tile_size,
        "n_batches": sizes.batches,
        "n_cameras": sizes.cameras,
        "render_distort": distortions,
        "gradient_2dgs": densify,
    }
    return images, alphas, _in_world(image_normals, rotations), surf_normals, distortions, medians, lazy_meta(meta)


def _gaussians(values: Tensor, visible: Visible, sizes: Sizes, per_camera: bool) -> Tensor:
    """[..., N, *], or [..., C, N, *] if `per_camera`, as [M, *]."""
    lead = len(sizes.batch) + (2 if per_camera else 1)
    sets = visible.image_ids if per_camera else visible.batch_ids(sizes)
    return values.reshape(-1, *values.shape[lead:])[sets * sizes.gaussians + visible.gaussian_ids]


def _colors(
    means: Tensor,
    colors: Tensor,
    poses: Tensor,
    sh_degree: int | None,
    per_camera: bool,
    visible: Visible,
    sizes: Sizes,
) -> Tensor:
    """The colours of the visible pairs, [M, D]."""
    values = _gaussians(colors, visible, sizes, per_camera)
    if sh_degree is None:
        return values
    places = poses[..., :3, 3].reshape(-1, 3)[visible.image_ids]
    directions = _gaussians(means, visible, sizes, False) - places
    return (spherical_harmonics(sh_degree, directions, values) + 0.5).clamp_min(0.0)


def _in_world(vectors: Tensor, rotations: Tensor) -> Tensor:
    """Vectors [..., H, W, 3] of cameras, in world coordinates."""
    return (rotations[..., None, None, :, :] * vectors[..., None, :]).sum(-1)


def _surface_normals(depths: Tensor, rotations: Tensor, Ks: Tensor) -> Tensor:
    """Unit normals [..., H, W, 3] of the surface of depths [..., H, W, 1], in world coordinates; zeros at the edges."""
    height, width = depths.shape[-3:-1]
    x = torch.arange(width, device=depths.device) + 0.5
    y = torch.arange(height, device=depths.device) + 0.5
    focal_x, focal_y, centre_x, centre_y = (Ks[..., i, j, None, None] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    rays = torch.stack([(x - centre_x) / focal_x + 0 * y[:, None], (y[:, None] - centre_y) / focal_y + 0 * x], dim=-1)
    points = depths * pad(rays, (0, 1), value=1.0)
    down = points[..., 2:, 1:-1, :] - points[..., :-2, 1:-1, :]
    right = points[..., 1:-1, 2:, :] - points[..., 1:-1, :-2, :]
    # In the world: a product of two turned vectors is the turned product.
    return pad(normalize(_in_world(torch.cross(down, right, dim=-1), rotations), dim=-1), (0, 0, 1, 1, 1, 1))
