"""The Gaussians, or 2D Gaussians, that each pixel blends, as lists.

For looking inside, and for trying other ways to blend (`accumulation`): `rasterize_to_pixels` does both in one kernel,
with much less memory. Shapes: `...` leading dimensions of I images in all, N Gaussians of each, M pairs of pixel and
Gaussian, L entries of the tiles' lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from .autocast import in_float32
from .checks import (
    MAX_SIDE,
    MAX_TILE_SIZE,
    check_dimensions,
    check_ids,
    check_shape,
    check_tensor,
    check_tiles,
    checked_alpha,
    integer,
    positive_int,
)
from .defaults import MAX_ALPHA

# As in csrc/math/constants.h.
_MIN_ALPHA: Final = 1 / 255
_MIN_TRANSMITTANCE: Final = 1e-4
# Pixels times Gaussians that are looked at together: some 20 MB for each number of theirs.
_TOGETHER: Final = 1 << 22
_BATCH: Final = 128


@torch.no_grad()
@in_float32
def rasterize_to_indices_in_range(
    range_start: int,
    range_end: int,
    transmittances: Tensor,
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor, Tensor]:
    """Which Gaussians each pixel blends, front to back, and nothing else.

    The same as gsplat 1.5.3's function. Each tile's list is taken in batches of tile_size^2 Gaussians, of which this
    call looks at those from `range_start` up to, but not including, `range_end`; 0 and a large number give all.

    Args:
        range_start: the first batch, at least 0.
        range_end: the batch after the last.
        transmittances: float32 [..., image_height, image_width], what earlier batches left; 1 at the start. The other
            tensors are on the same device.
        means2d: float32 [..., N, 2].
        conics: float32 [..., N, 3], upper triangles of the inverse covariances.
        opacities: float32 [..., N].
        image_width: in pixels.
        image_height: in pixels.
        tile_size: side of a tile in pixels, 1 to 32.
        isect_offsets: int32 [..., rows, columns], of `isect_offset_encode`, with as many tiles as the image needs.
        flatten_ids: int32 [L], of `isect_tiles`.
        max_alpha: as for `rasterization`.

    Returns:
        gaussian_ids, 0 to N - 1, pixel_ids, row * image_width + column, and image_ids, 0 to I - 1: int64 [M], ordered
        by image, pixel, and from front to back.

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    size = image_width, image_height, tile_size
    splats = means2d, Shapes("conics", conics), opacities
    batches = range_start, range_end
    return _indices_in_range(batches, transmittances, *splats, size, isect_offsets, flatten_ids, max_alpha)


@torch.no_grad()
@in_float32
def rasterize_to_indices_in_range_2dgs(
    range_start: int,
    range_end: int,
    transmittances: Tensor,
    means2d: Tensor,
    ray_transforms: Tensor,
    opacities: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor, Tensor]:
    """Which 2D Gaussians each pixel blends, front to back: as `rasterize_to_indices_in_range`.

    Args:
        range_start: the first batch, at least 0.
        range_end: the batch after the last.
        transmittances: float32 [..., image_height, image_width], what earlier batches left.
        means2d: float32 [..., N, 2].
        ray_transforms: float32 [..., N, 3, 3], of `fully_fused_projection_2dgs`.
        opacities: float32 [..., N].
        image_width: in pixels.
        image_height: in pixels.
        tile_size: side of a tile in pixels, 1 to 32.
        isect_offsets: int32 [..., rows, columns].
        flatten_ids: int32 [L].
        max_alpha: as for `rasterization`.

    Returns:
        gaussian_ids, pixel_ids and image_ids: int64 [M].

    Raises:
        TypeError, ValueError: as there.
    """
    size = image_width, image_height, tile_size
    splats = means2d, Shapes("ray_transforms", ray_transforms), opacities
    batches = range_start, range_end
    return _indices_in_range(batches, transmittances, *splats, size, isect_offsets, flatten_ids, max_alpha)


class Shapes(NamedTuple):
    """The shapes of projected Gaussians, by what they are called."""

    name: str
    tensor: Tensor

    @property
    def ending(self) -> tuple[int, ...]:
        """The dimensions of one."""
        return (3,) if self.name == "conics" else (3, 3)

    @property
    def values(self) -> int:
        """How many numbers one has."""
        return math.prod(self.ending)


