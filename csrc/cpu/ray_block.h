// The inner parts of rasterize_along_rays on the CPU, as rasterize_block.h has those of rasterize. Their source,
// ray_block_source.h, is compiled once per instruction set.
#pragma once

#include "../math/ray_gaussian.h"
#include "rasterize_block.h"

namespace splat {

// Without records.
struct RayScene : BlockScene {
  const RayGaussian* gaussians;
  const AlongRaysInputs* in;
};

// Slots have kRaySums values and the gradients of the colours.
#define SPLAT_RAY_BLOCK                                                                                              \
  void rasterize_rays(const RayScene& scene, const BlockJob& job, const BlockImages& images);                        \
  int32_t rasterize_rays_backward(const RayScene& scene, const BlockJob& job, const BlockGradients& gradients,       \
                                  int32_t filled, float* scratch)

namespace baseline {
SPLAT_RAY_BLOCK;
}
namespace avx2 {
SPLAT_RAY_BLOCK;
}
namespace avx512 {
SPLAT_RAY_BLOCK;
}

}  // namespace splat
