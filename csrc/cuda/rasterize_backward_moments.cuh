// What a warp's pixels have of a few Gaussians, in shared memory, added up by its lanes, four of which take a Gaussian:
// its moments, the sums of u, u dx, u dy, u dx^2, u dx dy and u dy^2 about its centre, and of weight v, which are the
// gradients of its colours. Only the sums are multiplied by the conic and the opacity. A pixel that does not blend a
// Gaussian adds 0 v to it: NaN where v is not finite.
#pragma once

#include "host_functions.h"
#include "rasterize_tile.cuh"

namespace splat {
namespace kernels {

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

}  // namespace kernels
}  // namespace splat
