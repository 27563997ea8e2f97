// Pairs of Gaussian and tile: their number, and the pairs themselves with the keys that math/sort_keys.h defines.
#pragma once

#include "../math/intersect_rows.h"
#include "grid_launch.h"
#include "host_functions.h"
#include "prefix_sum.cuh"

namespace splat {
namespace kernels {

// Precondition: the Gaussian's image exists.
static __device__ __forceinline__ int64_t tile_count(const IntersectInputs& in, int64_t i) {
  const TileReach reach = reach_of(in, i);
  int64_t tiles = 0;
  for (int row = reach.row_begin; row < reach.row_end; ++row) {
    const TileSpan span = tile_span(in.grid, reach, row);
    tiles += span.end - span.begin;
  }
  return tiles;
}

// Each read at once by a lane.
struct alignas(16) ListedCentre {
  float x, y;
  int32_t radius_x, radius_y;
};
struct alignas(16) ListedExtent {
  float a, b, c, opacity;
};

// What a Gaussian's tiles follow from, as a sector of its own. `emit_pairs` reads it in the order of depth, in which
// neighbours are anywhere in memory.
struct alignas(32) ListedRecord {
  ListedCentre centre;
  ListedExtent extent;
};
static_assert(sizeof(ListedRecord) == kListedFloats * sizeof(float), "what the host allocates");

static __device__ __forceinline__ TileReach reach_of(const TileGrid& grid, const ListedRecord& record) {
  const ListedCentre centre = record.centre;
  const ListedExtent extent = record.extent;
  return tile_reach(grid, centre.x, centre.y, centre.radius_x, centre.radius_y, extent.a, extent.b, extent.c,
                    extent.opacity);
}

// Sets the place `i` from the row of the other arrays.
static __device__ __forceinline__ void set_depth_order(const DepthOrder& out, int64_t i, int64_t tiles,
                                                       const float* means, const int32_t* radii, const float* depths,
                                                       const float* conics, const float* opacities, int64_t row) {
  out.tiles_per_gauss[i] = static_cast<int32_t>(tiles);
  out.keys[i] = depth_key(tiles, depths[row]);
  out.order[i] = static_cast<int32_t>(i);
  if (tiles == 0) return;
  reinterpret_cast<ListedRecord*>(out.records)[i] = {
      {means[2 * row], means[2 * row + 1], radii[2 * row], radii[2 * row + 1]},
      {conics[3 * row], conics[3 * row + 1], conics[3 * row + 2], opacities[row]}};
}

// Adds the block's numbers of tiles, and of threads with a flag. All threads of the block must call it, in full warps.
static __device__ __forceinline__ void add_to_totals(int64_t tiles, bool flag, IntersectTotals* totals) {
  __shared__ unsigned long long block_tiles, block_flagged;
  if (threadIdx.x == 0) block_tiles = block_flagged = 0;
  __syncthreads();
  const unsigned int flagged = __ballot_sync(kAllLanes, flag);
  const long long warp_tiles = warp_sum(static_cast<long long>(tiles));
  if (threadIdx.x % kWarp == 0) {
    atomicAdd(&block_tiles, static_cast<unsigned long long>(warp_tiles));
    atomicAdd(&block_flagged, static_cast<unsigned long long>(__popc(flagged)));
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (block_tiles != 0) atomicAdd(&totals->tiles, block_tiles);
  if (block_flagged != 0) atomicAdd(&totals->flagged, block_flagged);
}

// One thread per Gaussian: its number of tiles, and its place in the sort by depth. Adds to *totals, with a flag for a
// Gaussian whose image does not exist; it has no tiles.
__global__ void count_tiles(IntersectInputs in, DepthOrder out, IntersectTotals* totals) {
  const int64_t i = thread_index();
  int64_t tiles = 0;
  bool bad = false;
  if (i < in.count) {
    const int64_t image = image_of(in, i);
    bad = image < 0 || image >= in.images;
    if (!bad) tiles = tile_count(in, i);
    set_depth_order(out, i, tiles, in.means, in.radii, in.depths, in.conics, in.opacities, i);
  }
  add_to_totals(tiles, bad, totals);
}

// One thread per Gaussian, in the order of depth. A few Gaussians have most of the pairs, so a warp's lanes share all rows
// of tiles of its Gaussians, then all pairs of these rows, whose places are neighbours.
// Preconditions: `by_depth` has the Gaussians in this order, *totals is the sum of their tiles, tile_keys and indices are
// [room], and no image was bad. A Gaussian whose pairs do not all fit there, and so each one behind it, has none. The spans
// are computed again, which moves fewer bytes than storing them (docs/kernels.md), and are the same to the last bit,
// because this file is compiled without contraction to fused operations. Also clears words, for the sort of the pairs.
__global__ void emit_pairs(IntersectInputs in, DepthOrder by_depth, SumProgress progress,
                           const IntersectTotals* totals, int64_t room, uint32_t* tile_keys, int32_t* indices,
                           Words cleared) {
  clear(cleared.first, cleared.count);
  if (totals->tiles > ~0u) return;  // the sums, of 32 bits, begin again from 0: no place is known
  const uint32_t block = block_number(progress);
  const int64_t rank = int64_t{block} * kThreads + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int32_t i = rank < in.count ? by_depth.order[rank] : 0;
  const uint32_t tiles = rank < in.count ? static_cast<uint32_t>(by_depth.tiles_per_gauss[i]) : 0;
  const uint32_t place = sum_before_in_launch<kThreads>(progress, block, tiles);
  const auto start = static_cast<int32_t>(place), next = static_cast<int32_t>(place + tiles);
  TileReach reach = {};
  int32_t image = 0;
  // Sums of more than 2^31 - 1 pairs, which nobody has waited for, are negative or descend.
  if (start >= 0 && next > start && next <= room) {
    image = static_cast<int32_t>(image_of(in, i));
    reach = reach_of(in.grid, reinterpret_cast<const ListedRecord*>(by_depth.records)[i]);
  }
  const int rows = reach.row_end - reach.row_begin;
  const int rows_end = inclusive_sum(rows);  // of this lane's Gaussian, among the rows of the warp
  const int all_rows = __shfl_sync(kAllLanes, rows_end, kWarp - 1);
  int32_t at = __shfl_sync(kAllLanes, start, 0);
  for (int begin = 0; begin < all_rows; begin += kWarp) {
    const int source = first_above(rows_end, begin + lane);
    const TileReach of_row = from_lane(reach, source);
    const int row = of_row.row_end - __shfl_sync(kAllLanes, rows_end, source) + begin + lane;
    TileSpan span = {0, 0};
    if (begin + lane < all_rows) span = tile_span(in.grid, of_row, row);
    const int end = inclusive_sum(span.end - span.begin);  // of this lane's row, among the pairs of these rows
    const int first_tile = row * in.grid.columns + span.end - end;  // with the number of a pair, its tile
    const int pairs = __shfl_sync(kAllLanes, end, kWarp - 1);
    for (int pair = lane; pair - lane < pairs; pair += kWarp) {
      const int of_pair = first_above(end, pair), gaussian = __shfl_sync(kAllLanes, source, of_pair);
      const int tile = __shfl_sync(kAllLanes, first_tile, of_pair) + pair;
      const uint32_t key = tile_key(__shfl_sync(kAllLanes, image, gaussian), tile, in.tile_bits);
      const int32_t index = __shfl_sync(kAllLanes, i, gaussian);
      if (pair < pairs) {
        tile_keys[at + pair] = key;
        indices[at + pair] = index;
      }
    }
    at += pairs;
  }
}

// One thread per tile of all images: the position of the tile's first pair, by bisection.
// Precondition: tile_keys [total] ascend; per_image is the number of tiles in an image.
__global__ void find_offsets(const uint32_t* tile_keys, int64_t total, int64_t tiles, int64_t per_image, int tile_bits,
                             int32_t* offsets) {
  const int64_t i = thread_index();
  if (i >= tiles) return;
  const uint32_t first = tile_key(i / per_image, i % per_image, tile_bits);
  offsets[i] = static_cast<int32_t>(lower_bound(tile_keys, total, first));
}

}  // namespace kernels
}  // namespace splat
