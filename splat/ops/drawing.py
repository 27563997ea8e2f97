"""The frame of `rasterization` and `rasterization_2dgs`: the checks of their arguments and their `meta`; and how
`rasterization` draws.

Shapes: `...` leading batch dimensions, C cameras of each batch, N Gaussians.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .arguments import (
    RASTERIZE_MODES,
    ProjectionSettings,
    Sizes,
    check_distributed,
    check_scene,
    checked_capacity,
    has_lens,
    without_ftheta,
)
from .checks import MAX_TILE_SIZE, check_tiles, check_values, checked_alpha, one_of, positive_int
from .draw_arguments import Cameras, Options, Scene
from .features import Features
from .intersection import Grid
from .meta import lazy_meta
from .packing import SparseRows, Splats
from .pairs import exchange, meta_of_lists, project_splats, tile_pairs
from .pixels import rasterize
from .projection import GaussianParameters, check_sparse

if TYPE_CHECKING:
    from .lens_cameras import LensCameras


class Drawing(NamedTuple):
    """The arguments, checked, and what follows from them."""

    scene: Scene
    cameras: Cameras
    options: Options
    sizes: Sizes
    features: Features
    settings: ProjectionSettings
    grid: Grid
    capacity: int | None
    max_alpha: float
    lenses: LensCameras | None
    """The cameras, if a lens, a shutter or rays matter."""
    rays: Tensor | None
    """[..., C, height, width, 6], if Gaussians are evaluated along them."""

    def meta(self, shown: dict[str, Any], listed: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        """The intermediate results: of the pairs that are shown, their lists, and others."""
        sizes = {
            "width": self.settings.width,
            "height": self.settings.height,
            "tile_size": self.grid[0],
            "n_batches": self.sizes.batches,
            "n_cameras": self.sizes.cameras,
        }
        return lazy_meta({**shown, **listed, **sizes, **more})


def check_drawing(scene: Scene, cameras: Cameras, options: Options, render_modes: tuple[str, ...]) -> Drawing:
    """Check the arguments, of which `render_mode` is one of these.

    Raises:
        NotImplementedError, TypeError, ValueError: as `rasterization`.
    """
    ut_params = None
    if options.with_ut or options.ut_params is not None:
        from .projection_ut import checked_parameters  # not at the top: few programs need it

        ut_params = checked_parameters(options.ut_params)
    camera_model = without_ftheta(cameras.model) if options.with_ut else cameras.model
    sizes = check_scene(
        means=scene.means,
        quats=scene.quats,
        scales=scene.scales,
        covars=scene.covars,
        covars_shape=(3, 3),
        opacities=scene.opacities,
        opacities_required=True,
        viewmats=cameras.viewmats,
        Ks=cameras.Ks,
        camera_model=camera_model,
    )
    features = Features(scene, one_of("render_mode", options.render_mode, render_modes), sizes)
    settings = ProjectionSettings(
        width=cameras.width,
        height=cameras.height,
        eps2d=options.eps2d,
        near_plane=cameras.near_plane,
        far_plane=cameras.far_plane,
        radius_clip=options.radius_clip,
        antialiased=one_of("rasterize_mode", options.rasterize_mode, RASTERIZE_MODES) == "antialiased",
        camera_model=camera_model,
        z_order=options.global_z_order,
        ut_params=ut_params,
    )
    tile_size = positive_int("tile_size", options.tile_size, MAX_TILE_SIZE)
    grid = tile_size, -(-settings.width // tile_size), -(-settings.height // tile_size)
    check_tiles(sizes.images, *grid[1:])
    check_values(sizes.images, settings.height, settings.width, features.channels)
    check_sparse(options.sparse_grad, options.packed, sizes)
    capacity = checked_capacity(options.capacity, options.packed, options.distributed)
    max_alpha = checked_alpha(options.max_alpha)
    lenses = rays = None
    if options.with_ut or options.with_eval3d or has_lens(cameras.lens):
        from .rendering_ut import check_lens_options  # not at the top: few programs need it

        lenses = check_lens_options(scene, cameras, options, sizes, settings)
        if options.with_eval3d:
            from .pixels_eval3d import checked_rays

            rays = checked_rays(cameras.rays, lenses, sizes, scene.means)
    return Drawing(scene, cameras, options, sizes, features, settings, grid, capacity, max_alpha, lenses, rays)


def draw(drawing: Drawing) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """What `rasterization` returns: pairs are exchanged if it is distributed, projected, listed and blended."""
    scene, options, features, settings = drawing.scene, drawing.options, drawing.features, drawing.settings
    sizes, grid, lenses = drawing.sizes, drawing.grid, drawing.lenses
    viewmats, Ks = drawing.cameras.viewmats, drawing.cameras.Ks
    ranks, projected = None, sizes
    if options.distributed:
        from .rank_exchange import gather_cameras, sync_ranks  # not at the top: few programs need it

        check_distributed(sizes, features.per_camera)
        ranks = sync_ranks(sizes, settings, viewmats.device, _facts(drawing))
        viewmats, Ks, lenses = gather_cameras(ranks, viewmats, Ks, lenses)
        projected = Sizes((), sizes.gaussians, ranks.all_cameras)
    gaussians = GaussianParameters(scene.means, scene.quats, scene.scales, scene.covars, scene.opacities)
    rows = SparseRows()
    if options.sparse_grad:
        gaussians = gaussians.with_sparse_gradients(rows)
    seen_by = lenses if options.with_ut else None
    splats, shaded, invalid = project_splats(gaussians, viewmats, Ks, sizes, settings, features.colors, seen_by, ranks)
    splats.radii, invalid = features.left_out(splats.radii, invalid)
    if options.with_eval3d and seen_by is not None:
        from .projection_ut import depths_by_means

        splats.depths = depths_by_means(splats.depths, scene.means, splats.radii, seen_by, settings.z_order)
    ends = None if seen_by is None else seen_by.viewmats_rs
    pairs = splats, *features.of_pairs(shaded, gaussians.means, viewmats, splats.radii, ends)
    if ranks is None:
        by_ellipses = not options.with_eval3d
        shown, splats, colors, lists = tile_pairs(*pairs, sizes, grid, options.packed, drawing.capacity, by_ellipses)
    else:
        layout = options.packed, options.absgrad
        shown, splats, colors, lists = exchange(ranks, *pairs, projected, sizes, grid, *layout)
    if options.sparse_grad and shown.visible is not None:
        rows.fill(shown.visible.gaussian_ids)

    listed = meta_of_lists(splats.depths, lists, sizes, grid)
    tiles = listed["isect_offsets"], listed["flatten_ids"]
    images, alphas, more = _blend(drawing, gaussians, splats, features.with_depth(colors, splats.depths), tiles)
    images, signals = features.apart(images, alphas)
    more = {"n_invalid": invalid, **signals, **more}
    return images, alphas, drawing.meta(shown.meta(projected), listed, more)


def _blend(
    drawing: Drawing, gaussians: GaussianParameters, splats: Splats, colors: Tensor, tiles: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The images, their opacities, and the normals for `meta`; of the Gaussians in space if there are rays, else of the
    splats.
    """
    backgrounds, tile_size, max_alpha = drawing.features.backgrounds, drawing.grid[0], drawing.max_alpha
    if drawing.rays is not None:
        from .pixels_eval3d import draw_along_rays  # few programs need it

        images, alphas, normals = draw_along_rays(
            gaussians, drawing.rays, colors, splats.opacities, tile_size, *tiles, backgrounds, max_alpha,
            drawing.features.along_rays, drawing.options.return_normals,
        )  # fmt: skip
        return images, alphas, {} if normals is None else {"normals": normals}
    images, alphas = rasterize(
        splats.means2d,
        splats.conics,
        colors,
        splats.opacities,
        backgrounds,
        None,
        drawing.settings.width,
        drawing.settings.height,
        tile_size,
        *tiles,
        packed=splats.visible is not None,
        absgrad=drawing.options.absgrad,
        max_alpha=max_alpha,
    )
    return images, alphas, {}


def _facts(drawing: Drawing) -> dict[str, object]:
    """What all ranks must agree on, beside the settings."""
    cameras, options = drawing.cameras, drawing.options
    return {
        "render_mode": options.render_mode,
        **drawing.features.facts,
        "absgrad": options.absgrad,
        "global_z_order": options.global_z_order,
        # Who does not differentiate by them would keep the others waiting.
        "viewmats.requires_grad": cameras.viewmats.requires_grad and torch.is_grad_enabled(),
        "with_ut": options.with_ut and (cameras.model, *map(_kind, cameras.lens)),
    }


def _kind(value: object) -> str:
    """What ranks must agree on: values of tensors are their own."""
    return "a tensor" if isinstance(value, Tensor) else str(value)
