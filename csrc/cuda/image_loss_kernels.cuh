// The kernels of splat::image_loss and of its gradient: L1 and SSIM of images, over a separable window.
//
// A block has a tile of an image, all of its channels one after the other: what the window reaches is staged in shared
// memory, blurred along its rows, and then along its columns. A thread blurs a run of kRunRows values at once, which it
// reads once each.
#pragma once

#include "../math/image_loss_rows.h"
#include "warp.cuh"

namespace splat {
namespace kernels {

constexpr int kLossSide = 32;                             // of a tile; a warp has its columns
constexpr int kLossReach = kLossSide + 2 * kWindowRadius; // of the window of a tile
constexpr int kLossRuns = kLossSide / kRunRows;           // of a row or column of the tile
constexpr int kLossThreads = 192;
constexpr int kLossBlocks = 2;  // of a multiprocessor, as many as registers allow without spills, from 7.5 to 12.0
static_assert(kLossSide == kWarp && kLossThreads >= kLossReach * kLossRuns, "each thread has one run at most");

struct LossTile {
  int64_t image;
  int left, top;
};

SPLAT_HD int64_t loss_columns(const ImageLossInputs& in) { return divide_up(in.width, kLossSide); }

SPLAT_HD int64_t loss_tiles(const ImageLossInputs& in) {
  return in.images * divide_up(in.height, kLossSide) * loss_columns(in);
}

SPLAT_HD LossTile loss_tile(const ImageLossInputs& in, int64_t tile) {
  const int64_t row = tile / loss_columns(in), rows = divide_up(in.height, kLossSide);
  return {row / rows, static_cast<int>(tile % loss_columns(in)) * kLossSide, static_cast<int>(row % rows) * kLossSide};
}

// A pixel in the tile, in its image, and of all images.
struct LossPlace {
  int row, column, y, x;
  int64_t pixel;
};

// What lanes read that have neighbouring rows is in different banks.
template <int kMaps>
using StagedMaps = float[kMaps][kLossReach][kLossReach + 1];
template <int kMaps>
using BlurredMaps = float[kMaps][kLossReach][kLossSide + 1];

// Copies a channel of each map [I, H, W, D] for the windows of a tile, with 0 outside of the image and where the mask,
// if there is one, is false. A warp copies a row at a time; addresses only grow, because to compute each
// takes longer than to copy.
template <int kMaps>
static __device__ __forceinline__ void stage_maps(const ImageLossInputs& in, const LossTile& tile, int64_t channel,
                                                  const bool* mask, const float* const (&maps)[kMaps],
                                                  StagedMaps<kMaps>& staged) {
  constexpr int kStep = kLossThreads / kWarp, kParts = 2;
  static_assert(kLossReach <= kParts * kWarp, "each lane has a column of each part of a row");
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int x = tile.left + lane - kWindowRadius;
  int y = tile.top + warp - kWindowRadius;
  int64_t pixel = (tile.image * in.height + y) * in.width + x;
  const float* from[kMaps];
#pragma unroll
  for (int map = 0; map < kMaps; ++map) from[map] = maps[map] + pixel * in.channels + channel;
  const int64_t next_part = kWarp * in.channels, next_row = kStep * in.width * in.channels;
  for (int row = warp; row < kLossReach; row += kStep) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int column = part * kWarp + lane;
      const bool inside = y >= 0 && y < in.height && x + part * kWarp >= 0 && x + part * kWarp < in.width &&
                          (mask == nullptr || mask[pixel + part * kWarp]);
      if (column >= kLossReach) continue;
#pragma unroll
      for (int map = 0; map < kMaps; ++map) staged[map][row][column] = inside ? from[map][part * next_part] : 0.0f;
    }
    y += kStep;
    pixel += kStep * in.width;
#pragma unroll
    for (int map = 0; map < kMaps; ++map) from[map] += next_row;
  }
}

