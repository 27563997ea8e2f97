"""The Gaussians, or 2D Gaussians, that each pixel blends, as lists, and their blending as an expression of torch.

For looking inside, and for trying other ways to blend: `rasterize_to_pixels` does both in one kernel, with much less
memory. Shapes: `...` leading dimensions of I images in all, N Gaussians of each, D channels, M pairs of pixel and
Gaussian, L entries of the tiles' lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
from torch import Tensor

from .autocast import in_float32
from .checks import (
    MAX_SIDE,
    MAX_TILE_SIZE,
    check_channels,
    check_dimensions,
    check_shape,
    check_tensor,
    check_tiles,
    integer,
    positive_int,
)

# As in csrc/math/constants.h.
_MIN_ALPHA: Final = 1 / 255
_MAX_ALPHA: Final = 0.999
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

    Returns:
        gaussian_ids, 0 to N - 1, pixel_ids, row * image_width + column, and image_ids, 0 to I - 1: int64 [M], ordered
        by image, pixel, and from front to back.

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    size = image_width, image_height, tile_size
    splats = means2d, _Shapes("conics", conics), opacities
    return _indices_in_range((range_start, range_end), transmittances, *splats, size, isect_offsets, flatten_ids)


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
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for 2D Gaussians, with float32 [..., N, 3, 3] of `fully_fused_projection_2dgs` in place of conics."""
    size = image_width, image_height, tile_size
    splats = means2d, _Shapes("ray_transforms", ray_transforms), opacities
    return _indices_in_range((range_start, range_end), transmittances, *splats, size, isect_offsets, flatten_ids)


class _Shapes(NamedTuple):
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


