// The arrays of splat::rasterize and of its gradient.
#pragma once

#include "tile_grid.h"

namespace splat {

struct RasterizeInputs {
  const float *means, *conics, *colors, *opacities;  // [count, 2], [count, 3], [count, channels], [count]
  const float* backgrounds;                          // [images, channels] or null
  const bool* masks;                                 // [images, rows, columns] or null; where false, nothing is drawn
  const int32_t *offsets, *flatten_ids;              // [images, rows, columns], [intersections]
  int64_t count, channels, intersections, tiles;     // tiles: of all images
  int width, height;
  float max_alpha;  // the largest that is drawn
  TileGrid grid;
};

struct RasterizeOutputs {
  float *colors, *alphas;  // [images, height, width, channels], [images, height, width]
  int32_t* last_ids;       // [images, height, width]: where in flatten_ids the last Gaussian is that the pixel blends
};

struct RasterizeGradients {
  const float *colors, *alphas;  // incoming: [images, height, width, channels], [images, height, width] or null
  const float* drawn_alphas;     // [images, height, width], results of the forward pass, as are
  const int32_t* last_ids;       // [images, height, width]
};

// The gradients by the inputs of the same name, each shaped like it.
struct RasterizeGradientOutputs {
  float *means, *means_abs, *conics, *colors, *opacities;  // means_abs may be null
};

}  // namespace splat
