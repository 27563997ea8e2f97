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
// kPending Gaussians the lanes become Gaussians: four add up a Gaussian's moments, the sums of u, u dx, u dy, u dx^2,
// u dx dy and u dy^2 about its centre, and of weight v, which are the gradients of its colours. Only the sums are
// multiplied by the conic and the opacity. A pixel that does not blend a Gaussian adds 0 v to it: NaN where v is not
// finite.
#pragma once

#include "host_functions.h"
#include "rasterize_tile.cuh"

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
template <int C, bool kInSlots>
constexpr int kResidentBlocks = C > 8 || (C <= 3 && kInSlots) ? 4 : C <= 3 ? 5 : 3;

// The Gaussians whose slots are summed at a time: those that one ballot covers, or fewer to fit into shared memory.
template <int C>
constexpr int kSlotGaussians = C <= 8 ? kWarp : 8;

// The Gaussians that a warp adds up at a time. A lane adds up two rows of a patch, those of as many lanes as the patch is
// wide.
constexpr int kPending = 8;
constexpr int kRowStep = kPatchHeight / kLanePixels;
static_assert(kPending * kRowStep == kWarp && kRowStep * kPatchWidth == kWarp, "each lane has a Gaussian and its rows");

// More would take more registers.
template <int C>
constexpr int kUnrolledColumns = C <= 8 ? 4 : 1;

// What a lane's pixels have of one Gaussian.
struct alignas(16) PixelTerms {
  float u[kLanePixels], weight[kLanePixels];
};

// Of one warp, in shared memory.
template <int C>
struct Pending {
  PixelTerms terms[kPending][kWarp + 1];  // one more, so that lanes with different Gaussians read different banks
  alignas(16) float incoming[kWarp][kLanePixels][(C + 3) / 4 * 4];
};

// A sum over the lanes that have the same Gaussian; always added in the same order.
static __device__ __forceinline__ float sum_rows(float value) {
#pragma unroll
  for (int step = kPending; step < kWarp; step *= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// The gradients of a Gaussian from one patch, in the order of a slot: mean, absolute mean, conic, opacity, colours.
constexpr int kFirstAbsolute = 2, kFirstConic = 4, kOpacity = 7;
template <int C>
struct GaussianSums {
  float values[kSlotValues + C];
};

// Of Gaussian `which` of those that are pending, the same for all lanes with the same lane % kPending; by all lanes of a
// warp. `left` and `top` are the centre of its patch's first pixel.
template <int C>
static __device__ __forceinline__ GaussianSums<C> add_up(const StagedGaussian& g, const Pending<C>& pending, int which,
                                                         int lane, float left, float top, bool absolute) {
  const int row = lane / kPending;
  const float first_dx = g.x - left;
  float dy[kLanePixels];
  float sums[kLanePixels][3];  // of u, u dx and u dx^2
  GaussianSums<C> out = {};
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    dy[p] = g.y - (top + static_cast<float>(row + p * kRowStep));
    sums[p][0] = sums[p][1] = sums[p][2] = 0.0f;
  }
#pragma unroll(kUnrolledColumns<C>)
  for (int column = 0; column < kPatchWidth; ++column) {
    const PixelTerms terms = pending.terms[which][row * kPatchWidth + column];
    const float dx = first_dx - static_cast<float>(column), dx2 = dx * dx;
#pragma unroll
    for (int p = 0; p < kLanePixels; ++p) {
      sums[p][0] += terms.u[p];
      sums[p][1] = fused(terms.u[p], dx, sums[p][1]);
      sums[p][2] = fused(terms.u[p], dx2, sums[p][2]);
      const float* const v = pending.incoming[row * kPatchWidth + column][p];
#pragma unroll
      for (int k = 0; k < C; ++k) {
        out.values[kSlotValues + k] = fused(terms.weight[p], v[k], out.values[kSlotValues + k]);
      }
    }
  }
  float x = 0.0f, y = 0.0f, xx = 0.0f, xy = 0.0f, yy = 0.0f, u = 0.0f;
#pragma unroll
  for (int p = 0; p < kLanePixels; ++p) {
    const float u_dy = sums[p][0] * dy[p];
    u += sums[p][0];
    x += sums[p][1];
    y += u_dy;
    xx += sums[p][2];
    xy = fused(sums[p][1], dy[p], xy);
    yy = fused(u_dy, dy[p], yy);
  }
  x = sum_rows(x);
  y = sum_rows(y);
  const float twice_a = 2.0f * g.conic.half_a, twice_c = 2.0f * g.conic.half_c, b = g.conic.b;
  const float scale = -kLn2 * g.opacity;  // the conic is scaled by log2(e)
  out.values[0] = scale * (twice_a * x + b * y);
  out.values[1] = scale * (twice_c * y + b * x);
  out.values[kFirstConic] = -0.5f * g.opacity * sum_rows(xx);
  out.values[kFirstConic + 1] = -g.opacity * sum_rows(xy);
  out.values[kFirstConic + 2] = -0.5f * g.opacity * sum_rows(yy);
  out.values[kOpacity] = sum_rows(u);
#pragma unroll
  for (int k = 0; k < C; ++k) out.values[kSlotValues + k] = sum_rows(out.values[kSlotValues + k]);
  if (absolute) {
    x = y = 0.0f;
#pragma unroll(1)
    for (int column = 0; column < kPatchWidth; ++column) {
      const PixelTerms terms = pending.terms[which][row * kPatchWidth + column];
      const float dx = first_dx - static_cast<float>(column);
#pragma unroll
      for (int p = 0; p < kLanePixels; ++p) {
        x += fabsf(terms.u[p] * (twice_a * dx + b * dy[p]));
        y += fabsf(terms.u[p] * (twice_c * dy[p] + b * dx));
      }
    }
    out.values[kFirstAbsolute] = -scale * sum_rows(x);
    out.values[kFirstAbsolute + 1] = -scale * sum_rows(y);
  }
  return out;
}

// Adds a Gaussian's gradients to the outputs: of `channels` colours from the first one, and, with `shape`, all others.
template <int C>
static __device__ __forceinline__ void add_to_outputs(const GaussianSums<C>& sums, int32_t id, bool shape,
                                                      const RasterizeGradientOutputs& out, int64_t all_channels,
                                                      int64_t first_channel, int channels) {
  if (shape) {
    float* const means = out.means + wide_product(id, 2);
    float* const conics = out.conics + wide_product(id, 3);
    for (int k = 0; k < 2; ++k) add_to_global(means + k, sums.values[k]);
    for (int k = 0; k < 3; ++k) add_to_global(conics + k, sums.values[kFirstConic + k]);
    add_to_global(out.opacities + id, sums.values[kOpacity]);
    if (out.means_abs != nullptr) {
      float* const absolutes = out.means_abs + wide_product(id, 2);
      for (int k = 0; k < 2; ++k) add_to_global(absolutes + k, sums.values[kFirstAbsolute + k]);
    }
  }
  float* const colors = out.colors + wide_product(id, static_cast<int32_t>(all_channels)) + first_channel;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    if (k < channels) add_to_global(colors + k, sums.values[kSlotValues + k]);
  }
}

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

