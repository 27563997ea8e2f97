// The keys of the sorts on the GPU, of 32 bits, and how many of their lowest bits are sorted: the fewer bits, the fewer
// passes. cuda/sort.h sorts, stably.
//
// `intersect` and `pack` order pairs of Gaussian and tile by image, tile, depth and index, in two sorts: the Gaussians
// by depth, then their pairs, written in that order, by tile. A deterministic `rasterize_backward` sorts the positions
// in the lists by Gaussian.
#pragma once

#include "tile_grid.h"

namespace splat {

// Depths of what is seen are not negative, so they have the order of their bits. Gaussians without tiles come last.
constexpr int kDepthKeyBits = 32;

SPLAT_HD uint32_t depth_key(int64_t tiles, float depth) { return tiles == 0 ? ~0u : float_bits(depth); }

// A tile's key is image | tile, which is the upper half of gsplat 1.5.3's key of an intersection; the tile has as many
// bits as it takes to write the number of tiles in an image.
SPLAT_HD int tile_bits(const TileGrid& grid) { return bit_length(tiles_per_image(grid)); }

SPLAT_HD int tile_key_bits(int64_t images, int tile_bits) { return tile_bits + bit_length(images - 1); }

// `tile` is numbered within the image.
SPLAT_HD uint32_t tile_key(int64_t image, int64_t tile, int tile_bits) {
  return static_cast<uint32_t>(image << tile_bits | tile);
}

// Where lists have room for more pairs: after all of them, since no image has as many tiles as its bits can number.
constexpr uint32_t kLastKey = ~0u;
constexpr int32_t kNoGaussian = -1;

// The key is the number of the Gaussian.
constexpr int kGaussianKeyBits = 32;

}  // namespace splat
