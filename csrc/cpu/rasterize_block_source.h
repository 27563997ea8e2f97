// Source of rasterize_block; rasterize_lanes.h says how it is compiled.
#include "rasterize_lanes.h"

namespace splat {
namespace SPLAT_ISA {
namespace {

constexpr int kMaxChannels = 16;  // colours blended in one pass over the list

struct Block {
  // Transmittance; negated once the pixel is finished, and for places of the block outside of the image.
  Floats transmittance[kBlockSide][kChunks];
  Ints last[kBlockSide][kChunks];
  Floats colors[kMaxChannels][kBlockSide][kChunks];
  Floats pixel_x[kChunks];
};

// Blends Gaussian i of the batch, number `index` in the lists, into one row. Returns whether a pixel was finished.
template <int C>
SPLAT_HD bool blend_row(const BlockBatch& batch, int i, int32_t index, int row, float pixel_y, int channels, Block& block) {
  const int used = C > 0 ? C : channels;
  const float dy = batch.y[i] - pixel_y;
  const ScaledConic conic = {batch.half_a[i], batch.b[i], batch.half_c[i]};
  bool finished = false;
  for (int k = 0; k < kChunks; ++k) {
    const Floats transmittance = block.transmittance[row][k];
    const Floats dx = batch.x[i] - block.pixel_x[k];
    const Floats exponent = gaussian_exponent(dx, dy, conic);
    const Mask reached = at_least(exponent, Floats{}) & at_least(splat_lanes(batch.limit[i]), exponent) &
                         greater(transmittance, Floats{});
    // With 16 lanes almost every row that row_range left is reached.
    if (kLanes < 16 && !any(reached)) continue;
    const Floats unclamped = batch.opacity[i] * exp2_negative(exponent);
    const Floats largest = splat_lanes(kMaxAlpha);
    const Floats alpha = select(greater(unclamped, largest), largest, unclamped);
    const Mask visible = reached & at_least(alpha, splat_lanes(kMinAlpha));
    const Floats next = transmittance * (1.0f - alpha);
    const Mask blended = visible & greater(next, splat_lanes(kMinTransmittance));
    const Floats weight = select(blended, alpha * transmittance, Floats{});
    for (int c = 0; c < used; ++c) block.colors[c][row][k] += weight * batch.colors[i][c];
    block.last[row][k] = select(blended, Ints{} + index, block.last[row][k]);
    block.transmittance[row][k] = select(blended, next, transmittance);
    const Mask stopped = visible ^ blended;
    if (any(stopped)) {
      block.transmittance[row][k] = select(stopped, -transmittance, block.transmittance[row][k]);
      finished = true;
    }
  }
  return finished;
}

SPLAT_HD bool row_alive(const Block& block, int row) {
  bool alive = false;
  for (int k = 0; k < kChunks; ++k) alive |= any(greater(block.transmittance[row][k], Floats{}));
  return alive;
}

SPLAT_HD void start_block(const BlockJob& job, int channels, Block& block) {
  column_centres(job, block.pixel_x);
  for (int row = 0; row < kBlockSide; ++row) {
    for (int k = 0; k < kChunks; ++k) {
      block.last[row][k] = Ints{};
      for (int lane = 0; lane < kLanes; ++lane) {
        const bool inside = row < job.rows && k * kLanes + lane < job.columns;
        block.transmittance[row][k][lane] = inside ? 1.0f : -1.0f;
      }
      for (int c = 0; c < channels; ++c) block.colors[c][row][k] = Floats{};
    }
  }
}

template <int C>
SPLAT_HD void finish_block(const BlockScene& scene, const BlockJob& job, const BlockImages& images, int first_channel,
                           int channels, const Block& block) {
  const int used = C > 0 ? C : channels;
  for (int row = 0; row < job.rows; ++row) {
    const int64_t pixel = job.first_pixel + (job.top + row) * scene.image_width + job.left;
    Floats colors[kChunks * kMaxChannels], alphas[kChunks];
    for (int k = 0; k < kChunks; ++k) {
      const Floats remaining = magnitude(block.transmittance[row][k]);
      alphas[k] = 1.0f - remaining;
      for (int c = 0; c < used; ++c) {
        const Floats color = block.colors[c][row][k];
        colors[k * used + c] =
            job.background == nullptr ? color : color + remaining * job.background[first_channel + c];
      }
    }
    store_row<C>(colors, scene.channels, job.columns, channels, images.colors + pixel * scene.channels + first_channel);
    if (first_channel > 0) continue;
    store_row<1>(alphas, 1, job.columns, 1, images.alphas + pixel);
    for (int column = 0; column < job.columns; ++column) {
      images.last[pixel + column] = block.last[row][column / kLanes][column % kLanes];
    }
  }
}

// Renders `channels` colours from `first_channel` on; C is their number if it is known at compile time, otherwise 0.
template <int C>
static void rasterize_channels(const BlockScene& scene, const BlockJob& job, const BlockImages& images,
                               int first_channel, int channels) {
  const int used = C > 0 ? C : channels;
  Block block;
  BlockBatch batch;
  start_block(job, used, block);
  uint32_t alive = (1u << job.rows) - 1;  // rows with unfinished pixels
  for (int32_t start = job.begin; start < job.end && alive != 0; start += kBatch) {
    const int count = job.end - start < kBatch ? job.end - start : kBatch;
    stage(scene, job, first_channel, start, count, batch);
    for (int i = 0; i < count && alive != 0; ++i) {
      for (int row = batch.row_begin[i]; row < batch.row_end[i]; ++row) {
        if ((alive >> row & 1) == 0) continue;
        const float pixel_y = static_cast<float>(job.top + row) + 0.5f;
        if (blend_row<C>(batch, i, start + i, row, pixel_y, channels, block) && !row_alive(block, row)) {
          alive &= ~(1u << row);
        }
      }
    }
  }
  finish_block<C>(scene, job, images, first_channel, channels, block);
}

}  // namespace

void rasterize_block(const BlockScene& scene, const BlockJob& job, const BlockImages& images) {
  for (int first = 0; first < scene.channels; first += kMaxChannels) {
    const int channels = scene.channels - first < kMaxChannels ? scene.channels - first : kMaxChannels;
    switch (channels) {
      case 1:
        rasterize_channels<1>(scene, job, images, first, channels);
        break;
      case 3:
        rasterize_channels<3>(scene, job, images, first, channels);
        break;
      case 4:
        rasterize_channels<4>(scene, job, images, first, channels);
        break;
      default:
        rasterize_channels<0>(scene, job, images, first, channels);
    }
  }
}

}  // namespace SPLAT_ISA
}  // namespace splat