// Blurs a run of the values that read(i, values) gives, from the window's first on.
template <int kMaps, class Read>
static __device__ __forceinline__ void blur_run(const Read& read, float (&sums)[kRunRows][kMaps]) {
#pragma unroll
  for (int i = 0; i < kRunRows + kWindowTaps - 1; ++i) {
    float values[kMaps];
    read(i, values);
#pragma unroll
    for (int j = 0; j < kRunRows; ++j) {
      const int tap = i - j;
      if (tap < 0 || tap >= kWindowTaps) continue;
#pragma unroll
      for (int map = 0; map < kMaps; ++map) {
        sums[j][map] = fused(window_weight(tap), values[map], tap == 0 ? 0.0f : sums[j][map]);
      }
    }
  }
}

// Blurs all that is staged along its rows, a lane for a row. read(row, column, values) makes values of it.
template <int kMaps, class Read>
static __device__ __forceinline__ void blur_rows(const Read& read, BlurredMaps<kMaps>& blurred) {
  if (threadIdx.x >= kLossReach * kLossRuns) return;
  const int row = static_cast<int>(threadIdx.x) % kLossReach;
  const int first = static_cast<int>(threadIdx.x) / kLossReach * kRunRows;
  float sums[kRunRows][kMaps];
  blur_run<kMaps>([&](int i, float(&values)[kMaps]) { read(row, first + i, values); }, sums);
#pragma unroll
  for (int j = 0; j < kRunRows; ++j) {
#pragma unroll
    for (int map = 0; map < kMaps; ++map) blurred[map][row][first + j] = sums[j][map];
  }
}

// Blurs what blur_rows left along its columns, a lane for a column; calls finish(place, sums) for each pixel of the
// tile that is in the image.
template <int kMaps, class Finish>
static __device__ __forceinline__ void blur_columns(const ImageLossInputs& in, const LossTile& tile,
                                                    const BlurredMaps<kMaps>& blurred, const Finish& finish) {
  if (threadIdx.x >= kLossSide * kLossRuns) return;
  const int column = static_cast<int>(threadIdx.x) % kLossSide;
  const int first = static_cast<int>(threadIdx.x) / kLossSide * kRunRows;
  LossPlace place = {first, column, tile.top + first, tile.left + column, 0};
  place.pixel = (tile.image * in.height + place.y) * in.width + place.x;
  float sums[kRunRows][kMaps];
  blur_run<kMaps>(
      [&](int i, float(&values)[kMaps]) {
#pragma unroll
        for (int map = 0; map < kMaps; ++map) values[map] = blurred[map][first + i][column];
      },
      sums);
#pragma unroll
  for (int j = 0; j < kRunRows; ++j) {
    if (place.y < in.height && place.x < in.width) finish(place, sums[j]);
    ++place.row;
    ++place.y;
    place.pixel += in.width;
  }
}

// The sum over the block, in its thread 0. Always added in the same order. The caller provides the barrier before it.
static __device__ __forceinline__ ImageLossSums block_sum(const ImageLossSums& own, int threads,
                                                          ImageLossSums (&warps)[kWarp]) {
  const ImageLossSums sums = {warp_sum(own.absolute), warp_sum(own.similarity), warp_sum(own.counted)};
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = sums;
  __syncthreads();
  ImageLossSums total = {};
  if (threadIdx.x != 0) return total;
  for (int warp = 0; warp < threads / kWarp; ++warp) {
    total.absolute += warps[warp].absolute;
    total.similarity += warps[warp].similarity;
    total.counted += warps[warp].counted;
  }
  return total;
}

