"""Which tiles of an image each projected Gaussian reaches, listed in the order of blending.

Shapes: `...` leading dimensions of I images in all, N Gaussians of each, M rows of a packed layout, L intersections.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import _kernels
from .autocast import in_float32
from .checks import (
    MAX_SIDE,
    MAX_TILE_SIZE,
    check_count,
    check_dimensions,
    check_shape,
    check_tensor,
    check_tiles,
    integer,
    positive_int,
    shaped,
)

Intersections = tuple[Tensor, Tensor, Tensor]
Grid = tuple[int, int, int]  # tile_size, tile_width, tile_height


@torch.no_grad()
@in_float32
def isect_tiles(
    means2d: Tensor,
    radii: Tensor,
    depths: Tensor,
    tile_size: int,
    tile_width: int,
    tile_height: int,
    sort: bool = True,
    segmented: bool = False,
    packed: bool = False,
    n_images: int | None = None,
    image_ids: Tensor | None = None,
    gaussian_ids: Tensor | None = None,
    conics: Tensor | None = None,
    opacities: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """List the tiles that each Gaussian's rectangle overlaps, by image, tile and depth.

    The same as gsplat 1.5.3's function, with two more parameters, `conics` and `opacities`.

    Args:
        means2d: float32 [..., N, 2], or [M, 2] if `packed`; the other tensors are on the same device.
        radii: int32 [..., N, 2] or [M, 2]; a Gaussian with a radius of 0 is in no tile.
        depths: float32 [..., N] or [M].
        tile_size: side of a tile in pixels.
        tile_width: columns of tiles.
        tile_height: rows of tiles.
        sort: has no effect: the lists are always sorted.
        segmented: has no effect: the lists are the same with either sort.
        packed: whether the tensors are packed.
        n_images: I; needed if `packed`.
        image_ids: int64 [M]; needed if `packed`, else without effect.
        gaussian_ids: has no effect: the image's number is sufficient.
        conics: float32 [..., N, 3] or [M, 3]; if given, along with `opacities`, only the tiles in which the Gaussian is
            visible are listed, not all that its rectangle overlaps.
        opacities: float32 [..., N] or [M].

    Returns:
        The number of tiles of each Gaussian, int32 [..., N] or [M]; the key of each intersection, int64 [L], made of
        image, tile and 32 bits of depth; and the number of its Gaussian among all I N or M, int32 [L].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
        RuntimeError: if, on the CPU, the lists do not fit into memory.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    positive_int("tile_size", tile_size, MAX_TILE_SIZE)
    positive_int("tile_width", tile_width, MAX_SIDE)
    positive_int("tile_height", tile_height, MAX_SIDE)
    check_tensor("means2d", means2d)
    check_tensor("radii", radii, means2d, torch.int32)
    check_tensor("depths", depths, means2d)
    check_dimensions("means2d", means2d, 2, "[M, 2]" if packed else "[..., N, 2]")
    lead = tuple(means2d.shape[:1] if packed else means2d.shape[:-1])
    words = "M" if packed else "..., N"
    check_shape("means2d", means2d, (*lead, 2), f"[{words}, 2]")
    check_shape("radii", radii, (*lead, 2), f"[{words}, 2]")
    check_shape("depths", depths, lead, f"[{words}]")
    if (conics is None) != (opacities is None):
        raise ValueError("conics and opacities go together, found only one of them")
    images = math.prod(lead[:-1])
    if packed:
        if image_ids is None or n_images is None:
            raise ValueError("packed needs n_images and image_ids")
        check_tensor("image_ids", image_ids, means2d, torch.int64)
        check_shape("image_ids", image_ids, lead, "[M]")
        images = _checked_images(n_images)
    check_tiles(images, tile_width, tile_height)
    check_count("images x Gaussians", 1 if packed else images, lead[-1])
    if conics is not None and opacities is not None:
        check_tensor("conics", conics, means2d)
        check_tensor("opacities", opacities, means2d)
        check_shape("conics", conics, (*lead, 3), f"[{words}, 3]")
        check_shape("opacities", opacities, lead, f"[{words}]")
    tiles_per_gauss, flatten_ids, offsets = intersect(
        means2d, radii, depths, conics, opacities, image_ids if packed else None, images,
        tile_size, tile_width, tile_height,
    )  # fmt: skip
    return tiles_per_gauss, intersection_keys(depths, flatten_ids, offsets), flatten_ids


