// How the kernels of the gradient of `rasterize` share the work, and what they pass on to each other in memory that the
// host provides. rasterize_replay_kernels.cuh explains it.
#pragma once

#include "../math/rasterize_rows.h"

namespace splat {
namespace kernels {

constexpr int kBucket = 32;  // Gaussians: one for each lane of a warp
// The buckets of one block of `differentiate`, all of one tile; the number of buckets per tile is rounded up to this.
constexpr int kBucketsPerBlock = 4;
constexpr int kBlockGaussians = kBucket * kBucketsPerBlock;

// Two numbers for each pixel of a tile, at the end of each bucket.
struct alignas(8) Checkpoint {
  float transmittance;  // behind the bucket
  float behind;
};

// If the lists do not ascend, which only the CPU checks, tiles may need more blocks than the bound allows: the excess is
// left out.
struct BackwardPlan {
  int32_t* block_starts;    // [tiles + 1]: the first block of each tile; the last entry is their number
  int32_t* block_tiles;     // [bound]: a block's tile; -1 before `replay`
  Checkpoint* checkpoints;  // [bound, kBucketsPerBlock, tile_size^2]
  int64_t bound;            // block_bound(intersections, tiles)
};

SPLAT_HD int64_t block_bound(int64_t intersections, int64_t tiles) { return intersections / kBlockGaussians + tiles; }

// The values in a slot before those of the colours.
constexpr int kSlotValues = 8;

}  // namespace kernels
}  // namespace splat
