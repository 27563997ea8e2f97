#pragma once

#include "rasterize_tile.cuh"

namespace splat {
namespace kernels {

// One thread per Gaussian: records [count]. Clears the gradients that are not null, for `differentiate` to add to.
__global__ void stage_gaussians(RasterizeInputs in, StagedRecord* records, RasterizeGradientOutputs cleared) {
  const int64_t i = thread_index();
  if (i < in.count) records[i] = record_of(stage(in, static_cast<int32_t>(i)));
  if (cleared.means_abs != nullptr) clear(cleared.means_abs, 2 * in.count);
  if (cleared.means == nullptr) return;
  clear(cleared.means, 2 * in.count);
  clear(cleared.conics, 3 * in.count);
  clear(cleared.colors, in.channels * in.count);
  clear(cleared.opacities, in.count);
}

// Blends the colours [first_channel, first_channel + channels) of all pixels; alphas and last_ids are written with the
// first channel. One block of tile_threads(tile_size) threads per tile.
// Preconditions: 1 <= channels <= C; contiguous arrays of the shapes above; flatten_ids sorted as `intersect` does;
// records of stage_gaussians.
template <int C>
__global__ void __launch_bounds__(kMaxThreads, 1)
    rasterize(RasterizeInputs in, const StagedRecord* records, RasterizeOutputs out, int64_t first_channel,
              int channels) {
  __shared__ SharedBatch<C> batch;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t tile = blockIdx.x;
  const Pixels pixels = pixels_of(in, tile, static_cast<int>(threadIdx.x));
  const ListRange range = list_range(in, tile);

  // What passes all Gaussians so far. One that would leave kMinTransmittance or less is not drawn, nor is any after it:
  // `left`, which counts it, stays below.
  float left[kLanePixels], drawn[kLanePixels];
  float blended[kLanePixels][C];
  int32_t last[kLanePixels];
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    left[p] = pixels.inside[p] ? 1.0f : 0.0f;
    drawn[p] = 1.0f;
    last[p] = 0;
#pragma unroll
    for (int k = 0; k < C; ++k) blended[p][k] = 0.0f;
  }
  const auto finished = [&] {
    bool all = true;
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) all = all && left[p] <= kMinTransmittance;
    return all;
  };

  // Counted by what is left, because a position after the end may not fit into 32 bits.
  for (int32_t rest = range.end - range.begin; rest > 0; rest -= kBatch<C>) {
    // Also keeps the previous batch in shared memory until all threads have read it.
    if (__syncthreads_and(finished())) break;
    const int32_t start = range.end - rest;
    const int count = rest < kBatch<C> ? rest : kBatch<C>;
    stage_batch<C>(in, records, start, count, first_channel, channels, batch);
    __syncthreads();
    for (int first = 0; first < count; first += kWarp) {
      if (__all_sync(kAllLanes, finished())) break;
      const int mine = first + lane;
      const bool seen = mine < count && may_touch(staged(batch, mine), pixels.left, pixels.top);
      unsigned int bits = __ballot_sync(kAllLanes, seen);
      for (; bits != 0; bits &= bits - 1) {
        const int i = first + __ffs(static_cast<int>(bits)) - 1;
        const StagedGaussian g = staged(batch, i);
        const ColumnTerms column = column_terms(g.conic, g.x - pixels.x);
        float weight[kLanePixels];
        bool draws[kLanePixels];
#pragma unroll
        for (int p = 0; p < kLanePixels; ++p) {
          const Blend blend = blend_at(g, column, g.y - pixels.y[p], in.max_alpha);
          const float next = fused(-blend.alpha, left[p], left[p]);
          weight[p] = blend.alpha * left[p];
          draws[p] = blend.visible && next > kMinTransmittance;
          if (blend.visible) left[p] = next;
          if (draws[p]) {
            drawn[p] = next;
            last[p] = start + i;
          }
        }
#pragma unroll
        for (int k = 0; k < C; ++k) {
          const float color = batch.colors[k / 4][i][k % 4];
#pragma unroll
          for (int p = 0; p < kLanePixels; ++p) {
            if (draws[p]) blended[p][k] = fused(weight[p], color, blended[p][k]);
          }
        }
      }
    }
  }

  const int64_t image = image_of_tile(in.grid, tile);
  const float* background = in.backgrounds + image * in.channels + first_channel;
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    if (!pixels.inside[p]) continue;
    float* color = out.colors + pixels.index[p] * in.channels + first_channel;
#pragma unroll
    for (int k = 0; k < C; ++k) {
      if (k < channels) {
        color[k] = in.backgrounds == nullptr ? blended[p][k] : fused(drawn[p], background[k], blended[p][k]);
      }
    }
    if (first_channel == 0) {
      out.alphas[pixels.index[p]] = 1.0f - drawn[p];
      out.last_ids[pixels.index[p]] = last[p];
    }
  }
}

}  // namespace kernels
}  // namespace splat
