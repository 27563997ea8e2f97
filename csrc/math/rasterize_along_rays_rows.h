// The arrays of splat::rasterize_along_rays and of its gradient.
#pragma once

#include "rasterize_rows.h"

namespace splat {

struct AlongRaysInputs {
  RasterizeInputs lists;         // without means and conics
  const float *means, *frames;   // [sets, gaussians, 3], [sets, gaussians, 3, 3]
  const float* rays;             // [images, height, width, 6]
  int64_t sets, gaussians, cameras;  // gaussians and cameras of each set; images are [sets, cameras]
  // Channels that are not only colours, -1 if there are none. One shows, in place of its colour, how far away the ray is
  // nearest to the mean, as the Gaussian's frame measures it; three from `normal_channel` on have the side of a normal
  // that the ray comes from.
  int64_t distance_channel, normal_channel;
};

// What the pixels of a Gaussian add up to: add_ray_sums in ray_gaussian.h. Colours follow in a slot.
constexpr int kRaySums = 13;

// The gradients by the inputs of the same name, each shaped like it.
struct AlongRaysGradientOutputs {
  float *means, *frames, *colors, *opacities;
};

}  // namespace splat
