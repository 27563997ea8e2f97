// The CPU rasterizer's inner part: one block of at most 16 x 16 pixels. rasterize_block_source.h holds its source,
// which is compiled once per instruction set; rasterize.cpp chooses among the results.
#pragma once

#include "../math/blend.h"

namespace splat {

constexpr int kBlockSide = 16;

// A Gaussian as the rasterizer reads it: half a cache line.
struct alignas(32) GaussianRecord {
  float x, y;
  ScaledConic conic;
  float opacity;
  float limit;  // where the exponent exceeds this, alpha is surely below kMinAlpha; negative: nowhere visible
  float unused;
};

struct BlockScene {
  const GaussianRecord* records;
  const float* colors;         // [records, channels]
  const int32_t* flatten_ids;  // Gaussians of each tile, front to back
  int channels;
  int64_t image_width;  // pixels from one row of an image to the next
  float* out_colors;    // [images, height, width, channels]
  float* out_alphas;    // [images, height, width]
  int32_t* out_last;    // [images, height, width]
};

struct BlockJob {
  int left, top;            // of the block, in pixels
  int columns, rows;        // 1..16
  int64_t first_pixel;      // index of the image's first pixel in the outputs
  int32_t begin, end;       // of its tile's list in flatten_ids
  const float* background;  // [channels] or null
};

namespace baseline {
void rasterize_block(const BlockScene& scene, const BlockJob& job);
}
namespace avx2 {
void rasterize_block(const BlockScene& scene, const BlockJob& job);
}
namespace avx512 {
void rasterize_block(const BlockScene& scene, const BlockJob& job);
}

}  // namespace splat