class FlatSplats(NamedTuple):
    """The projected Gaussians of all images, one behind the other, as they are blended."""

    means2d: Tensor
    shapes: Tensor
    opacities: Tensor
    max_alpha: float

    def alphas(self, ids: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Of these at points: their `exponents`, and alphas."""
        powers = exponents(self.means2d[ids], self.shapes[ids], x, y)
        return powers, (self.opacities[ids] * (-powers).exp()).clamp(max=self.max_alpha)


def flat_splats(means2d: Tensor, shapes: Shapes, opacities: Tensor, max_alpha: float) -> FlatSplats:
    """Those that `check_splats` has checked; raise TypeError or ValueError for another `max_alpha`."""
    flat = means2d.reshape(-1, 2), shapes.tensor.reshape(-1, shapes.values), opacities.reshape(-1)
    return FlatSplats(*flat, checked_alpha(max_alpha))


def _indices_in_range(
    batches: tuple[int, int],
    transmittances: Tensor,
    means2d: Tensor,
    shapes: Shapes,
    opacities: Tensor,
    image_size: tuple[int, int, int],
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    max_alpha: float,
) -> tuple[Tensor, Tensor, Tensor]:
    range_start, range_end = batches
    size = checked_size(*image_size)
    width, height, _ = size
    if not 0 <= integer("range_start", range_start) <= integer("range_end", range_end):
        raise ValueError(f"range_start must be from 0 to range_end, found {range_start} and {range_end}")
    check_tensor("means2d", means2d)
    check_tensor("transmittances", transmittances, means2d)
    lead = check_splats(means2d, shapes, opacities)
    check_shape("transmittances", transmittances, (*lead[:-1], height, width), "[..., image_height, image_width]")
    flatten_ids = check_lists(isect_offsets, flatten_ids, means2d, lead[:-1], size)

    splats = flat_splats(means2d, shapes, opacities, max_alpha)
    pixels, ids = blended_pairs(isect_offsets, flatten_ids, splats, transmittances, size, (range_start, range_end))
    return ids % max(lead[-1], 1), pixels % (width * height), pixels // (width * height)


def checked_size(image_width: int, image_height: int, tile_size: int) -> tuple[int, int, int]:
    """The three of them."""
    size = positive_int("tile_size", tile_size, MAX_TILE_SIZE)
    return (
        positive_int("image_width", image_width, MAX_SIDE),
        positive_int("image_height", image_height, MAX_SIDE),
        size,
    )


def check_lists(
    offsets: Tensor,
    flatten_ids: Tensor,
    means2d: Tensor,
    images: Sequence[int],
    size: tuple[int, int, int],
    name: str = "isect_offsets",
) -> Tensor:
    """Check the lists of the tiles of images [...]; `name` is what `offsets` are called.

    Returns flatten_ids without the -1 that stand behind the last, where there was room for more (a `capacity`).
    """
    width, height, tile_size = size
    rows, columns = -(-height // tile_size), -(-width // tile_size)
    for each, tensor in ((name, offsets), ("flatten_ids", flatten_ids)):
        check_tensor(each, tensor, means2d, torch.int32)
    check_shape(name, offsets, (*images, rows, columns), "[..., rows, columns]")
    check_shape("flatten_ids", flatten_ids, (flatten_ids.numel(),), "[L]")
    check_tiles(math.prod(images), columns, rows)
    listed = flatten_ids[: int((flatten_ids >= 0).sum())]
    check_ids("flatten_ids", listed, means2d.numel() // 2)
    return listed


def blended_pairs(
    isect_offsets: Tensor,
    flatten_ids: Tensor,
    splats: FlatSplats,
    transmittances: Tensor,
    size: tuple[int, int, int],
    batches: tuple[int, int],
) -> tuple[Tensor, Tensor]:
    """Numbers of pixels, of all images, and of the Gaussians [M] that they blend, ordered by pixel and front to back.

    From checked lists of all tiles and the projected Gaussians that they name. `size` is image_width, image_height and
    tile_size.
    """
    width, height, tile_size = size
    rows, columns = isect_offsets.shape[-2:]
    starts = isect_offsets.flatten().long()
    ends = torch.cat([starts[1:], starts.new_tensor([len(flatten_ids)])])
    if not bool((starts[:1] >= 0).all() and (starts <= ends).all()):
        raise ValueError("isect_offsets must be places in flatten_ids, in their order; take isect_offset_encode's")
    # What is beyond every list is left out, so that a very large number still is one of 64 bits.
    first, last = (min(each, len(flatten_ids)) * tile_size * tile_size for each in batches)
    tiles = _Tiles(starts + first, ends.minimum(starts + last), width, height, tile_size, rows, columns)
    found = list(_blended(tiles, flatten_ids.long(), splats, transmittances.flatten()))
    pixels, ids = (torch.cat([starts.new_empty(0), *(pair[i] for pair in found)]) for i in (0, 1))
    # Each pixel's are in their order already.
    pixels, order = pixels.sort(stable=True)
    return pixels, ids[order]


class _Tiles(NamedTuple):
    """The tiles of all images, and the part of the lists that each of them is about."""

    begins: Tensor
    ends: Tensor
    width: int
    height: int
    size: int
    rows: int
    columns: int

    def pixels(self, tiles: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of some tiles [T], each with P pixels: columns, rows and numbers [T, P], and which of them there are."""
        image, tile = tiles // (self.rows * self.columns), tiles % (self.rows * self.columns)
        within = torch.arange(self.size**2, device=tiles.device)
        x = (tile % self.columns * self.size)[:, None] + within % self.size
        y = (tile // self.columns * self.size)[:, None] + within // self.size
        numbers = (image * self.width * self.height)[:, None] + y * self.width + x
        return x, y, numbers, (x < self.width) & (y < self.height)


def _blended(
    tiles: _Tiles, flatten_ids: Tensor, splats: FlatSplats, transmittances: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Numbers of pixels, and of the Gaussians that they blend; those of one pixel in their order."""
    lengths = tiles.ends - tiles.begins
    # Tiles with lists of about one length are looked at together.
    by_length = lengths.argsort()
    used = by_length[lengths[by_length] > 0]
    together = max(1, _TOGETHER // (tiles.size**2 * _BATCH))
    for first in range(0, len(used), together):
        yield from _blended_together(tiles, used[first : first + together], flatten_ids, splats, transmittances)


def _blended_together(
    tiles: _Tiles, some: Tensor, flatten_ids: Tensor, splats: FlatSplats, transmittances: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """`_blended` for the tiles with the numbers `some`, which fit in memory."""
    x, y, numbers, inside = tiles.pixels(some)
    left = torch.where(inside, transmittances[numbers.where(inside, 0)], 0.0)
    places = tiles.begins[some, None] + torch.arange(_BATCH, device=some.device)
    ends = tiles.ends[some, None]
    while len(places):
        listed = places < ends
        ids = flatten_ids[places.where(listed, 0)]
        powers, alphas = splats.alphas(ids[:, :, None], x[:, None] + 0.5, y[:, None] + 0.5)
        seen = listed[:, :, None] & (powers >= 0) & (alphas >= _MIN_ALPHA)
        # It only falls, so that a pixel that is finished stays so.
        after = left[:, None] * torch.where(seen, 1 - alphas, 1.0).cumprod(1)
        tile, place, pixel = (seen & (after > _MIN_TRANSMITTANCE)).nonzero(as_tuple=True)
        yield numbers[tile, pixel], ids[tile, place]

        left, places = after[:, -1], places + _BATCH
        goes_on = (left > _MIN_TRANSMITTANCE).any(1) & (places[:, 0] < ends[:, 0])
        x, y, numbers, left, places, ends = (each[goes_on] for each in (x, y, numbers, left, places, ends))


def exponents(means2d: Tensor, shapes: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Half the squared distance of points from the centres, in standard deviations; shapes are [..., 3] or [..., 9]."""
    dx, dy = x - means2d[..., 0], y - means2d[..., 1]
    if shapes.shape[-1] == 3:
        return 0.5 * (shapes[..., 0] * dx * dx + shapes[..., 2] * dy * dy) + shapes[..., 1] * dx * dy
    u, v, w = shapes.reshape(*shapes.shape[:-1], 3, 3).unbind(-2)
    # As in csrc/math/surfel.h; nothing is drawn where the ray is parallel to the disc.
    hit = torch.linalg.cross(x[..., None] * w - u, y[..., None] * w - v)
    parallel = hit[..., 2] == 0
    on_disc = (hit[..., :2] / hit[..., 2].where(~parallel, 1.0)[..., None]).square().sum(-1)
    return 0.5 * torch.minimum(on_disc, 2 * (dx * dx + dy * dy)).where(~parallel, math.inf)


def check_splats(means2d: Tensor, shapes: Shapes, opacities: Tensor) -> tuple[int, ...]:
    """Check projected Gaussians; return [..., N]."""
    check_dimensions("means2d", means2d, 2, "[..., N, 2]")
    lead = tuple(means2d.shape[:-1])
    check_shape("means2d", means2d, (*lead, 2), "[..., N, 2]")
    for name, tensor, ending in ((*shapes, shapes.ending), ("opacities", opacities, ())):
        check_tensor(name, tensor, means2d)
        check_shape(name, tensor, (*lead, *ending), f"[{', '.join(['..., N', *map(str, ending)])}]")
    return lead
