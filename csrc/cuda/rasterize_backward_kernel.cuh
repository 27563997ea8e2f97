// The gradient of `rasterize`, pixel by pixel, back to front. A pixel's gradient for the alpha of one of its Gaussians
// needs the transmittance T before it and what the Gaussians behind it contribute:
//
//   d / d alpha = T (color . v) - behind / (1 - alpha),   behind = sum over those behind of weight (color . v),
//                                                         and for what is left, T_end (background . v - v_alpha)
//
// with v the pixel's incoming gradient. Both are known at the pixel's end and are updated from one Gaussian to the one
// before it, so nothing is stored between passes. As in the forward pass, a warp goes through its tile's list for a
// patch of pixels, and each lane tests one Gaussian against the patch first.
//
// The lanes, being pixels, write u = (d alpha / d opacity) (d / d alpha) and the weight to shared memory. After
// kPending Gaussians the lanes become Gaussians and add them up (rasterize_backward_moments.cuh).
#pragma once

#include "channels.h"
#include "host_functions.h"
#include "rasterize_backward_moments.cuh"

namespace splat {
namespace kernels {

// A tile with more pixels takes several rounds. With many channels the gradients of fewer pixels fit into shared memory.
template <int C>
constexpr int kDifferentiateThreads = C <= 8 ? 128 : 64;

SPLAT_HD int patches_of_tile(int tile_size) { return tile_threads(tile_size) / kWarp; }

template <int C>
SPLAT_HD int differentiate_threads(int tile_size) {
  const int threads = tile_threads(tile_size);
  return threads < kDifferentiateThreads<C> ? threads : kDifferentiateThreads<C>;
}

// The blocks that should fit on a multiprocessor: as many as the registers allow without spilling.
template <int C>
constexpr int kResidentBlocks = C > 8 ? 4 : C <= 3 ? 5 : 3;

// The position after the last Gaussian that any pixel of the block blends. All threads of the block must call it; `last`
// is that of this thread's pixel, or -1 if it is outside.
static __device__ __forceinline__ int32_t drawn_end(const ListRange& range, int32_t last) {
  __shared__ int latest;
  __syncthreads();  // until all threads have read the previous one
  if (threadIdx.x == 0) latest = -1;
  __syncthreads();
  atomicMax(&latest, last);
  __syncthreads();
  if (latest < range.begin) return range.begin;
  return latest < range.end ? latest + 1 : range.end;
}

// Adds to the gradients of the Gaussians: of the colours [first_channel, first_channel + channels), and, with the first
// channel, all others. With kInSlots, not to the outputs, but to a slot for each pair of Gaussian and tile, in an order
// that does not depend on timing; `sum_slots` adds those up.
// One block of differentiate_threads<C>(tile_size) threads per tile. Preconditions: `out`, or slots [intersections,
// kSlotValues + all channels], zeroed; without slots, if C is below kMostChannels, these are all channels; otherwise as
// `rasterize`.
template <int C, bool kInSlots>
__global__ void __launch_bounds__(kDifferentiateThreads<C>, kResidentBlocks<C>)
    differentiate(RasterizeInputs in, const StagedRecord* records, RasterizeGradients gradients,
                  RasterizeGradientOutputs out, float* slots, int64_t first_channel, int channels) {
  constexpr int kParts = kSlotValues + C, kWarps = kDifferentiateThreads<C> / kWarp;
  __shared__ SharedBatch<C> batch;
  __shared__ Pending<C> pending_of[kWarps];
  __shared__ float parts[kInSlots ? kWarps * kWarp * kParts : 1];  // [warp, Gaussian, place in the slot]
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int threads = static_cast<int>(blockDim.x), warps = threads / kWarp;
  const int64_t tile = blockIdx.x;
  const ListRange range = list_range(in, tile);
  constexpr bool kChunked = kInSlots || C == kMostChannels;
  const bool all_values = !kChunked || first_channel == 0;
  const bool absolute = all_values && out.means_abs != nullptr;
  Pending<C>& pending = pending_of[warp];

  for (int first_patch = 0; first_patch < patches_of_tile(in.grid.tile_size); first_patch += warps) {
    const Pixels pixels = pixels_of(in, tile, first_patch * kWarp + thread);
    int32_t last[kLanePixels], warp_last = -1;
    float v[kLanePixels][C], transmittance[kLanePixels], behind[kLanePixels];
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
      last[p] = -1;
      transmittance[p] = 1.0f;
      behind[p] = 0.0f;
      const float* const incoming = gradients.colors + pixels.index[p] * in.channels;
#pragma unroll
      for (int k = 0; k < C; ++k) v[p][k] = pixels.inside[p] && k < channels ? incoming[first_channel + k] : 0.0f;
      if (!pixels.inside[p]) continue;
      last[p] = gradients.last_ids[pixels.index[p]];
      if (last[p] > warp_last) warp_last = last[p];
      transmittance[p] -= gradients.drawn_alphas[pixels.index[p]];
      behind[p] = gradients.alphas == nullptr ? 0.0f : -gradients.alphas[pixels.index[p]];
      if (in.backgrounds != nullptr) {
        const int64_t image = image_of_tile(in.grid, tile);
        behind[p] += dot_from(0, in.channels, in.backgrounds + image * in.channels, incoming);
      }
      behind[p] *= transmittance[p];
    }
    const int32_t end = drawn_end(range, warp_last);
    // After its barriers: the previous patch's have been read.
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
#pragma unroll
      for (int k = 0; k < C; ++k) pending.incoming[lane][p][k] = v[p][k];
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const int32_t other = __shfl_xor_sync(kAllLanes, warp_last, step);
      warp_last = other > warp_last ? other : warp_last;
    }

