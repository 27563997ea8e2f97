#pragma once

#include "../math/tiles.h"

namespace splat {
namespace kernels {

struct IntersectInputs {
  const float *means, *depths, *conics, *opacities;  // [count, 2], [count], [count, 3], [count]
  const int32_t* radii;                              // [count, 2]
  const int64_t* image_ids;                          // [count]; null where dense, then gaussians > 0
  int64_t count, gaussians, images;
  TileGrid grid;
  int tile_bits;  // of a key: image << (tile_bits + 32) | tile << 32 | bits of the depth
};

SPLAT_HD TileReach reach_of(const IntersectInputs& in, int64_t i) {
  return tile_reach(in.grid, in.means[2 * i], in.means[2 * i + 1], in.radii[2 * i], in.radii[2 * i + 1],
                    in.conics[3 * i], in.conics[3 * i + 1], in.conics[3 * i + 2], in.opacities[i]);
}

SPLAT_HD int64_t image_of(const IntersectInputs& in, int64_t i) {
  return in.image_ids == nullptr ? i / in.gaussians : in.image_ids[i];
}

// One thread per Gaussian, and one more. starts [count + 1] receives each Gaussian's number of tiles, and 0 at the end,
// ready for a prefix sum; it counts none for a Gaussian whose image does not exist, and sets *bad_image.
__global__ void count_tiles(IntersectInputs in, int32_t* tiles_per_gauss, int64_t* starts, int64_t* bad_image) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i > in.count) return;
  if (i == in.count) {
    starts[i] = 0;
    return;
  }
  int64_t tiles = 0;
  const int64_t image = image_of(in, i);
  if (image < 0 || image >= in.images) {
    *bad_image = 1;
  } else {
    const TileReach reach = reach_of(in, i);
    for (int row = reach.row_begin; row < reach.row_end; ++row) {
      const TileSpan span = tile_span(in.grid, reach, row);
      tiles += span.end - span.begin;
    }
  }
  tiles_per_gauss[i] = static_cast<int32_t>(tiles);
  starts[i] = tiles;
}

// One thread per Gaussian. Preconditions: starts is the exclusive prefix sum of count_tiles' counts, keys and indices
// have room for starts[count], and no image id was bad. Both kernels compute the same spans, to the last bit: they are
// compiled without contraction to fused operations (see CMakeLists.txt).
__global__ void emit_pairs(IntersectInputs in, const int64_t* starts, int64_t* keys, int32_t* indices) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= in.count) return;
  int64_t at = starts[i];
  const int64_t end = starts[i + 1];
  if (at == end) return;
  const int64_t image = image_of(in, i) << in.tile_bits;
  const int64_t depth = float_bits(in.depths[i]);
  const TileReach reach = reach_of(in, i);
  for (int row = reach.row_begin; row < reach.row_end; ++row) {
    const TileSpan span = tile_span(in.grid, reach, row);
    const int64_t row_start = static_cast<int64_t>(row) * in.grid.columns;
    for (int column = span.begin; column < span.end && at < end; ++column, ++at) {
      keys[at] = (image | (row_start + column)) << 32 | depth;
      indices[at] = static_cast<int32_t>(i);
    }
  }
}

// One thread per tile of all images: the position of the tile's first key, by bisection.
// Precondition: keys [total] ascend as unsigned numbers; per_image is the number of tiles in an image.
__global__ void find_offsets(const int64_t* keys, int64_t total, int64_t tiles, int64_t per_image, int tile_bits,
                             int32_t* offsets) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= tiles) return;
  const uint64_t first = static_cast<uint64_t>((i / per_image) << tile_bits | i % per_image) << 32;
  int64_t low = 0, high = total;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<uint64_t>(keys[middle]) < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  offsets[i] = static_cast<int32_t>(low);
}

}  // namespace kernels
}  // namespace splat
