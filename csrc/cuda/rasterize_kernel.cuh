#pragma once

#include "../math/blend.h"
#include "../math/tiles.h"

namespace splat {
namespace kernels {

struct RasterizeInputs {
  const float *means, *conics, *colors, *opacities;  // [count, 2], [count, 3], [count, channels], [count]
  const float* backgrounds;                          // [images, channels] or null
  const int32_t *offsets, *flatten_ids;              // [images, rows, columns], [intersections]
  int64_t count, channels, intersections, tiles;     // tiles: of all images
  int width, height;
  TileGrid grid;
};

struct RasterizeOutputs {
  float *colors, *alphas;  // [images, height, width, channels], [images, height, width]
  int32_t* last_ids;       // [images, height, width]
};

// A Gaussian in shared memory.
struct alignas(16) StagedGaussian {
  float x, y;
  ScaledConic conic;
  float opacity;
  float limit;  // where the exponent exceeds this, alpha is surely below kMinAlpha
  int32_t id;
};

// Indices come from the caller and are not believed: one that is out of range stands for a Gaussian nobody sees.
SPLAT_HD StagedGaussian stage(const RasterizeInputs& in, int32_t id) {
  if (id < 0 || id >= in.count) return {0.0f, 0.0f, {0.0f, 0.0f, 0.0f}, 0.0f, -1.0f, 0};
  const float* conic = in.conics + 3 * static_cast<int64_t>(id);
  const float opacity = in.opacities[id];
  return {in.means[2 * static_cast<int64_t>(id)], in.means[2 * static_cast<int64_t>(id) + 1],
          scaled_conic(conic[0], conic[1], conic[2]), opacity, visible_exponent(opacity) + kExponentSlack, id};
}

SPLAT_HD int64_t list_position(const RasterizeInputs& in, int64_t tile) {
  const int64_t offset = tile < in.tiles ? in.offsets[tile] : in.intersections;
  return offset < 0 ? 0 : (offset > in.intersections ? in.intersections : offset);
}

// Blends the colours [first_channel, first_channel + channels) of all pixels; alphas and last_ids are written with the
// first channel. One block of tile_size x tile_size threads per tile, with shared memory for as many StagedGaussian.
// Preconditions: 1 <= channels <= C; contiguous arrays of the shapes above; flatten_ids sorted as `intersect` does.
template <int C>
__global__ void rasterize(RasterizeInputs in, RasterizeOutputs out, int64_t first_channel, int channels) {
  extern __shared__ StagedGaussian staged[];
  const int threads = in.grid.tile_size * in.grid.tile_size;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t tile = blockIdx.x;
  const int64_t per_image = static_cast<int64_t>(in.grid.rows) * in.grid.columns;
  const int64_t image = tile / per_image;
  const int row = static_cast<int>(tile % per_image / in.grid.columns) * in.grid.tile_size + thread / in.grid.tile_size;
  const int column = static_cast<int>(tile % in.grid.columns) * in.grid.tile_size + thread % in.grid.tile_size;
  const bool inside = row < in.height && column < in.width;
  const float pixel_x = static_cast<float>(column) + 0.5f, pixel_y = static_cast<float>(row) + 0.5f;

  float transmittance = 1.0f;
  float blended[C];
#pragma unroll
  for (int k = 0; k < C; ++k) blended[k] = 0.0f;
  int32_t last = 0;
  bool finished = !inside;

  const int64_t end = list_position(in, tile + 1);
  for (int64_t start = list_position(in, tile); start < end; start += threads) {
    // Also keeps the batch before in shared memory until all have read it.
    if (__syncthreads_count(finished) == threads) break;
    if (start + thread < end) staged[thread] = stage(in, in.flatten_ids[start + thread]);
    __syncthreads();
    const int batch = static_cast<int>(end - start < threads ? end - start : threads);
    for (int i = 0; i < batch && !finished; ++i) {
      const StagedGaussian g = staged[i];
      const float exponent = gaussian_exponent(g.x - pixel_x, g.y - pixel_y, g.conic);
      if (!(exponent >= 0.0f && exponent <= g.limit)) continue;
      float alpha = g.opacity * exp2f(-exponent);
      // In this order NaN stays NaN, and is skipped.
      if (alpha > kMaxAlpha) alpha = kMaxAlpha;
      if (!(alpha >= kMinAlpha)) continue;
      const float next = transmittance * (1.0f - alpha);
      if (next <= kMinTransmittance) {
        finished = true;
        break;
      }
      const float weight = alpha * transmittance;
      const float* color = in.colors + static_cast<int64_t>(g.id) * in.channels + first_channel;
#pragma unroll
      for (int k = 0; k < C; ++k) {
        if (k < channels) blended[k] += weight * color[k];
      }
      transmittance = next;
      last = static_cast<int32_t>(start) + i;
    }
  }

  if (!inside) return;
  const int64_t pixel = (image * in.height + row) * in.width + column;
  float* color = out.colors + pixel * in.channels + first_channel;
  const float* background = in.backgrounds + image * in.channels + first_channel;
#pragma unroll
  for (int k = 0; k < C; ++k) {
    if (k < channels) color[k] = in.backgrounds == nullptr ? blended[k] : blended[k] + transmittance * background[k];
  }
  if (first_channel == 0) {
    out.alphas[pixel] = 1.0f - transmittance;
    out.last_ids[pixel] = last;
  }
}

}  // namespace kernels
}  // namespace splat
