#pragma once

#include "rasterize_tile.cuh"

namespace splat {
namespace kernels {

// Blends the colours [first_channel, first_channel + channels) of all pixels; alphas and last_ids are written with the
// first channel. One block of tile_threads(tile_size) threads per tile.
// Preconditions: 1 <= channels <= C; contiguous arrays of the shapes above; flatten_ids sorted as `intersect` does.
template <int C>
__global__ void __launch_bounds__(kMaxThreads<C>, 1)
    rasterize(RasterizeInputs in, RasterizeOutputs out, int64_t first_channel, int channels) {
  __shared__ SharedBatch<C> batch;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t tile = blockIdx.x;
  const Pixel pixel = pixel_of(in, tile, static_cast<int>(threadIdx.x));
  const ListRange range = list_range(in, tile);

  float transmittance = 1.0f;
  float blended[C];
#pragma unroll
  for (int k = 0; k < C; ++k) blended[k] = 0.0f;
  int32_t last = 0;
  bool finished = !pixel.inside;

  // Counted by what is left, because a position after the end may not fit into 32 bits.
  for (int32_t rest = range.end - range.begin; rest > 0; rest -= kBatch<C>) {
    // Also keeps the previous batch in shared memory until all threads have read it.
    if (__syncthreads_and(finished)) break;
    const int32_t start = range.end - rest;
    const int count = rest < kBatch<C> ? rest : kBatch<C>;
    stage_batch<C>(in, start, count, first_channel, channels, batch);
    __syncthreads();
    for (int first = 0; first < count; first += kWarp) {
      if (__all_sync(kAllLanes, finished)) break;
      const int mine = first + lane;
      const bool seen = mine < count && may_touch(staged(batch, mine), pixel.left, pixel.top);
      unsigned int left = __ballot_sync(kAllLanes, seen);
      for (; left != 0; left &= left - 1) {
        const int i = first + __ffs(static_cast<int>(left)) - 1;
        const StagedGaussian g = staged(batch, i);
        float color[C];  // read before it is known to be needed, or the address would be computed once more
#pragma unroll
        for (int k = 0; k < C; ++k) color[k] = batch.colors[k / 4][i][k % 4];
        const Blend blend = blend_at(g, g.x - pixel.x, g.y - pixel.y);
        if (finished || blend.alpha == 0.0f) continue;
        const float next = transmittance * (1.0f - blend.alpha);
        if (next <= kMinTransmittance) {
          finished = true;
          continue;
        }
        const float weight = blend.alpha * transmittance;
#pragma unroll
        for (int k = 0; k < C; ++k) blended[k] = fused(weight, color[k], blended[k]);
        transmittance = next;
        last = start + i;
      }
    }
  }

  if (!pixel.inside) return;
  float* color = out.colors + pixel.index * in.channels + first_channel;
  const int64_t image = image_of_tile(in.grid, tile);
  const float* background = in.backgrounds + image * in.channels + first_channel;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    if (k < channels) {
      color[k] = in.backgrounds == nullptr ? blended[k] : fused(transmittance, background[k], blended[k]);
    }
  }
  if (first_channel == 0) {
    out.alphas[pixel.index] = 1.0f - transmittance;
    out.last_ids[pixel.index] = last;
  }
}

}  // namespace kernels
}  // namespace splat