@torch.no_grad()
def intersect(
    means2d: Tensor,
    radii: Tensor,
    depths: Tensor,
    conics: Tensor | None,
    opacities: Tensor | None,
    image_ids: Tensor | None,
    images: int,
    tile_size: int,
    tile_width: int,
    tile_height: int,
    capacity: int | None = None,
) -> Intersections:
    """`isect_tiles` without its checks and keys; also `isect_offset_encode`'s int32 [I, tile_height, tile_width].

    With a capacity, the second one is int32 [capacity], and -1 behind the last pair. On CUDA, it is not waited for how
    many pairs there are: if they are more, those of the farthest Gaussians are left out. On the CPU that is an error.
    """
    _kernels.require_for(means2d)
    shape = depths.shape
    if conics is None or opacities is None:
        # A conic of zeros is not an ellipse, so the whole rectangle is kept.
        conics, opacities = depths.new_zeros(*shape, 3), torch.ones_like(depths)
    flat = shape if image_ids is not None else (images, shape[-1])
    tiles_per_gauss, flatten_ids, offsets = torch.ops.splat.intersect(
        shaped(means2d, *flat, 2),
        shaped(radii, *flat, 2),
        shaped(depths, *flat),
        shaped(conics, *flat, 3),
        shaped(opacities, *flat),
        image_ids,
        images,
        tile_size,
        tile_width,
        tile_height,
        capacity,
    )
    return shaped(tiles_per_gauss, *shape), flatten_ids, offsets


@torch.no_grad()
def intersection_keys(depths: Tensor, flatten_ids: Tensor, offsets: Tensor) -> Tensor:
    """gsplat's keys of the intersections, int64 [L], which nothing of splat's own reads; the largest number for -1.

    `depths` [..., N] or [M]; `flatten_ids` [L] and `offsets` [I, tile_height, tile_width] of `intersect`.
    """
    places = torch.arange(flatten_ids.shape[0], dtype=torch.int32, device=flatten_ids.device)
    # Of tiles that begin at the same place only the last one has entries.
    tiles = torch.searchsorted(offsets.flatten(), places, right=True) - 1
    images, rows, columns = offsets.shape
    firsts = _first_keys(images, rows, columns, offsets.device).flatten()
    # One more of each, for -1: there may be no depths, and no tiles.
    listed = flatten_ids >= 0
    depths = torch.cat([depths.flatten(), depths.new_zeros(1)])
    depth = depths.index_select(0, flatten_ids.where(listed, len(depths) - 1))
    firsts = torch.cat([firsts, firsts.new_full((1,), torch.iinfo(torch.int64).max)])
    key = firsts.index_select(0, tiles.where(listed, len(firsts) - 1))
    return key | (depth.view(torch.int32).long() & 0xFFFFFFFF)


@torch.no_grad()
def isect_offset_encode(isect_ids: Tensor, n_images: int, tile_width: int, tile_height: int) -> Tensor:
    """Where each tile's entries begin in the lists of `isect_tiles`.

    The same as gsplat 1.5.3's function.

    Args:
        isect_ids: int64 [L] keys, sorted.
        n_images: I.
        tile_width: columns of tiles.
        tile_height: rows of tiles.

    Returns:
        int32 [I, tile_height, tile_width].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    check_tensor("isect_ids", isect_ids, dtype=torch.int64)
    check_shape("isect_ids", isect_ids, (isect_ids.numel(),), "[L]")
    columns, rows = positive_int("tile_width", tile_width, MAX_SIDE), positive_int("tile_height", tile_height, MAX_SIDE)
    check_tiles(_checked_images(n_images), columns, rows)
    check_count("isect_ids", isect_ids.shape[0])
    return torch.searchsorted(isect_ids, _first_keys(n_images, rows, columns, isect_ids.device), out_int32=True)


def _first_keys(images: int, rows: int, columns: int, device: torch.device) -> Tensor:
    """The lowest key that each tile can have, int64 [I, rows, columns].

    A key is image | tile | depth. The lower 32 bits are those of the depth, and the tile has as many bits as it takes
    to write the number of tiles.
    """
    tiles = rows * columns
    upper = (torch.arange(images, device=device)[:, None] << tiles.bit_length()) | torch.arange(tiles, device=device)
    return (upper << 32).reshape(images, rows, columns)


def _checked_images(n_images: int) -> int:
    if integer("n_images", n_images) < 0:
        raise ValueError(f"n_images must be at least 0, found {n_images}")
    return n_images
