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
// A lane adds up, for its pixels, the moments of u = (d alpha / d opacity) (d / d alpha) about the Gaussian's centre:
// u, u dx, u dy, u dx^2, u dx dy, u dy^2. Those are added up over the warp by exchanging halves, 9 values with the colours
// in 14 shuffles, where one sum at a time takes 45, and only then become gradients: of the opacity, and by the conic of
// the mean.
#pragma once

#include "host_functions.h"
#include "rasterize_tile.cuh"

namespace splat {
namespace kernels {

// A tile with more pixels takes several rounds.
constexpr int kDifferentiateThreads = 128;
constexpr int kDifferentiateWarps = kDifferentiateThreads / kWarp;

SPLAT_HD int patches_of_tile(int tile_size) { return tile_threads(tile_size) / kWarp; }

SPLAT_HD int differentiate_threads(int tile_size) {
  const int threads = tile_threads(tile_size);
  return threads < kDifferentiateThreads ? threads : kDifferentiateThreads;
}

// The blocks that should fit on a multiprocessor: as many as the registers allow without spilling.
template <int C>
constexpr int kResidentBlocks = C <= 3 ? 5 : C <= 8 ? 4 : 2;

// The values that a Gaussian gets from a pixel: mean, conic and opacity, then colours; absolute means are apart.
constexpr int kShapeValues = 6;
template <int C>
constexpr int kGradientValues = kShapeValues + C;

// A value's place in a slot: mean, absolute mean, conic, opacity, colours.
SPLAT_HD int slot_place(int value) { return value < 2 ? value : value + 2; }

constexpr int kFirstAbsolute = 2;

// The Gaussians whose slots are summed at a time: those that one ballot covers, or fewer to fit into shared memory.
template <int C>
constexpr int kSlotGaussians = C <= 8 ? kWarp : 8;

// Values that a warp adds up together: value kFirst + i in lane i * kWarp / kSize and those that follow it.
template <int kNumber_, int kFirst_, int kSize_>
struct Group {
  static constexpr int kNumber = kNumber_, kFirst = kFirst_, kSize = kSize_, kLanes = kWarp / kSize_;
};

// The largest power of two, up to 16, that is no more than a number of values.
SPLAT_HD constexpr int group_size(int values) {
  return values >= 16 ? 16 : values >= 8 ? 8 : values >= 4 ? 4 : values >= 2 ? 2 : 1;
}

SPLAT_HD constexpr int group_count(int values) { return values == 0 ? 0 : 1 + group_count(values - group_size(values)); }

// Calls visit(Group) for groups that together are all of `kValues` values.
template <int kValues, int kNumber = 0, int kFirst = 0, class Visit>
static __device__ __forceinline__ void for_each_group(const Visit& visit) {
  if constexpr (kFirst < kValues) {
    constexpr int kSize = group_size(kValues - kFirst);
    visit(Group<kNumber, kFirst, kSize>());
    for_each_group<kValues, kNumber + 1, kFirst + kSize>(visit);
  }
}

// What a moment is multiplied by to become a gradient, but for the opacity. The means' take more: see `gradient_of`.
SPLAT_HD float moment_factor(int value) { return value == 2 || value == 4 ? -0.5f : value == 3 ? -1.0f : 1.0f; }

// The gradient of a value that the lanes of one group have the moment of, or the sum; `factor` is its moment_factor. All
// lanes of the warp must call it.
template <class Group>
static __device__ __forceinline__ float gradient_of(const StagedGaussian& g, float moment, float factor, int lane) {
  static_assert(Group::kFirst != 0 || Group::kSize >= kShapeValues, "the moments are in one group");
  if constexpr (Group::kFirst != 0) return moment;
  const float other = __shfl_xor_sync(kAllLanes, moment, Group::kLanes);  // u dy for u dx, and u dx for u dy
  const int value = lane / Group::kLanes;
  if (value < 2) {
    // The conic is scaled by log2(e).
    const float own = value == 0 ? g.conic.half_a : g.conic.half_c;
    moment = -kLn2 * (2.0f * own * moment + g.conic.b * other);
  } else {
    moment *= factor;
  }
  return value < 5 ? moment * g.opacity : moment;
}

// The sums over the warp of values[kSize], laid out as a Group; always added in the same order. Each step exchanges half
// of the values that are left with the lane whose number differs in kBit.
template <int kSize, int kBit = kWarp / 2>
static __device__ __forceinline__ float sum_values(float* values, int lane) {
  if constexpr (kSize > 1) {
    const bool upper = (lane & kBit) != 0;
#pragma unroll
    for (int i = 0; i < kSize / 2; ++i) {
      const float low = values[i], high = values[i + kSize / 2];
      values[i] = (upper ? high : low) + __shfl_xor_sync(kAllLanes, upper ? low : high, kBit);
    }
    return sum_values<kSize / 2, kBit / 2>(values, lane);
  } else {
    float sum = values[0];
#pragma unroll
    for (int bit = kBit; bit > 0; bit /= 2) sum += __shfl_xor_sync(kAllLanes, sum, bit);
    return sum;
  }
}

// Where a value of every Gaussian is added.
struct Destination {
  float* first;
  int stride;
};

static __device__ __forceinline__ Destination destination(const RasterizeGradientOutputs& out, int64_t all_channels,
                                                          int64_t first_channel, int value) {
  if (value >= kShapeValues) {
    return {out.colors + first_channel + (value - kShapeValues), static_cast<int>(all_channels)};
  }
  if (value < 2) return {out.means + value, 2};
  if (value < 5) return {out.conics + (value - 2), 3};
  return {out.opacities, 1};
}

// The position after the last Gaussian that any pixel of the block blends. All threads of the block must call it; `last`
// is that of this thread's pixel, or -1 if it is outside.
static __device__ __forceinline__ int64_t drawn_end(const ListRange& range, int32_t last) {
  __shared__ int latest;
  __syncthreads();  // until all threads have read the previous one
  if (threadIdx.x == 0) latest = -1;
  __syncthreads();
  atomicMax(&latest, last);
  __syncthreads();
  const int64_t end = static_cast<int64_t>(latest) + 1;
  const int64_t drawn = end < range.end ? end : range.end;
  return drawn < range.begin ? range.begin : drawn;
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
// One block of differentiate_threads(tile_size) threads per tile. Preconditions: `out`, or slots [intersections,
// kSlotValues + all channels], zeroed; unless kChunked, these are all channels; otherwise as `rasterize`.
template <int C, bool kInSlots, bool kChunked>
__global__ void __launch_bounds__(kDifferentiateThreads, kResidentBlocks<C>)
    differentiate(RasterizeInputs in, RasterizeGradients gradients, RasterizeGradientOutputs out, float* slots,
                  int64_t first_channel, int channels) {
  constexpr int kValues = kGradientValues<C>, kSlots = kSlotGaussians<C>, kParts = kSlotValues + C;
  constexpr int kTested = kInSlots ? kSlots : kWarp;  // Gaussians that a warp tests at a time
  __shared__ SharedBatch<C> batch;
  __shared__ float parts[kInSlots ? kDifferentiateWarps * kSlots * kParts : 1];  // [warp, Gaussian, place in the slot]
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int threads = static_cast<int>(blockDim.x), warps = threads / kWarp;
  const int64_t tile = blockIdx.x;
  const ListRange range = list_range(in, tile);
  const bool all_values = !kChunked || first_channel == 0;
  const bool absolute = all_values && out.means_abs != nullptr;
  Destination destinations[group_count(kValues)];
  float factor = 1.0f;
  unsigned int writes = 0;  // a bit for each group of which this lane has a sum to write
  for_each_group<kValues>([&](auto group) {
    const int value = group.kFirst + lane / group.kLanes;
    if (group.kFirst == 0) factor = moment_factor(value);
    destinations[group.kNumber] = destination(out, in.channels, first_channel, value);
    const bool wanted = value < kShapeValues ? all_values : value - kShapeValues < channels;
    if (wanted && lane % group.kLanes == 0) writes |= 1u << group.kNumber;
  });

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
    const int64_t end = drawn_end(range, warp_last);
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const int32_t other = __shfl_xor_sync(kAllLanes, warp_last, step);
      warp_last = other > warp_last ? other : warp_last;
    }

    for (int64_t batch_end = end; batch_end > range.begin; batch_end -= kBatch<C>) {
      const int64_t start = batch_end - range.begin > kBatch<C> ? batch_end - kBatch<C> : range.begin;
      const int count = static_cast<int>(batch_end - start);
      // Positions in the batch; a list that does not ascend may have any.
      const auto here = [&](int64_t position) {
        const int64_t own = position - start;
        return own < count ? static_cast<int>(own < 0 ? -1 : own) : count;
      };
      const int latest_here = here(warp_last);
      int last_here[kLanePixels];
#pragma unroll
      for (int p = 0; p < kLanePixels; ++p) last_here[p] = here(last[p]);
      __syncthreads();  // until all threads have read the previous batch
      stage_batch<C>(in, start, count, first_channel, channels, batch);
      __syncthreads();
      for (int tested_end = count; tested_end > 0; tested_end -= kTested) {
        const int first = tested_end > kTested ? tested_end - kTested : 0;
        if (kInSlots) {
          for (int i = thread; i < warps * kSlots * kParts; i += threads) parts[i] = 0.0f;
          __syncthreads();
        }
        const int mine = first + lane;
        const bool seen = mine < tested_end && mine <= latest_here &&
                          may_touch(staged(batch, mine), pixels.left, pixels.top);
        unsigned int left = __ballot_sync(kAllLanes, seen);
        while (left != 0) {
          const int bit = kWarp - 1 - __clz(static_cast<int>(left));
          left ^= 1u << bit;
          const int i = first + bit;
          const StagedGaussian g = staged(batch, i);
          const float dx = g.x - pixels.x;
          float dy[kLanePixels], u[kLanePixels], weight[kLanePixels];
          bool blends[kLanePixels];
#pragma unroll
          for (int p = 0; p < kLanePixels; ++p) {
            dy[p] = g.y - pixels.y[p];
            const Blend blend = blend_at(g, dx, dy[p]);
            blends[p] = blend.visible && i <= last_here[p];
            const float inverse = reciprocal(1.0f - blend.alpha);
            if (blends[p]) transmittance[p] *= inverse;
            weight[p] = blend.alpha * transmittance[p];
            float dot = 0.0f;
#pragma unroll
            for (int k = 0; k < C; ++k) dot = fused(batch.colors[k / 4][i][k % 4], v[p][k], dot);
            if (kChunked && all_values && channels < in.channels && blends[p]) {
              dot += dot_from(channels, in.channels, in.colors + g.id * in.channels,
                              gradients.colors + pixels.index[p] * in.channels);
            }
            const float v_alpha = transmittance[p] * dot - behind[p] * inverse;
            u[p] = blends[p] ? blend.power * v_alpha : 0.0f;
            if (blends[p]) behind[p] = fused(weight[p], dot, behind[p]);
          }
          float values[kValues];
#pragma unroll
          for (int k = 0; k < kValues; ++k) values[k] = 0.0f;
#pragma unroll
          for (int p = 0; p < kLanePixels; ++p) {
            const float u_dy = u[p] * dy[p];
            values[1] += u_dy;
            values[4] = fused(u_dy, dy[p], values[4]);
            values[5] += u[p];
#pragma unroll
            for (int k = 0; k < C; ++k) {
              if (blends[p]) values[kShapeValues + k] = fused(weight[p], v[p][k], values[kShapeValues + k]);
            }
          }
          values[0] = values[5] * dx;
          values[2] = values[0] * dx;
          values[3] = values[1] * dx;
          if (absolute) {
            float absolutes[2] = {0.0f, 0.0f};
#pragma unroll
            for (int p = 0; p < kLanePixels; ++p) {
              const float scaled = kLn2 * g.opacity * u[p];
              absolutes[0] += fabsf(scaled * (2.0f * g.conic.half_a * dx + g.conic.b * dy[p]));
              absolutes[1] += fabsf(scaled * (2.0f * g.conic.half_c * dy[p] + g.conic.b * dx));
            }
            const float sum = sum_values<2>(absolutes, lane);
            const int axis = lane / (kWarp / 2);
            if (lane % (kWarp / 2) == 0) {
              if (kInSlots) {
                parts[(warp * kSlots + bit) * kParts + kFirstAbsolute + axis] = sum;
              } else {
                add_to_global(out.means_abs + axis + wide_product(g.id, 2), sum);
              }
            }
          }
          for_each_group<kValues>([&](auto group) {
            float sum = sum_values<group.kSize>(values + group.kFirst, lane);
            sum = gradient_of<decltype(group)>(g, sum, factor, lane);
            if ((writes >> group.kNumber & 1) == 0) return;
            if (kInSlots) {
              const int value = group.kFirst + lane / group.kLanes;
              parts[(warp * kSlots + bit) * kParts + slot_place(value)] = sum;
            } else {
              const Destination& to = destinations[group.kNumber];
              add_to_global(to.first + wide_product(g.id, to.stride), sum);
            }
          });
        }
        if (!kInSlots) continue;
        __syncthreads();
        for (int i = thread; i < (tested_end - first) * kParts; i += threads) {
          const int gaussian = i / kParts, place = i % kParts;
          if (place >= kSlotValues + channels || (place < kSlotValues && !all_values)) continue;
          float sum = 0.0f;
          for (int w = 0; w < warps; ++w) sum += parts[w * kSlots * kParts + i];
          float* slot = slots + (start + first + gaussian) * (kSlotValues + in.channels);
          slot[place < kSlotValues ? place : place + first_channel] += sum;
        }
        __syncthreads();
      }
    }
  }
}

}  // namespace kernels
}  // namespace splat
