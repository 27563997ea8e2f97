// Source of rasterize_block, and of what rasterize_rays shares with it; lanes.h says how it is compiled.
#pragma once

#include "rasterize_lanes.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

constexpr int kMaxChannels = 16;  // colours blended in one pass over the list
constexpr int kBetweenLooks = 8;  // Gaussians until rows that are finished are looked for again

// C: the number of colours if it is known at compile time, otherwise 0.
template <int C>
struct Row {
  // Transmittance; negated once the pixel is finished, and for places of the block outside of the image.
  Floats transmittance[kChunks];
  Ints last[kChunks];
  Floats colors[C > 0 ? C : kMaxChannels][kChunks];
};

// Blends Gaussian `index` of the lists into one row.
template <int C, class Placed>
SPLAT_HD void blend_row(const Placed& gaussian, int32_t index, int row, int channels, float max_alpha,
                        Row<C>& pixels) {
  const int used = C > 0 ? C : channels;
  for (int k = 0; k < kChunks; ++k) {
    const Floats transmittance = pixels.transmittance[k];
    const auto seen = view(gaussian, row, k);
    const Floats exponent = seen.exponent;
    const Mask reached = within_limit(gaussian, exponent) & greater(transmittance, Floats{});
    // With 16 lanes almost every row that row_range left is reached.
    if (kLanes < 16 && !any(reached)) continue;
    const Floats alpha = smaller(splat_lanes(max_alpha), gaussian.opacity * exp2_negative(exponent));
    const Mask visible = reached & at_least(alpha, splat_lanes(kMinAlpha));
    const Floats next = fused(-alpha, transmittance, transmittance);
    const Mask blended = visible & greater(next, splat_lanes(kMinTransmittance));
    const Floats weight = select(blended, alpha * transmittance, Floats{});
    for (int c = 0; c < used; ++c) {
      pixels.colors[c][k] = fused(weight, shown(gaussian, seen, row, k, c), pixels.colors[c][k]);
    }
    pixels.last[k] = select(blended, Ints{} + index, pixels.last[k]);
    // Without a branch: which Gaussian finishes a pixel cannot be predicted.
    pixels.transmittance[k] = select(blended, next, negate_where(visible, transmittance));
  }
}

// Those of the rows that have unfinished pixels.
template <int C>
SPLAT_HD uint32_t alive_rows(const Row<C>* block, uint32_t rows) {
  uint32_t alive = 0;
  for (; rows != 0; rows &= rows - 1) {
    const int row = __builtin_ctz(rows);
    Mask unfinished = {};
    for (int k = 0; k < kChunks; ++k) unfinished |= greater(block[row].transmittance[k], Floats{});
    alive |= static_cast<uint32_t>(any(unfinished)) << row;
  }
  return alive;
}

template <int C, class Pixels>
SPLAT_HD void start_block(const Pixels& places, const BlockJob& job, int channels, Row<C>* block) {
  for (int row = 0; row < kBlockSide; ++row) {
    Row<C>& pixels = block[row];
    for (int k = 0; k < kChunks; ++k) {
      pixels.last[k] = Ints{};
      pixels.transmittance[k] = start_transmittance(places, job, row, k);
      for (int c = 0; c < channels; ++c) pixels.colors[c][k] = Floats{};
    }
  }
}

template <int C>
SPLAT_HD void finish_block(const BlockScene& scene, const BlockJob& job, const BlockImages& images, int first_channel,
                           int channels, const Row<C>* block) {
  const int used = C > 0 ? C : channels;
  for (int row = 0; row < job.rows; ++row) {
    const Row<C>& pixels = block[row];
    const int64_t pixel = job.first_pixel + (job.top + row) * scene.image_width + job.left;
    Floats colors[kChunks * kMaxChannels], alphas[kChunks];
    for (int k = 0; k < kChunks; ++k) {
      const Floats remaining = magnitude(pixels.transmittance[k]);
      alphas[k] = 1.0f - remaining;
      for (int c = 0; c < used; ++c) {
        colors[k * used + c] = with_background(job, pixels.colors[c][k], remaining, first_channel + c);
      }
    }
    store_row<C>(colors, scene.channels, job.columns, channels, images.colors + pixel * scene.channels + first_channel);
    if (first_channel > 0) continue;
    store_row<1>(alphas, 1, job.columns, 1, images.alphas + pixel);
    for (int column = 0; column < job.columns; ++column) {
      images.last[pixel + column] = pixels.last[column / kLanes][column % kLanes];
    }
  }
}

// Renders `channels` colours from `first_channel` on; C is their number if it is known at compile time, otherwise 0.
template <int C, class Batch, class Scene, class Pixels>
static void rasterize_channels(const Scene& scene, const BlockJob& job, const Pixels& places, const BlockImages& images,
                               int first_channel, int channels) {
  const int used = C > 0 ? C : channels;
  Row<C> block[kBlockSide];
  Batch batch;
  start_block(places, job, used, block);
  uint32_t alive = (1u << job.rows) - 1;  // rows with unfinished pixels
  for (int32_t start = job.begin; start < job.end && alive != 0; start += kBatch) {
    const int count = job.end - start < kBatch ? job.end - start : kBatch;
    stage(scene, job, places, first_channel, start, count, batch);
    for (int i = 0; i < count && alive != 0; ++i) {
      const auto gaussian = place(batch, i, places);
      for (uint32_t rows = row_bits(batch, i) & alive; rows != 0; rows &= rows - 1) {
        const int row = __builtin_ctz(rows);
        blend_row(gaussian, start + i, row, channels, scene.max_alpha, block[row]);
      }
      if (i % kBetweenLooks == kBetweenLooks - 1) alive = alive_rows(block, alive);
    }
  }
  finish_block<C>(scene, job, images, first_channel, channels, block);
}

}  // namespace

}  // namespace SPLAT_ISA
}  // namespace splat