// color . v for the channels [first, channels).
static __device__ __forceinline__ float dot_from(int first, int64_t channels, const float* color, const float* v) {
  float dot = 0.0f;
  for (int64_t k = first; k < channels; ++k) dot = fused(color[k], v[k], dot);
  return dot;
}

// Adds to the gradients of the Gaussians: of the colours [first_channel, first_channel + channels), and, with the first
// channel, all others. With kInSlots, not to the outputs, but to a slot for each pair of Gaussian and tile, in an order
// that does not depend on timing; `sum_slots` adds those up.
// One block of differentiate_threads<C>(tile_size) threads per tile. Preconditions: `out`, or slots [intersections,
// kSlotValues + all channels], zeroed; unless kChunked, these are all channels; otherwise as `rasterize`.
template <int C, bool kInSlots, bool kChunked>
__global__ void __launch_bounds__(kDifferentiateThreads<C>, (kResidentBlocks<C, kInSlots>))
    differentiate(RasterizeInputs in, const StagedRecord* records, RasterizeGradients gradients,
                  RasterizeGradientOutputs out, float* slots, int64_t first_channel, int channels) {
  constexpr int kSlots = kSlotGaussians<C>, kParts = kSlotValues + C, kWarps = kDifferentiateThreads<C> / kWarp;
  constexpr int kTested = kInSlots ? kSlots : kWarp;  // Gaussians that a warp tests at a time
  __shared__ SharedBatch<C> batch;
  __shared__ Pending<C> pending_of[kWarps];
  __shared__ float parts[kInSlots ? kWarps * kSlots * kParts : 1];  // [warp, Gaussian, place in the slot]
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int threads = static_cast<int>(blockDim.x), warps = threads / kWarp;
  const int64_t tile = blockIdx.x;
  const ListRange range = list_range(in, tile);
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
            float* const part = parts + (warp * kSlots + own - first) * kParts;
#pragma unroll
            for (int k = 0; k < kParts; ++k) part[k] = sums.values[k];
          } else {
            add_to_outputs<C>(sums, g.id, all_values, out, in.channels, first_channel, channels);
          }
        }
        waiting = 0;
        __syncwarp();
      };
      for (int tested_end = count; tested_end > 0; tested_end -= kTested) {
        const int first = tested_end > kTested ? tested_end - kTested : 0;
        if (kInSlots) {
          for (int i = thread; i < warps * kSlots * kParts; i += threads) parts[i] = 0.0f;
          __syncthreads();
        }
        const int mine = first + lane;
        const bool seen = mine < tested_end && start + mine <= warp_last &&
                          may_touch(staged(batch, mine), pixels.left, pixels.top);
        unsigned int left = __ballot_sync(kAllLanes, seen);
        while (left != 0) {
          const int bit = kWarp - 1 - __clz(static_cast<int>(left));
          left ^= 1u << bit;
          const int i = first + bit;
          const StagedGaussian g = staged(batch, i);
          const ColumnTerms column = column_terms(g.conic, g.x - pixels.x);
          float u[kLanePixels], weight[kLanePixels];
#pragma unroll
          for (int p = 0; p < kLanePixels; ++p) {
            const Blend blend = blend_at(g, column, g.y - pixels.y[p]);
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
          if (++waiting == kPending) flush(first);
        }
        if (waiting != 0 && (kInSlots || first == 0)) flush(first);
        if (!kInSlots) continue;
        __syncthreads();
        for (int i = thread; i < (tested_end - first) * kParts; i += threads) {
          const int gaussian = i / kParts, place = i % kParts;
          if (place >= kSlotValues + channels || (place < kSlotValues && !all_values)) continue;
          float sum = 0.0f;
          for (int w = 0; w < warps; ++w) sum += parts[w * kSlots * kParts + i];
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
