// The arrays of splat::rasterize_2dgs and of its gradient.
#pragma once

#include "rasterize_rows.h"

namespace splat {

struct Rasterize2dgsInputs {
  RasterizeInputs lists;                // without conics
  const float *ray_transforms, *depths;  // [count, 9], [count]
};

struct Rasterize2dgsOutputs {
  float *colors, *alphas;             // [images, height, width, channels], [images, height, width], as are all others
  float *distortions, *medians;       // of the depths; distortions may be null
  float* depth_sums;                  // of weight and depth
  int32_t *last_ids, *median_ids;     // where in flatten_ids the last Gaussian is, and that of the median; or -1
};

struct Rasterize2dgsGradients {
  // Incoming: shaped like the outputs; all but the colours may be null.
  const float *colors, *alphas, *distortions, *medians;
  // Of the forward pass.
  const float *drawn_alphas, *depth_sums;
  const int32_t *last_ids, *median_ids;
};

// The gradients by the inputs of the same name, each shaped like it.
struct Rasterize2dgsGradientOutputs {
  float *means, *means_abs, *ray_transforms, *colors, *opacities, *depths;  // means_abs may be null
};

}  // namespace splat
