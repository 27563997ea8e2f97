// The inner parts of rasterize_2dgs on the CPU, as rasterize_block.h has those of rasterize. Their source,
// surfel_block_source.h, is compiled once per instruction set.
#pragma once

#include "../math/rasterize_2dgs_rows.h"
#include "../math/surfel.h"
#include "rasterize_block.h"

namespace splat {

struct SurfelScene {
  const Surfel* surfels;
  const float *colors, *depths;  // [surfels, channels], [surfels]
  const int32_t* flatten_ids;
  int channels;
  int64_t image_width;
  float max_alpha;
};

// Slots have kSurfelSums values and the gradients of the colours.
#define SPLAT_SURFEL_BLOCK                                                                                         \
  void rasterize_surfels(const SurfelScene& scene, const BlockJob& job, const Rasterize2dgsOutputs& images);       \
  int32_t rasterize_surfels_backward(const SurfelScene& scene, const BlockJob& job,                                \
                                     const Rasterize2dgsGradients& gradients, float* slots, int32_t filled,        \
                                     float* scratch)

namespace baseline {
SPLAT_SURFEL_BLOCK;
}
namespace avx2 {
SPLAT_SURFEL_BLOCK;
}
namespace avx512 {
SPLAT_SURFEL_BLOCK;
}

}  // namespace splat
