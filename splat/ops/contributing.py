"""How many Gaussians each pixel shows, which, and how much of each: functions of gsplat 1.6.0, as expressions of torch.

Shapes: `...` leading dimensions of I images in all, N Gaussians of each, M pairs of a packed layout, H rows and W
columns of pixels, L entries of the tiles' lists.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .accumulation import blended_weights
from .autocast import in_float32
from .blended_lists import Shapes, blended_pairs, check_lists, check_splats, checked_size, flat_splats
from .checks import MAX_COUNT, check_dimensions, check_shape, check_tensor, positive_int
from .defaults import MAX_ALPHA


@torch.no_grad()
@in_float32
def rasterize_num_contributing_gaussians(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    tile_offsets: Tensor,
    flatten_ids: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor]:
    """How many Gaussians each pixel blends, and the opacity that they add up to.

    Args:
        means2d: float32 [..., N, 2], or [M, 2] of a packed layout, as in `meta` of `rasterization`.
        conics: float32 [..., N, 3], or [M, 3].
        opacities: float32 [..., N], or [M].
        tile_offsets: int32 [..., rows, columns], `meta["isect_offsets"]`.
        flatten_ids: int32 [L]; -1 behind the last, as a `capacity` leaves it, is nothing.
        image_width: in pixels.
        image_height: in pixels.
        tile_size: side of a tile in pixels, 1 to 32.
        max_alpha: as for `rasterization`.

    Returns:
        int32 [..., H, W] and float32 [..., H, W].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    size = image_width, image_height, tile_size
    pairs = _pairs(means2d, conics, opacities, tile_offsets, flatten_ids, size, max_alpha)
    alphas = means2d.new_zeros(math.prod(pairs.shape)).index_add(0, pairs.pixels, pairs.weights)
    return pairs.counts.int().reshape(pairs.shape), alphas.reshape(pairs.shape)


@torch.no_grad()
@in_float32
def rasterize_contributing_gaussian_ids(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    tile_offsets: Tensor,
    flatten_ids: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    num_contributing_gaussians: Tensor,
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor]:
    """Which Gaussians each pixel blends, front to back, and how much it shows of each: opacity times transmittance.

    Args:
        means2d: float32 [..., N, 2], or [M, 2] of a packed layout.
        conics: float32 [..., N, 3], or [M, 3].
        opacities: float32 [..., N], or [M].
        tile_offsets: int32 [..., rows, columns].
        flatten_ids: int32 [L].
        image_width: in pixels.
        image_height: in pixels.
        tile_size: side of a tile in pixels, 1 to 32.
        num_contributing_gaussians: int32 [..., H, W], of `rasterize_num_contributing_gaussians`, which takes the others
            too; the largest is K.
        max_alpha: as for `rasterization`.

    Returns:
        int32 [..., H, W, K], 0 to N - 1, or 0 to M - 1 of a packed layout, and -1 behind them; and float32 of the same
        shape, 0 behind them.

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    size = image_width, image_height, tile_size
    pairs = _pairs(means2d, conics, opacities, tile_offsets, flatten_ids, size, max_alpha)
    check_tensor("num_contributing_gaussians", num_contributing_gaussians, means2d, torch.int32)
    check_shape("num_contributing_gaussians", num_contributing_gaussians, pairs.shape, "[..., H, W]")
    most = int(num_contributing_gaussians.max()) if num_contributing_gaussians.numel() else 0
    return pairs.table(torch.ones_like(pairs.pixels, dtype=torch.bool), max(most, 0))


@torch.no_grad()
@in_float32
def rasterize_top_contributing_gaussian_ids(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    tile_offsets: Tensor,
    flatten_ids: Tensor,
    image_width: int,
    image_height: int,
    tile_size: int,
    num_depth_samples: int,
    *,
    max_alpha: float = MAX_ALPHA,
) -> tuple[Tensor, Tensor]:
    """Which K Gaussians each pixel shows most of, front to back, as `rasterize_contributing_gaussian_ids`.

    Args:
        means2d: float32 [..., N, 2], or [M, 2] of a packed layout.
        conics: float32 [..., N, 3], or [M, 3].
        opacities: float32 [..., N], or [M].
        tile_offsets: int32 [..., rows, columns].
        flatten_ids: int32 [L].
        image_width: in pixels.
        image_height: in pixels.
        tile_size: side of a tile in pixels, 1 to 32.
        num_depth_samples: how many, K.
        max_alpha: as for `rasterization`.

    Returns:
        int32 [..., H, W, K], -1 behind the last, and float32 of the same shape.

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    most = positive_int("num_depth_samples", num_depth_samples, MAX_COUNT)
    size = image_width, image_height, tile_size
    pairs = _pairs(means2d, conics, opacities, tile_offsets, flatten_ids, size, max_alpha)
    by_weight = pairs.weights.argsort(descending=True, stable=True)
    order = by_weight[pairs.pixels[by_weight].argsort(stable=True)]
    shown = torch.zeros_like(pairs.pixels, dtype=torch.bool)
    shown[order] = pairs.places(pairs.pixels) < most
    return pairs.table(shown, most)


class _Pairs(NamedTuple):
    """Pairs of pixel and Gaussian [P], ordered by pixel and front to back; `shape` is [..., H, W]."""

    shape: tuple[int, ...]
    pixels: Tensor
    ids: Tensor
    weights: Tensor

    @property
    def counts(self) -> Tensor:
        """Of each pixel of all images."""
        return self.pixels.bincount(minlength=math.prod(self.shape))

    def places(self, pixels: Tensor) -> Tensor:
        """The place of each of these, which are in order, among those of its pixel."""
        return torch.arange(len(pixels), device=pixels.device) - torch.searchsorted(pixels, pixels)

    def table(self, shown: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Those that are `shown` [P], up to `most` of each pixel."""
        pixels, ids, weights = self.pixels[shown], self.ids[shown], self.weights[shown]
        places = self.places(pixels)
        fits = places < most
        cells = (pixels * most + places)[fits]
        size = math.prod(self.shape) * most
        found = ids.new_full((size,), -1).index_copy(0, cells, ids[fits]).int()
        amounts = weights.new_zeros(size).index_copy(0, cells, weights[fits])
        return found.reshape(*self.shape, most), amounts.reshape(*self.shape, most)


def _pairs(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    tile_offsets: Tensor,
    flatten_ids: Tensor,
    image_size: tuple[int, int, int],
    max_alpha: float,
) -> _Pairs:
    """All pairs, from arguments that are not checked yet."""
    size = width, height, _ = checked_size(*image_size)
    check_tensor("means2d", means2d)
    shapes = Shapes("conics", conics)
    lead = check_splats(means2d, shapes, opacities)
    packed = len(lead) == 1
    check_dimensions("tile_offsets", tile_offsets, 2, "[..., rows, columns]")
    images = tuple(tile_offsets.shape[:-2]) if packed else lead[:-1]
    flatten_ids = check_lists(tile_offsets, flatten_ids, means2d, images, size, "tile_offsets")
    shape = (*images, height, width)
    splats = flat_splats(means2d, shapes, opacities, max_alpha)
    whole = means2d.new_ones(shape)
    pixels, ids = blended_pairs(tile_offsets, flatten_ids, splats, whole, size, (0, len(flatten_ids)))
    weights = blended_weights(pixels, ids, splats, (width, height))
    return _Pairs(shape, pixels, ids if packed else ids % max(lead[-1], 1), weights)
