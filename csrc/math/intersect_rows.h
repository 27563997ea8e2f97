// The Gaussians that splat::intersect lists, in arrays of the operator's shapes.
#pragma once

#include "sort_keys.h"
#include "tile_reach.h"

namespace splat {

struct IntersectInputs {
  const float *means, *depths, *conics, *opacities;  // [count, 2], [count], [count, 3], [count]
  const int32_t* radii;                              // [count, 2]
  const int64_t* image_ids;                          // [count]; null if dense; then gaussians > 0
  int64_t count, gaussians, images;                  // I N or M, N or 0 if packed, I
  TileGrid grid;
  int tile_bits;  // of a tile_key
};

SPLAT_HD TileReach reach_of(const IntersectInputs& in, int64_t i) {
  return tile_reach(in.grid, in.means[2 * i], in.means[2 * i + 1], in.radii[2 * i], in.radii[2 * i + 1],
                    in.conics[3 * i], in.conics[3 * i + 1], in.conics[3 * i + 2], in.opacities[i]);
}

SPLAT_HD int64_t image_of(const IntersectInputs& in, int64_t i) {
  return in.image_ids == nullptr ? i / in.gaussians : in.image_ids[i];
}

}  // namespace splat