def _indices_in_range(
    batches: tuple[int, int],
    transmittances: Tensor,
    means2d: Tensor,
    shapes: _Shapes,
    opacities: Tensor,
    image_size: tuple[int, int, int],
    isect_offsets: Tensor,
    flatten_ids: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    range_start, range_end = batches
    image_width, image_height, tile_size = image_size
    size = positive_int("tile_size", tile_size, MAX_TILE_SIZE)
    width = positive_int("image_width", image_width, MAX_SIDE)
    height = positive_int("image_height", image_height, MAX_SIDE)
    if not 0 <= integer("range_start", range_start) <= integer("range_end", range_end):
        raise ValueError(f"range_start must be from 0 to range_end, found {range_start} and {range_end}")
    rows, columns = -(-height // size), -(-width // size)
    check_tensor("means2d", means2d)
    check_tensor("transmittances", transmittances, means2d)
    for name, tensor in (("isect_offsets", isect_offsets), ("flatten_ids", flatten_ids)):
        check_tensor(name, tensor, means2d, torch.int32)
    lead = _check_splats(means2d, shapes, opacities)
    images, count = math.prod(lead[:-1]), lead[-1]
    check_shape("transmittances", transmittances, (*lead[:-1], height, width), "[..., image_height, image_width]")
    check_shape("isect_offsets", isect_offsets, (*lead[:-1], rows, columns), "[..., rows, columns]")
    check_shape("flatten_ids", flatten_ids, (flatten_ids.numel(),), "[L]")
    check_tiles(images, columns, rows)
    _check_ids("flatten_ids", flatten_ids, images * count)

    starts = isect_offsets.flatten().long()
    ends = torch.cat([starts[1:], starts.new_tensor([len(flatten_ids)])])
    if not bool((starts[:1] >= 0).all() and (starts <= ends).all()):
        raise ValueError("isect_offsets must be places in flatten_ids, in their order; take isect_offset_encode's")
    # What is beyond every list is left out, so that a very large number still is one of 64 bits.
    begins = starts + min(range_start, len(flatten_ids)) * size * size
    ends = ends.minimum(starts + min(range_end, len(flatten_ids)) * size * size)
    tiles = _Tiles(begins, ends, width, height, size, rows, columns)
    splats = means2d.reshape(-1, 2), shapes.tensor.reshape(-1, shapes.values), opacities.reshape(-1)
    found = list(_blended(tiles, flatten_ids.long(), splats, transmittances.flatten()))
    pixels, ids = (torch.cat([starts.new_empty(0), *(pair[i] for pair in found)]) for i in (0, 1))
    # Each pixel's are in their order already.
    pixels, order = pixels.sort(stable=True)
    return ids[order] % max(count, 1), pixels % (width * height), pixels // (width * height)


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
    tiles: _Tiles, flatten_ids: Tensor, splats: tuple[Tensor, Tensor, Tensor], transmittances: Tensor
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
    tiles: _Tiles, some: Tensor, flatten_ids: Tensor, splats: tuple[Tensor, Tensor, Tensor], transmittances: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """`_blended` for the tiles with the numbers `some`, which fit in memory."""
    x, y, numbers, inside = tiles.pixels(some)
    left = torch.where(inside, transmittances[numbers.where(inside, 0)], 0.0)
    places = tiles.begins[some, None] + torch.arange(_BATCH, device=some.device)
    ends = tiles.ends[some, None]
    while len(places):
        listed = places < ends
        ids = flatten_ids[places.where(listed, 0)]
        means2d, shapes, opacities = (values[ids][:, :, None] for values in splats)
        exponents = _exponents(means2d, shapes, x[:, None] + 0.5, y[:, None] + 0.5)
        alphas = (opacities * (-exponents).exp()).clamp(max=_MAX_ALPHA)
        seen = listed[:, :, None] & (exponents >= 0) & (alphas >= _MIN_ALPHA)
        # It only falls, so that a pixel that is finished stays so.
        after = left[:, None] * torch.where(seen, 1 - alphas, 1.0).cumprod(1)
        tile, place, pixel = (seen & (after > _MIN_TRANSMITTANCE)).nonzero(as_tuple=True)
        yield numbers[tile, pixel], ids[tile, place]

        left, places = after[:, -1], places + _BATCH
        goes_on = (left > _MIN_TRANSMITTANCE).any(1) & (places[:, 0] < ends[:, 0])
        x, y, numbers, left, places, ends = (each[goes_on] for each in (x, y, numbers, left, places, ends))


def _exponents(means2d: Tensor, shapes: Tensor, x: Tensor, y: Tensor) -> Tensor:
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


@in_float32
def accumulate(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    colors: Tensor,
    gaussian_ids: Tensor,
    pixel_ids: Tensor,
    image_ids: Tensor,
    image_width: int,
    image_height: int,
) -> tuple[Tensor, Tensor]:
    r"""Blend given pairs of pixel and Gaussian front to back.

    :math:`C = \sum_i c_i \alpha_i \prod_{j<i} (1 - \alpha_j)`, Kerbl et al. (2023), equation 3. gsplat 1.5.3's
    function, without nerfacc, which that one needs. Differentiable with respect to means2d, conics, opacities and
    colors. All pairs are blended, also those that the rasterizer would skip.

    Args:
        means2d: float32 [..., N, 2]; the other tensors are on the same device.
        conics: float32 [..., N, 3], upper triangles of the inverse covariances.
        opacities: float32 [..., N].
        colors: float32 [..., N, D], D >= 1.
        gaussian_ids: int64 [M], 0 to N - 1.
        pixel_ids: int64 [M], row * image_width + column.
        image_ids: int64 [M], 0 to I - 1. Pairs of one pixel are blended in the order in which they are given.
        image_width: in pixels.
        image_height: in pixels.

    Returns:
        Colours [..., image_height, image_width, D], and opacities [..., image_height, image_width, 1].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    splats = means2d, _Shapes("conics", conics), opacities, colors
    return _accumulate(*splats, gaussian_ids, pixel_ids, image_ids, image_width, image_height)


@in_float32
def accumulate_2dgs(
    means2d: Tensor,
    ray_transforms: Tensor,
    opacities: Tensor,
    colors: Tensor,
    normals: Tensor,
    gaussian_ids: Tensor,
    pixel_ids: Tensor,
    image_ids: Tensor,
    image_width: int,
    image_height: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for 2D Gaussians, with float32 [..., N, 3, 3] in place of conics; the third result are the normals'.

    `normals` are float32 [..., N, 3].
    """
    check_tensor("normals", normals, means2d)
    check_shape("normals", normals, (*means2d.shape[:-1], 3), "[..., N, 3]")
    check_dimensions("colors", colors, 1, "[..., N, D]")
    check_shape("colors", colors, (*means2d.shape[:-1], colors.shape[-1]), "[..., N, D]")
    splats = means2d, _Shapes("ray_transforms", ray_transforms), opacities, torch.cat([colors, normals], dim=-1)
    images, alphas = _accumulate(*splats, gaussian_ids, pixel_ids, image_ids, image_width, image_height)
    return images[..., :-3], alphas, images[..., -3:]


def _accumulate(
    means2d: Tensor,
    shapes: _Shapes,
    opacities: Tensor,
    colors: Tensor,
    gaussian_ids: Tensor,
    pixel_ids: Tensor,
    image_ids: Tensor,
    image_width: int,
    image_height: int,
) -> tuple[Tensor, Tensor]:
    width = positive_int("image_width", image_width, MAX_SIDE)
    height = positive_int("image_height", image_height, MAX_SIDE)
    check_tensor("means2d", means2d)
    check_tensor("colors", colors, means2d)
    lead = _check_splats(means2d, shapes, opacities)
    images, count = lead[:-1], lead[-1]
    check_dimensions("colors", colors, 1, "[..., N, D]")
    channels = colors.shape[-1]
    check_shape("colors", colors, (*lead, channels), "[..., N, D]")
    check_channels(colors)
    limits = {"gaussian_ids": count, "pixel_ids": width * height, "image_ids": math.prod(images)}
    for (name, limit), ids in zip(limits.items(), (gaussian_ids, pixel_ids, image_ids), strict=True):
        check_tensor(name, ids, means2d, torch.int64)
        check_shape(name, ids, (gaussian_ids.numel(),), "[M]")
        _check_ids(name, ids, limit)

    rays, order = (image_ids * width * height + pixel_ids).sort(stable=True)
    rows = (image_ids * count + gaussian_ids)[order]
    pixels = rays % (width * height)
    exponents = _exponents(
        means2d.reshape(-1, 2)[rows],
        shapes.tensor.reshape(-1, shapes.values)[rows],
        pixels % width + 0.5,
        pixels // width + 0.5,
    )
    alphas = (opacities.reshape(-1)[rows] * (-exponents).exp()).clamp(max=_MAX_ALPHA)
    weights = alphas * _transmittances(alphas, rays)
    total = math.prod(images) * width * height
    values = torch.cat([colors.reshape(-1, channels)[rows], torch.ones_like(weights[:, None])], dim=-1)
    sums = means2d.new_zeros(total, channels + 1).index_add(0, rays, weights[:, None] * values)
    whole = sums.reshape(*images, height, width, channels + 1)
    return whole[..., :channels], whole[..., channels:]


def _transmittances(alphas: Tensor, rays: Tensor) -> Tensor:
    """What is left of each ray before each of its Gaussians; [M], ordered by ray."""
    # As sums of logarithms over all rays at once, from which those before the ray are taken away; in float64, so that
    # the difference keeps its digits.
    logs = torch.log1p(-alphas.double())
    before = logs.cumsum(0) - logs
    firsts = torch.searchsorted(rays, rays)
    return (before - before[firsts]).exp().float()


def _check_splats(means2d: Tensor, shapes: _Shapes, opacities: Tensor) -> tuple[int, ...]:
    """Check projected Gaussians; return [..., N]."""
    check_dimensions("means2d", means2d, 2, "[..., N, 2]")
    lead = tuple(means2d.shape[:-1])
    check_shape("means2d", means2d, (*lead, 2), "[..., N, 2]")
    for name, tensor, ending in ((*shapes, shapes.ending), ("opacities", opacities, ())):
        check_tensor(name, tensor, means2d)
        check_shape(name, tensor, (*lead, *ending), f"[{', '.join(['..., N', *map(str, ending)])}]")
    return lead


def _check_ids(name: str, ids: Tensor, count: int) -> None:
    """Raise ValueError if not all are from 0 to count - 1."""
    if ids.numel() and not bool((ids >= 0).all() and (ids < count).all()):
        raise ValueError(f"{name} must be from 0 to {count - 1}, found {int(ids.min())} to {int(ids.max())}")
