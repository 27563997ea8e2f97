"""The pairs of camera and Gaussian: projected, in one of two layouts, and listed by tile.

Shapes: `...` leading batch dimensions, C cameras of each batch, N Gaussians, M pairs of a packed layout, D channels.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .arguments import ProjectionSettings, Sizes
from .checks import shaped
from .intersection import Grid, Intersections, intersect, intersection_keys
from .meta import LazyValue
from .packing import Splats, pack
from .projection import Colors, GaussianParameters, project

if TYPE_CHECKING:
    from .lens_cameras import LensCameras
    from .rank_exchange import Ranks

# The pairs that `meta` shows, those that are drawn, their colours if there are any, and the lists of these.
TiledPairs = tuple[Splats, Splats, Tensor | None, Intersections]


def project_splats(
    gaussians: GaussianParameters,
    viewmats: Tensor,
    Ks: Tensor,
    sizes: Sizes,
    settings: ProjectionSettings,
    colors: Colors | None,
    lenses: LensCameras | None = None,
    ranks: Ranks | None = None,
) -> tuple[Splats, Tensor, Tensor]:
    """All pairs, [..., C, N, *], their colours if those are harmonics, and how many are not finite.

    By the unscented transform if there are lenses, which have viewmats and Ks too. With `ranks`, the cameras are those
    of all processes, and not those that `sizes` counts.
    """
    if ranks is not None:
        return _project_for_ranks(ranks, gaussians, viewmats, Ks, settings, colors, lenses)
    if lenses is not None:
        from .rendering_ut import project_splats_unscented  # not at the top: few programs need it

        return project_splats_unscented(gaussians, lenses, sizes, settings, colors)
    gaussians = gaussians.with_triangles()
    assert gaussians.opacities is not None
    radii, means2d, depths, conics, compensations, shaded, invalid = project(
        gaussians, viewmats, Ks, sizes, settings, colors
    )
    opacities = gaussians.opacities[..., None, :].expand(depths.shape)
    opacities = opacities * compensations if settings.antialiased else opacities
    return Splats(radii, means2d, depths, conics, opacities), shaded, invalid


def _project_for_ranks(
    ranks: Ranks,
    gaussians: GaussianParameters,
    viewmats: Tensor,
    Ks: Tensor,
    settings: ProjectionSettings,
    colors: Colors | None,
    lenses: LensCameras | None,
) -> tuple[Splats, Tensor, Tensor]:
    """Each camera with the size of its own process's images: who is seen depends on it, and how the perspective of who
    is beside the image is approximated.
    """
    runs = ranks.camera_runs()
    found, begin = [], 0
    for count, size in runs:
        part = slice(begin, begin + count)
        views, K, sizes = viewmats[part], Ks[part], Sizes((), len(gaussians.means), count)
        seen_by = lenses and lenses.part(part, views, K, *size)
        found.append(project_splats(gaussians, views, K, sizes, settings.for_images(*size), colors, seen_by))
        begin += count
    if len(found) == 1:
        return found[0]
    splats, shaded, invalid = zip(*found, strict=True)
    parts = zip(*((each.radii, each.means2d, each.depths, each.conics, each.opacities) for each in splats), strict=True)
    radii, means2d, depths, conics, opacities = map(torch.cat, parts)
    return Splats(radii, means2d, depths, conics, opacities), torch.cat(shaded), torch.stack(invalid).sum()


def tile_pairs(
    splats: Splats,
    colors: Tensor | None,
    per_camera: bool,
    sizes: Sizes,
    grid: Grid,
    packed: bool,
    capacity: int | None,
    by_ellipses: bool = True,
) -> TiledPairs:
    """The pairs in the layout that is asked for; colours are [..., C, N, D] if `per_camera`, else [..., N, D].

    The lists have room for `capacity` pairs of Gaussian and tile, or for those that there are. Where a Gaussian is seen
    is said by its ellipse, or else by its rectangle, in a layout that is not packed.
    """
    if packed:
        visible, packed_colors, lists = pack(splats, colors, per_camera, sizes, grid)
        return visible, visible, None if colors is None else packed_colors, lists
    if colors is not None and not per_camera:
        shape = (*sizes.batch, sizes.cameras, sizes.gaussians, colors.shape[-1])
        colors = colors[..., None, :, :].expand(shape)
    return splats, splats, colors, _lists(splats, sizes, grid, capacity, by_ellipses)


def exchange(
    ranks: Ranks,
    splats: Splats,
    colors: Tensor | None,
    per_camera: bool,
    projected: Sizes,
    sizes: Sizes,
    grid: Grid,
    packed: bool,
    absgrad: bool,
) -> TiledPairs:
    """The same of several processes: `meta` shows this one's Gaussians, and those of all are drawn.

    `projected` has the cameras of all processes, `sizes` this one's.
    """
    from .rank_exchange import exchange_pairs  # not at the top: few programs need it

    shown, drawn, drawn_colors = exchange_pairs(ranks, splats, colors, per_camera, projected, packed, absgrad)
    return shown, drawn, None if colors is None else drawn_colors, _lists(drawn, sizes, grid)


def _lists(
    splats: Splats, sizes: Sizes, grid: Grid, capacity: int | None = None, by_ellipses: bool = True
) -> Intersections:
    """The Gaussians in each tile."""
    ids = None if splats.visible is None else splats.visible.image_ids
    conics, opacities = (splats.conics, splats.opacities) if by_ellipses else (None, None)
    return intersect(splats.means2d, splats.radii, splats.depths, conics, opacities, ids, sizes.images, *grid, capacity)


def meta_of_lists(depths: Tensor, lists: Intersections, sizes: Sizes, grid: Grid) -> dict[str, Any]:
    """The entries of `meta` about tiles."""
    _, tile_width, tile_height = grid
    tiles_per_gauss, flatten_ids, offsets = lists
    return {
        "tile_width": tile_width,
        "tile_height": tile_height,
        "tiles_per_gauss": tiles_per_gauss,
        "isect_ids": LazyValue(partial(intersection_keys, depths.detach(), flatten_ids, offsets)),
        "flatten_ids": flatten_ids,
        "isect_offsets": shaped(offsets, *sizes.batch, sizes.cameras, tile_height, tile_width),
        "n_pairs": LazyValue(tiles_per_gauss.sum),
    }