// One block for each of the tiles: sums [loss_tiles], and the partials, if they are not null.
__global__ void __launch_bounds__(kLossThreads, kLossBlocks)
    image_loss(ImageLossInputs in, float* partials, ImageLossSums* sums) {
  __shared__ StagedMaps<2> staged;
  __shared__ BlurredMaps<kWindowMeans> blurred;
  __shared__ ImageLossSums warps[kWarp];
  const LossTile tile = loss_tile(in, blockIdx.x);
  const int64_t total = value_count(in);
  ImageLossSums own = {};
  for (int64_t channel = 0; channel < in.channels; ++channel) {
    stage_maps<2>(in, tile, channel, in.mask, {in.image, in.target}, staged);
    __syncthreads();
    blur_rows<kWindowMeans>(
        [&](int row, int column, float(&moments)[kWindowMeans]) {
          const float x = staged[0][row][column], y = staged[1][row][column];
          moments[0] = x;
          moments[1] = y;
          moments[2] = fused(y, y, x * x);
          moments[3] = x * y;
        },
        blurred);
    __syncthreads();
    float absolute_run = 0.0f, similarity_run = 0.0f;
    int counted = 0;
    blur_columns<kWindowMeans>(in, tile, blurred, [&](const LossPlace& at, const float(&moments)[kWindowMeans]) {
      const int row = at.row + kWindowRadius, column = at.column + kWindowRadius;
      absolute_run += absolute(staged[0][row][column] - staged[1][row][column]);
      const Similarity<float> found = similarity(moments);
      const bool counts = in_margins(in, at.y, at.x) && (in.mask == nullptr || in.mask[at.pixel]);
      const float weight = counts ? 1.0f : 0.0f;
      similarity_run += weight * found.value;
      counted += counts;
      if (partials == nullptr) return;
      float* to = partials + at.pixel * in.channels + channel;
      to[0] = weight * found.by_mean;
      to[total] = weight * found.by_squares;
      to[2 * total] = weight * found.by_product;
    });
    own.absolute += absolute_run;
    own.similarity += similarity_run;
    own.counted += counted;
    __syncthreads();  // before the next channel is staged
  }
  const ImageLossSums found = block_sum(own, kLossThreads, warps);
  if (threadIdx.x == 0) sums[blockIdx.x] = found;
}

// One block: the loss, of the sums [count] of all tiles.
__global__ void finish_image_loss(ImageLossInputs in, const ImageLossSums* sums, int64_t count, ImageLossOutputs out) {
  __shared__ ImageLossSums warps[kWarp];
  ImageLossSums own = {};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    own.absolute += sums[i].absolute;
    own.similarity += sums[i].similarity;
    own.counted += sums[i].counted;
  }
  const ImageLossSums found = block_sum(own, static_cast<int>(blockDim.x), warps);
  if (threadIdx.x == 0) finish_loss(in, found, out);
}

// One block for each of the tiles: v_image.
__global__ void __launch_bounds__(kLossThreads, kLossBlocks)
    image_loss_backward(ImageLossInputs in, ImageLossGradients gradients) {
  __shared__ StagedMaps<kPartials> staged;
  __shared__ BlurredMaps<kPartials> blurred;
  const LossTile tile = loss_tile(in, blockIdx.x);
  const int64_t total = value_count(in);
  const float by_absolute = *gradients.v_value * gradients.weights[0];
  const float by_similarity = *gradients.v_value * (2.0f * gradients.weights[1]);
  const float* const maps[] = {gradients.partials, gradients.partials + total, gradients.partials + 2 * total};
  for (int64_t channel = 0; channel < in.channels; ++channel) {
    stage_maps<kPartials>(in, tile, channel, nullptr, maps, staged);
    __syncthreads();
    blur_rows<kPartials>(
        [&](int row, int column, float(&partials)[kPartials]) {
#pragma unroll
          for (int map = 0; map < kPartials; ++map) partials[map] = staged[map][row][column];
        },
        blurred);
    __syncthreads();
    blur_columns<kPartials>(in, tile, blurred, [&](const LossPlace& at, const float(&partials)[kPartials]) {
      const int64_t i = at.pixel * in.channels + channel;
      const float x = in.image[i], y = in.target[i];
      const float v = fused(partials[2], y, fused(partials[1], x, partials[0]));
      const float sign = x > y ? by_absolute : (y > x ? -by_absolute : 0.0f);
      gradients.v_image[i] = in.mask == nullptr || in.mask[at.pixel] ? fused(by_similarity, v, sign) : 0.0f;
    });
  }
}

}  // namespace kernels
}  // namespace splat