    // Counted by what is left, as in the forward pass.
    for (int32_t rest = end - range.begin; rest > 0; rest -= kBatch<C>) {
      const int count = rest < kBatch<C> ? rest : kBatch<C>;
      const int32_t start = range.begin + rest - count;
      __syncthreads();  // until all threads have read the previous batch
      stage_batch<C>(in, records, start, count, first_channel, channels, batch);
      __syncthreads();
      int waiting = 0, own = 0;  // how many Gaussians are pending, and which one this lane is to add up
      const auto flush = [&](int first) {
        __syncwarp();
        const StagedGaussian g = staged(batch, own);
        const int which = lane % kPending < waiting ? lane % kPending : 0;  // what is not pending was never written
        const GaussianSums<C> sums = add_up<C>(g, pending, which, lane, pixels.left, pixels.top, absolute);
        if (lane < waiting) {
          if constexpr (kInSlots) {
            float* const part = parts + (warp * kWarp + own - first) * kParts;
#pragma unroll
            for (int k = 0; k < kParts; ++k) part[k] = sums.values[k];
          } else {
            add_to_outputs<C>(sums, g.id, all_values, out, in.channels, first_channel, channels);
          }
        }
        waiting = 0;
        __syncwarp();
      };
      for (int tested_end = count; tested_end > 0; tested_end -= kWarp) {
        const int first = tested_end > kWarp ? tested_end - kWarp : 0;
        if (kInSlots) {
          for (int i = thread; i < warps * kWarp * kParts; i += threads) parts[i] = 0.0f;
          __syncthreads();
        }
        const int mine = first + lane;
        const bool seen = mine < tested_end && start + mine <= warp_last &&
                          may_touch(staged(batch, mine), pixels.left, pixels.top);
        unsigned int left = __ballot_sync(kAllLanes, seen);
        do {  // in two loops, so that the inner one is short and `flush` is compiled once
          while (left != 0 && waiting < kPending) {
            const int bit = kWarp - 1 - __clz(static_cast<int>(left));
            left ^= 1u << bit;
            const int i = first + bit;
            const StagedGaussian g = staged(batch, i);
            const ColumnTerms column = column_terms(g.conic, g.x - pixels.x);
            float u[kLanePixels], weight[kLanePixels];
#pragma unroll
            for (int p = 0; p < kLanePixels; ++p) {
              const Blend blend = blend_at(g, column, g.y - pixels.y[p], in.max_alpha);
              const bool blends = blend.visible && start + i <= last[p];
              const float inverse = reciprocal(1.0f - blend.alpha);
              if (blends) transmittance[p] *= inverse;
              weight[p] = blends ? blend.alpha * transmittance[p] : 0.0f;
              float dot = 0.0f;
#pragma unroll
              for (int k = 0; k < C; ++k) dot = fused(batch.colors[k / 4][i][k % 4], v[p][k], dot);
              if (kChunked && all_values && channels < in.channels && blends) {
                dot += dot_from(channels, in.channels, in.colors + g.id * in.channels,
                                gradients.colors + pixels.index[p] * in.channels);
              }
              const float v_alpha = transmittance[p] * dot - behind[p] * inverse;
              u[p] = blends ? blend.power * v_alpha : 0.0f;
              if (blends) behind[p] = fused(weight[p], dot, behind[p]);
            }
            PixelTerms& terms = pending.terms[waiting][lane];
            terms = {{u[0], u[1]}, {weight[0], weight[1]}};
            if (lane % kPending == waiting) own = i;
            ++waiting;
          }
          if (waiting == kPending || (waiting != 0 && (kInSlots || first == 0))) flush(first);
        } while (left != 0);
        if (!kInSlots) continue;
        __syncthreads();
        for (int i = thread; i < (tested_end - first) * kParts; i += threads) {
          const int gaussian = i / kParts, place = i % kParts;
          if (place >= kSlotValues + channels || (place < kSlotValues && !all_values)) continue;
          float sum = 0.0f;
          for (int w = 0; w < warps; ++w) sum += parts[w * kWarp * kParts + i];
          float* slot = slots + (int64_t{start} + first + gaussian) * (kSlotValues + in.channels);
          slot[place < kSlotValues ? place : place + first_channel] += sum;
        }
        __syncthreads();
      }
    }
  }
}

}  // namespace kernels
}  // namespace splat
