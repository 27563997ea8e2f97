// The gradient of `rasterize`. A pixel's gradient for the alpha of one of its Gaussians needs the transmittance before
// it and what the Gaussians behind it contribute:
//
//   d / d alpha = T (color . v) - behind / (1 - alpha),   behind = sum over those behind of weight (color . v),
//                                                         and for what is left, T_end (background . v - v_alpha)
//
// with v the pixel's incoming gradient. `replay` goes through each tile's list as the forward pass did, all pixels in
// parallel, and stores both numbers at the end of every bucket of 32 Gaussians. With these `differentiate` processes
// all buckets at once: a warp per bucket, a lane per Gaussian; the tile's pixels move from lane to lane, back to front.
// The gradient of a Gaussian is added up in the registers of its lane and is written to memory once per tile.
#pragma once

#include "rasterize_plan.h"
#include "rasterize_tile.cuh"

namespace splat {
namespace kernels {

// The position after the last Gaussian that any pixel of the tile blends. All threads of the block must call it; `last`
// is that of this thread's pixel, or -1 if it is outside.
static __device__ __forceinline__ int64_t drawn_end(const ListRange& range, int32_t last) {
  __shared__ int latest;
  if (threadIdx.x == 0) latest = -1;
  __syncthreads();
  atomicMax(&latest, last);
  __syncthreads();
  const int64_t end = static_cast<int64_t>(latest) + 1;
  const int64_t drawn = end < range.end ? end : range.end;
  return drawn < range.begin ? range.begin : drawn;
}

// block_starts [tiles + 1] receives the number of blocks that each tile needs, followed by 0, ready for a prefix sum.
// One block of tile_threads(tile_size) threads per tile, and one more.
__global__ void __launch_bounds__(1024) count_blocks(RasterizeInputs in, const int32_t* last_ids, BackwardPlan plan) {
  const int64_t tile = blockIdx.x;
  if (tile == in.tiles) {
    if (threadIdx.x == 0) plan.block_starts[tile] = 0;
    return;
  }
  const Pixel pixel = pixel_of(in, tile, static_cast<int>(threadIdx.x));
  const ListRange range = list_range(in, tile);
  const int64_t end = drawn_end(range, pixel.inside ? last_ids[pixel.index] : -1);
  if (threadIdx.x != 0) return;
  plan.block_starts[tile] = static_cast<int32_t>(divide_up(end - range.begin, kBlockGaussians));
}

// color . v for the channels [first, channels).
static __device__ __forceinline__ float dot_from(int first, int64_t channels, const float* color, const float* v) {
  float dot = 0.0f;
  for (int64_t k = first; k < channels; ++k) dot = fused(color[k], v[k], dot);
  return dot;
}

// Writes block_tiles and checkpoints. The first `channels` colours are staged; others are read when they are needed.
// Precondition: plan.block_starts is the exclusive prefix sum of count_blocks' numbers; otherwise as `rasterize`.
template <int C>
__global__ void __launch_bounds__(kMaxThreads<C>, 1)
    replay(RasterizeInputs in, RasterizeGradients gradients, BackwardPlan plan, int channels) {
  __shared__ SharedBatch<C> batch;
  static_assert(kBatch<C> % kBucket == 0, "a bucket is never in two batches");
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  const int64_t tile = blockIdx.x;
  const int32_t first_block = plan.block_starts[tile], blocks = plan.block_starts[tile + 1] - first_block;
  if (blocks <= 0 || first_block < 0 || int64_t{first_block} + blocks > plan.bound) return;
  for (int i = thread; i < blocks; i += static_cast<int>(blockDim.x)) {
    plan.block_tiles[first_block + i] = static_cast<int32_t>(tile);
  }
  const Pixel pixel = pixel_of(in, tile, thread);
  const ListRange range = list_range(in, tile);
  const int32_t last = pixel.inside ? gradients.last_ids[pixel.index] : -1;
  const int64_t end = drawn_end(range, last);
  const int64_t tile_pixels = static_cast<int64_t>(in.grid.tile_size) * in.grid.tile_size;
  Checkpoint* const checkpoints = plan.checkpoints + int64_t{first_block} * kBucketsPerBlock * tile_pixels + pixel.in_tile;

  const float* incoming = gradients.colors + pixel.index * in.channels;
  float v[C];
#pragma unroll
  for (int k = 0; k < C; ++k) v[k] = pixel.inside && k < channels ? incoming[k] : 0.0f;

  // Front to back: the transmittance behind each bucket, and the contribution of the bucket itself.
  float transmittance = 1.0f;
  int64_t bucket = 0;
  for (int64_t start = range.begin; start < end; start += kBatch<C>) {
    __syncthreads();  // until all threads have read the previous batch
    const int count = static_cast<int>(end - start < kBatch<C> ? end - start : kBatch<C>);
    stage_batch<C>(in, start, count, 0, channels, batch);
    __syncthreads();
    for (int first = 0; first < count; first += kBucket, ++bucket) {
      float contribution = 0.0f;
      const int mine = first + lane;
      const bool seen = mine < count && may_touch(batch.gaussians[mine], pixel.left, pixel.top);
      unsigned int left = __ballot_sync(kAllLanes, seen);
      for (; left != 0; left &= left - 1) {
        const int i = first + __ffs(static_cast<int>(left)) - 1;
        if (start + i > last) break;
        const StagedGaussian& g = batch.gaussians[i];
        const Blend blend = blend_at(g, g.x - pixel.x, g.y - pixel.y);
        if (blend.alpha == 0.0f) continue;
        float dot = 0.0f;
#pragma unroll
        for (int k = 0; k < C; ++k) dot = fused(batch.colors[i][k], v[k], dot);
        if (channels < in.channels) {
          dot += dot_from(channels, in.channels, in.colors + in.flatten_ids[start + i] * in.channels, incoming);
        }
        contribution = fused(blend.alpha * transmittance, dot, contribution);
        transmittance *= 1.0f - blend.alpha;
      }
      if (pixel.inside) checkpoints[bucket * tile_pixels] = {transmittance, contribution};
    }
  }

  // Back to front: what is behind each bucket, added up from the end so that nothing cancels.
  if (!pixel.inside) return;
  float behind = -gradients.alphas[pixel.index];
  if (in.backgrounds != nullptr) {
    const int64_t image = image_of_tile(in.grid, tile);
    behind += dot_from(0, in.channels, in.backgrounds + image * in.channels, incoming);
  }
  behind *= transmittance;
  while (bucket-- > 0) {
    const float contribution = checkpoints[bucket * tile_pixels].behind;
    checkpoints[bucket * tile_pixels].behind = behind;
    behind += contribution;
  }
}

}  // namespace kernels
}  // namespace splat
