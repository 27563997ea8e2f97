// The CPU rasterizer's inner parts: one block of at most 16 x 16 pixels, forward and backward. Their sources,
// rasterize_block_source.h and rasterize_block_backward_source.h, are compiled once per instruction set;
// rasterize_tiles.h chooses among the results.
#pragma once

#include "../math/blend.h"

namespace splat {

constexpr int kBlockSide = 16;
constexpr int kBlockPixels = kBlockSide * kBlockSide;

// A Gaussian as the rasterizer reads it: half a cache line.
struct alignas(32) GaussianRecord {
  float x, y;
  ScaledConic conic;
  float opacity;
  float limit;  // above this exponent alpha is certainly below kMinAlpha; negative if the Gaussian is not visible
  float unused;
};

struct BlockScene {
  const GaussianRecord* records;
  const float* colors;         // [records, channels]
  const int32_t* flatten_ids;  // Gaussians of each tile, front to back
  int channels;
  int64_t image_width;  // pixels in a row of an image
  float max_alpha;
};

struct BlockJob {
  int left, top;            // of the block, in pixels
  int columns, rows;        // 1..16
  int64_t first_pixel;      // index of the image's first pixel in the outputs
  int32_t begin, end;       // of its tile's list in flatten_ids
  const float* background;  // [channels] or null
};

// What the forward pass writes.
struct BlockImages {
  float* colors;  // [images, height, width, channels]
  float* alphas;  // [images, height, width]
  int32_t* last;  // [images, height, width]
};

// What one tile adds to the gradients of one Gaussian: sums over the tile's pixels of s, s dx, s dy, s dx^2, s dx dy
// and s dy^2, where s is the derivative by the logarithm of alpha, and (dx, dy) points from the pixel to the mean. The
// gradients of mean, conic and opacity follow from these six. In a slot they are followed by the sums of
// |s (a dx + b dy)| and |s (b dx + c dy)|, if `absolute`, and by the gradients of the colours.
constexpr int kMoments = 6;

struct BlockGradients {
  const float* alphas;                // [images, height, width], from the forward pass, as are:
  const int32_t* last;                // [images, height, width]
  const float *v_colors, *v_alphas;   // gradients of the images; v_alphas may be null
  bool absolute;                      // whether slots have the two sums of absolute values
  float* slots;                       // [entries of flatten_ids, kMoments + 2 * absolute + channels], output
};

SPLAT_HD int slot_size(bool absolute, int channels) { return kMoments + (absolute ? 2 : 0) + channels; }

// Floats of scratch memory that rasterize_block_backward needs, aligned to 64 bytes.
SPLAT_HD int64_t backward_scratch(int channels) { return int64_t{channels} * (kBlockPixels + kBlockSide); }

namespace baseline {
void rasterize_block(const BlockScene& scene, const BlockJob& job, const BlockImages& images);
int32_t rasterize_block_backward(const BlockScene& scene, const BlockJob& job, const BlockGradients& gradients,
                                 int32_t filled, float* scratch);
}
namespace avx2 {
void rasterize_block(const BlockScene& scene, const BlockJob& job, const BlockImages& images);
int32_t rasterize_block_backward(const BlockScene& scene, const BlockJob& job, const BlockGradients& gradients,
                                 int32_t filled, float* scratch);
}
namespace avx512 {
void rasterize_block(const BlockScene& scene, const BlockJob& job, const BlockImages& images);
int32_t rasterize_block_backward(const BlockScene& scene, const BlockJob& job, const BlockGradients& gradients,
                                 int32_t filled, float* scratch);
}

}  // namespace splat
